#include "cli/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "cli/arguments.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

constexpr std::size_t kManualWidth = 100;
constexpr const char* kGeneral = "General";  // options of every command, listed last
constexpr std::size_t kColumn = 36;          // where descriptions begin

// Wraps `text` to lines that end before kManualWidth; lines after the first begin at `indent`.
std::string wrapped_usage(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string out, word;
  std::size_t column = indent;
  while (words >> word) {
    if (column > indent && column + 1 + word.size() > kManualWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string entry(const std::string& name, const std::string& text) {
  std::string line = "  " + name;
  line += line.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - line.size(), ' ');
  return line + wrapped_usage(text, kColumn) + "\n";
}

// Returns "N" for whole numbers, "X" for other numbers, or what type_name() set.
std::string value_name(const CLI::Option& option) {
  if (is_flag(option)) return {};
  const std::string type = type_word(option);
  if (type.empty()) return {};
  if (type == "INT" || type == "UINT") return " N";
  if (type == "FLOAT") return " X";
  return " " + type;
}

std::string name_of(const CLI::Option& option) { return option.get_name(false, true); }

std::string explanation(const CLI::Option& option) {
  const std::string& value = option.get_default_str();
  const bool shows_default = option.get_items_expected_min() > 0 && !value.empty() && !option.get_required();
  return option.get_description() + (shows_default ? fmt::format(" (default: {})", value) : "");
}

bool is_positional(const CLI::Option& option) { return !option.nonpositional(); }

std::string usage_line(const CLI::App& app, const std::string& name) {
  std::string usage = name;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* each) { return is_positional(*each); })) {
    usage += option->get_required() ? " " + name_of(*option) : " [" + name_of(*option) + "]";
  }
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* each) { return each->get_required() && !is_positional(*each); })) {
    usage += fmt::format(" {}{}", name_of(*option), value_name(*option));
  }
  return usage + " [options]";
}

}  // namespace

std::string Manual::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  const auto commands = app->get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); });
  const bool top = !commands.empty();
  std::string out = app->get_description() + "\n\nUsage: ";
  out += top ? fmt::format("{} COMMAND [options]", name) : wrapped_usage(usage_line(*app, name), 12);
  out += "\n";
  if (top) out += "\nCommands\n";
  for (const CLI::App* command : commands) out += entry(command->get_name(), command->get_description());
  std::vector<std::string> groups = app->get_groups();
  std::stable_partition(groups.begin(), groups.end(), [](const std::string& each) { return each != kGeneral; });
  for (const std::string& group : groups) {
    const auto options = app->get_options([&group](const CLI::Option* each) { return each->get_group() == group; });
    if (group.empty() || options.empty()) continue;
    out += fmt::format("\n{}\n", group);
    for (const CLI::Option* option : options) {
      out += entry(name_of(*option) + value_name(*option), explanation(*option));
    }
  }
  // The command's own footer; CLI11 gives it its parent's if it has none.
  const std::string footer = app->get_footer();
  const bool inherited = app->get_parent() != nullptr && footer == app->get_parent()->get_footer();
  if (!footer.empty() && !inherited) out += footer + "\n";
  return out;
}

}  // namespace plimsoll
