// Compiles the examples of src/transform.
#include <set>
#include <string>
#include <vector>

#include "transform/early_updates.h"
#include "transform/offload.h"
#include "transform/recompute.h"
#include "transform/recompute_choice.h"

namespace plimsoll::examples {

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
