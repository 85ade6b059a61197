// Compiles the examples of src/transform.
#include <set>
#include <string>
#include <vector>

#include "fit/step_graphs.h"
#include "transform/chunked_loss.h"
#include "transform/distillation.h"
#include "transform/early_updates.h"
#include "transform/gathered_products.h"
#include "transform/head_parts.h"
#include "transform/int8_products.h"
#include "transform/joined_sums.h"
#include "transform/key_value_cache.h"
#include "transform/offload.h"
#include "transform/partial_sums.h"
#include "transform/recompute.h"
#include "transform/recompute_choice.h"

namespace plimsoll::examples {

void of_distillation(const Graph& student, const Graph& teacher, ValueId loss, ValueId logits,
                     const std::vector<ValueId>& trained, const std::set<std::string>& layers,
                     const std::set<std::string>& teacher_layers) {
#include "transform/distillation.h.inc"
}

void of_chunked_loss(Graph graph) {
#include "transform/chunked_loss.h.inc"
}

void of_head_parts(Graph graph) {
#include "transform/head_parts.h.inc"
}

void of_int8_products(Graph graph) {
#include "transform/int8_products.h.inc"
}

void of_key_value_cache(const ModelGraph& model, StepGraph& step, std::int64_t samples, std::int64_t tokens) {
#include "transform/key_value_cache.h.inc"
}

void of_gathered_products(Graph graph) {
#include "transform/gathered_products.h.inc"
}

void of_joined_sums(Graph graph) {
#include "transform/joined_sums.h.inc"
}

void of_partial_sums(Graph graph, const PartialSumsOf& parts) {
#include "transform/partial_sums.h.inc"
}

void of_early_updates(Graph graph) {
#include "transform/early_updates.h.inc"
}

void of_offload(Graph graph, const OffloadOptions& options, OffloadLayout& layout) {
#include "transform/offload.h.inc"
}

void of_recompute_choice(Graph graph, const std::set<std::string>& anchors, const NodeSeconds& seconds) {
#include "transform/recompute_choice.h.inc"
}

}  // namespace plimsoll::examples
