// The targets of pairs of pages, and what is wrong with them.
#pragma once

#include <memory>
#include <string>

#include "data/pairs.h"
#include "data/targets.h"
#include "model/task_config.h"

namespace plimsoll {

std::shared_ptr<const PairTargets> class_pair_targets(const TaskConfig& config);
std::shared_ptr<const PairTargets> preference_targets();
std::shared_ptr<const PairTargets> similarity_targets();

// Reads `group` of a page, a name; pages of one group belong together.
const TargetReader& page_group_reader();
// Returns an empty text if the page has no group.
std::string group_of_page(const Page& page);

}  // namespace plimsoll
