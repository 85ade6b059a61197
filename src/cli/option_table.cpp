#include "cli/option_table.h"

#include <algorithm>
#include <string>

#include "base/lower_case.h"
#include "cli/arguments.h"
#include "cli/elsewhere.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

std::string keyword(const CLI::Option& option) {
  std::string name = option.get_lnames().empty() ? option.get_name(true) : option.get_lnames().front();
  std::ranges::replace(name, '-', '_');
  return lower_case(name);
}

std::string type_of(const CLI::Option& option, const OptionValues& values) {
  if (is_flag(option)) return "flag";
  if (!values.kind.empty() && values.kind != "choices") return values.kind;
  const std::string type = type_word(option);
  if (type == "FLOAT") return "float";
  if (type == "INT" || type == "UINT") return "int";
  if (type == "SIZE") return "size";
  for (const char* path : {"FILE", "DIR", "PATH", "MODEL"}) {
    if (type == path) return "path";
  }
  return "str";
}

Json row(const CLI::Option& option) {
  const OptionValues values = option_values(option);
  Json row = {{"name", keyword(option)},
              {"option", option.get_name(false)},
              {"group", option.get_group()},
              {"type", type_of(option, values)}};
  if (values.kind == "choices") row["choices"] = values.choices;
  if (!values.range.empty()) row["range"] = values.range;
  if (option.get_items_expected_max() > 1) row["several"] = true;
  if (option.get_required()) row["required"] = true;
  if (!option.nonpositional()) row["positional"] = true;
  if (!option.get_default_str().empty() && !is_flag(option)) row["default"] = option.get_default_str();
  row["description"] = option.get_description();
  return row;
}

}  // namespace

Json option_table(const CLI::App& app) {
  Json table = {{"version", PLIMSOLL_VERSION}, {"commands", Json::array()}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); })) {
    Json options = Json::array();
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty() || option == command->get_help_ptr()) continue;
      options.push_back(row(*option));
    }
    table["commands"].push_back(
        {{"name", command->get_name()}, {"description", command->get_description()}, {"options", options}});
  }
  table["elsewhere"] = Json::array();
  for (const ElsewhereOption& option : elsewhere_options()) {
    using Effect = ElsewhereOption::Effect;
    std::string name(option.name.substr(2));
    std::ranges::replace(name, '-', '_');
    Json row = {{"name", name},
                {"here", option.here},
                {"accepted", option.effect == Effect::kAny     ? "always"
                             : option.effect == Effect::kUsual ? "if it asks for nothing"
                                                               : "never"},
                {"note", option.note}};
    if (!option.usual.empty()) row["usual"] = option.usual;
    table["elsewhere"].push_back(row);
  }
  return table;
}

}  // namespace plimsoll
