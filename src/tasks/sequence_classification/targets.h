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

// Says of each class, in their order, whether the page has it; `label` is a list of 0 and 1.
struct MultiHot {
  std::vector<bool> has;
};

// `label` of a page: a name, several names, a number, or several classes as multi-hot.
struct PageLabel final : PageTarget {
  std::variant<std::string, std::vector<std::string>, double, MultiHot> value;

  // Returns the names, one or more; those of a multi-hot label if `classes` has as many. None for a number.
  std::vector<std::string> names(const std::vector<std::string>& classes = {}) const;
  std::size_t positives() const override;  // an empty list has none
};
// Returns nullptr if the page has none.
const PageLabel* label_of(const Page& page);

const TargetReader& page_label_reader();
std::shared_ptr<const Targets> page_label_targets(const TaskConfig& config);

// Returns the classes of the data set, in alphabetical order, and its problem type. Unless `config` names the problem,
// most labels decide it, and findings say what else may have been meant; if `config` names it, numbers may be classes,
// too. Classes without names are called as `transformers` calls them, LABEL_0 and so on. Labels that do not fit it are
// skipped. If no page has a label, throws the first fault, or DataError.
SeenTargets page_labels_in(const PageSource& pages, const TaskConfig& config);

Problem unknown_class_problem(const Page& page, const std::string& name, const LabelSet& labels);

}  // namespace plimsoll
