// What a page's `label` is, and what windows of the page are trained towards.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "data/labels.h"
#include "data/targets.h"
#include "model/task_config.h"

namespace plimsoll {

// `label` of a page: a name, several names, or a number.
struct PageLabel final : PageTarget {
  std::variant<std::string, std::vector<std::string>, double> value;

  // The names, one or more; none for a number.
  std::vector<std::string> names() const;
};
// nullptr: the page has none.
const PageLabel* label_of(const Page& page);

const TargetReader& page_label_reader();
std::shared_ptr<const Targets> page_label_targets(const TaskConfig& config);

// The classes of the data set, in alphabetical order, and its problem type; where `config` says the problem, numbers
// may be classes too. Throws DataError if no page has a label, PageError for labels of different kinds.
TaskConfig page_labels_in(const PageSource& pages, const TaskConfig& config);

Problem unknown_class_problem(const Page& page, const std::string& name, const LabelSet& labels);

}  // namespace plimsoll
