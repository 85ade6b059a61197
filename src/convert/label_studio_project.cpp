#include "convert/label_studio_project.h"

#include <algorithm>
#include <string_view>

#include "convert/readers.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

// Adds the labels of the regions in a value.
void collect_labels(const nlohmann::json& value, std::set<std::string>& labels) {
  for (const auto& [key, member] : value.items()) {
    if (member.is_structured()) collect_labels(member, labels);
    if (!value.is_object() || !key.ends_with("labels") || !member.is_array()) continue;
    for (const nlohmann::json& label : member) {
      if (label.is_string()) labels.insert(label.get<std::string>());
    }
  }
}

}  // namespace

LabelStudioProject label_studio_project(const std::string& text, const std::vector<JsonItem>& tasks) {
  std::set<std::string> labels;
  for (const JsonItem& task : tasks) {
    const nlohmann::json json = parse_json(task.text);
    for (const char* key : {"annotations", "completions"}) {
      if (json.is_object() && json.contains(key)) collect_labels(json.at(key), labels);
    }
  }
  LabelStudioProject project{
      .linked = text.find("\"relation\"") != std::string::npos, .labelled = !labels.empty(), .tags = {}};
  const auto has_tag = [](const std::string& label) {
    return label.size() > 2 && label[1] == '-' && std::string_view("BIESLU").find(label[0]) != std::string_view::npos;
  };
  const auto begins = [](const std::string& label) { return label.starts_with("B-"); };
  const bool all = std::ranges::any_of(labels, begins) && std::ranges::all_of(labels, [&](const std::string& label) {
                     return has_tag(label) || is_outside(label);
                   });
  for (const std::string& label : labels) {
    if (!has_tag(label)) continue;
    const std::string type = label.substr(1);
    const bool with_others = label[0] == 'B' ? labels.contains("I" + type) : labels.contains("B" + type);
    if (all || with_others) project.tags.insert(label);
  }
  return project;
}

}  // namespace plimsoll
