// An export of Label Studio says this as a whole, and no task of it says it alone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "convert/json_node.h"

namespace plimsoll {

// Holds what all tasks of an export say together.
struct LabelStudioProject {
  bool linked = false;    // some have relations; then pages without any say so, too
  bool labelled = false;  // some have labels of regions; else no word is known to be outside
  // The labels that are those of words, such as B-TOTAL and I-TOTAL: those whose type has B- and another one, or all if
  // all have tags.
  std::set<std::string> tags{};
};

// `text` is that of the file, and `tasks` are its tasks.
LabelStudioProject label_studio_project(const std::string& text, const std::vector<JsonItem>& tasks);

}  // namespace plimsoll
