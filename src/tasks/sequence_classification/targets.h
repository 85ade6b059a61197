// What a page's `label` is, and the targets of its windows.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "data/labels.h"
#include "data/targets.h"
#include "model/task_config.h"
#include "tasks/task.h"

namespace plimsoll {

// `label` of a page: a name, several names, or a number.
struct PageLabel final : PageTarget {
  std::variant<std::string, std::vector<std::string>, double> value;

  // Returns the names, one or more; none for a number.
  std::vector<std::string> names() const;
  std::size_t positives() const override;  // an empty list has none
};
// Returns nullptr if the page has none.
const PageLabel* label_of(const Page& page);

const TargetReader& page_label_reader();
std::shared_ptr<const Targets> page_label_targets(const TaskConfig& config);

// Returns the classes of the data set, in alphabetical order, and its problem type. Unless `config` names the problem,
// most labels decide it, and findings say what else may have been meant; if `config` names it, numbers may be classes,
// too. Labels that do not fit it are skipped. If no page has a label, throws the first fault, or DataError.
SeenTargets page_labels_in(const PageSource& pages, const TaskConfig& config);

Problem unknown_class_problem(const Page& page, const std::string& name, const LabelSet& labels);

}  // namespace plimsoll
