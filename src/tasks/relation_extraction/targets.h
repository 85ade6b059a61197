// The targets of a page's windows: which of their entities are linked.
#pragma once

#include <memory>
#include <optional>

#include "data/labels.h"
#include "data/targets.h"
#include "model/task_config.h"

namespace plimsoll {

// An entity belongs to the windows that hold its first token; a pair counts if both belong to the window and links may
// join their labels (config.link_labels). `with_links` is false for prediction, which only needs the entities. In
// `predicts`, the rows of first tokens say at which word their entity begins. Entities come in the page's order.
std::shared_ptr<const Targets> link_targets(const TaskConfig& config, bool with_links);

// Returns the first entity of the page whose label is not in the set, as a problem.
std::optional<Problem> find_unknown_entity(const Page& page, const LabelSet& labels);

}  // namespace plimsoll
