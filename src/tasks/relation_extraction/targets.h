// What windows of a page are trained towards: which of their entities are linked.
#pragma once

#include <memory>
#include <optional>

#include "data/labels.h"
#include "data/targets.h"
#include "model/task_config.h"
#include "tasks/relation_extraction/head.h"

namespace plimsoll {

// An entity belongs to the windows that hold its first token; a pair counts where both belong, and where links join
// such labels (config.link_labels). `with_links`: false for prediction, which needs the entities alone. The rows of
// first tokens say in `predicts` at which word their entity begins. Entities come in the page's order.
std::shared_ptr<const Targets> link_targets(const TaskConfig& config, bool with_links,
                                            std::int64_t most_entities = kMostEntities);

// The first entity of the page whose label the set lacks, as a problem.
std::optional<Problem> find_unknown_entity(const Page& page, const LabelSet& labels);

}  // namespace plimsoll
