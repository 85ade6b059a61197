// Compiles the examples of src/compress.
#include "base/work_folder.h"
#include "bundle/model_place.h"
#include "compress/fewer_layers.h"
#include "compress/mask_gradients.h"
#include "compress/mask_search.h"
#include "compress/prune.h"
#include "compress/quantize.h"
#include "compress/vocabulary.h"

namespace plimsoll::examples {

void of_vocabulary(const ModelBundle& bundle, const TokenizedPages& pages) {
#include "compress/vocabulary.h.inc"
}

void of_quantize(const ModelBundle& bundle) {
#include "compress/quantize.h.inc"
}

void of_fewer_layers(const ModelBundle& bundle) {
#include "compress/fewer_layers.h.inc"
}

void of_pruned_units(const ModelBundle& bundle, double keys_per_row) {
#include "compress/pruned_units.h.inc"
}

void of_mask_gradients(const ModelBundle& bundle, const Session& session, const WindowPass& pass,
                       std::vector<WeighedUnits>& groups) {
#include "compress/mask_gradients.h.inc"
}

void of_mask_search(const std::vector<WeighedUnits>& groups) {
#include "compress/mask_search.h.inc"
}

void of_pruned_model(const ModelBundle& bundle, const std::vector<WeighedUnits>& groups, const Masks& masks,
                     const PrunedModel::Read& read) {
#include "compress/pruned_model.h.inc"
}

void of_prune(const ModelBundle& bundle, const Dataset& dataset, const PruneOptions& options, Backend& backend) {
#include "compress/prune.h.inc"
}

}  // namespace plimsoll::examples
