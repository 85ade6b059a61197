#include "cli/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/in_quotes.h"
#include "cli/arguments.h"
#include "cli/elsewhere.h"
#include "cli/toml.h"
#include "cli/usage.h"
#include "data/page.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// What a file says about one option.
struct Entry {
  std::string section, name;
  Json value;
  std::string line;  // "line 3", if the parser knows it
};

// Reads config files for CLI11.
class ConfigReader : public CLI::Config {
 public:
  ConfigReader(const CLI::App& app, ConfigPlaces& places) : app_(app), places_(places) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::string text{std::istreambuf_iterator<char>(input), {}};
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    const std::string file = fmt::format("{}", fmt::join(app_.get_config_ptr()->results(), ", "));
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) {
      throw UsageError({.what = "the config file is empty",
                        .where = "--config " + file,
                        .found = counted(text.size(), "byte"),
                        .allowed = "a file of options: {\"max_steps\": 1000} or max_steps = 1000",
                        .remedy = "write the file again, or omit --config"});
    }
    // TOML may begin with a section: [train].
    const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
    const bool is_list =
        text[first] == '[' && second != std::string::npos && (text[second] == ']' || text[second] == '{');
    const bool is_json = text[first] == '{' || is_list;
    std::vector<CLI::ConfigItem> read;
    // The options are those of the command that was given.
    for (const CLI::App* const command : app_.get_subcommands()) {
      for (const Entry& entry : is_json ? from_json(text, file) : from_toml(text, file)) {
        if (std::optional<CLI::ConfigItem> item = item_of(*command, entry, place_of(file, entry.line))) {
          read.push_back(std::move(*item));
        }
      }
    }
    return read;
  }

 private:
  // Returns what CLI11 is told of an entry; nothing if the command ignores such an option. Throws UsageError.
  std::optional<CLI::ConfigItem> item_of(const CLI::App& command, const Entry& entry, const std::string& place) const {
    refuse_other_section(command, entry, place);
    const std::string option = with_dashes("--" + entry.name), where = option + ", " + place;
    CLI::ConfigItem item{.parents = {command.get_name()}, .name = option.substr(2), .inputs = inputs_of(entry, place)};
    if (option == "--config" || option == "--help" || option == "--version") {
      throw UsageError({.what = fmt::format("{} stands in the config file", option),
                        .where = place,
                        .found = text_of(entry.value).substr(0, 60),
                        .allowed = fmt::format("{} on the command line alone", option),
                        .remedy = "remove it"});
    }
    const CLI::Option* const known = command.get_option_no_throw(option);
    if (known == nullptr) {
      const std::string value = fmt::format("{}", fmt::join(item.inputs, " "));
      if (passes_over(command.get_name(), option, value, place)) return std::nullopt;
      throw UsageError(unknown_option_problem(command, option, place));
    }
    if (const auto [before, is_new] = places_.emplace(option, place); !is_new) {
      throw UsageError({.what = "an option stands twice in the config file",
                        .where = place,
                        .found = fmt::format("{}, which stands at {}, too", entry.name, before->second),
                        .allowed = "each option once; underscores and dashes are the same",
                        .remedy = "remove one of them"});
    }
    refuse_no_path(*known, entry, where);
    if (is_flag(*known)) {
      const std::optional<bool> truth = truth_of(text_of(entry.value));
      if (!truth) throw bad_value(where, text_of(entry.value), "true or false");
      item.inputs = {*truth ? "true" : "false"};
    }
    if (known->get_items_expected_max() <= 1) item.inputs = {joined(item.inputs)};
    return item;
  }

  static std::string with_dashes(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }

  static std::string place_of(const std::string& file, const std::string& line) {
    return "--config " + file + (line.empty() ? "" : ", " + line);
  }

  static void refuse_other_section(const CLI::App& command, const Entry& entry, const std::string& place) {
    // `plan` also reads the section for `train`, because it plans that run.
    const bool plans = command.get_name() == "plan";
    if (entry.section.empty() || entry.section == command.get_name() || (plans && entry.section == "train")) return;
    throw UsageError({.what = "the config file has a section for another command",
                      .where = place,
                      .found = fmt::format("[{}]", entry.section),
                      .allowed = fmt::format("no section, or [{}]{}", command.get_name(), plans ? " or [train]" : ""),
                      .remedy = "use one config file per command"});
  }

  // A name with a comma stands in a list in JSON.
  static std::string joined(const std::vector<std::string>& names) {
    const bool plain = names.size() == 1 || std::ranges::none_of(names, [](const std::string& name) {
                         return name.find(',') != std::string::npos;
                       });
    return plain ? fmt::format("{}", fmt::join(names, ",")) : Json(names).dump();
  }

  // A list is the same as names separated by commas: --labels O,B-TOTAL,I-TOTAL.
  static std::vector<std::string> inputs_of(const Entry& entry, const std::string& place) {
    if (entry.value.is_object() && !takes_object(entry.name)) {
      throw UsageError({.what = "an option has an invalid value",
                        .where = fmt::format("{}, \"{}\"", place, entry.name),
                        .found = entry.value.dump().substr(0, 60),
                        .allowed = "a string, a number, true or false, or a list of names",
                        .remedy = "write all options at the top level, or in a section with the command's name"});
    }
    if (!entry.value.is_array()) return {text_of(entry.value)};
    std::vector<std::string> inputs;
    for (const Json& part : entry.value) inputs.push_back(text_of(part));
    return inputs;
  }

  // {"cache": true} is no file that is called "true".
  static void refuse_no_path(const CLI::Option& option, const Entry& entry, const std::string& where) {
    const std::string type = type_word(option);
    const bool latest = option.get_name() == "--resume-from-checkpoint" && entry.value.is_boolean();
    if (latest || (type != "FILE" && type != "DIR" && type != "PATH")) return;
    const auto is_text = [](const Json& value) {
      return value.is_string() && value.get_ref<const std::string&>().find('\0') == std::string::npos;
    };
    const Json list = entry.value.is_array() ? entry.value : Json::array({entry.value});
    if (std::ranges::all_of(list, is_text)) return;
    throw bad_value(where, entry.value.dump().substr(0, 60), "a path, in quotes");
  }

  // Options of TrainingArguments and LoraConfig that are objects.
  static bool takes_object(const std::string& name) {
    const std::string option = with_dashes("--" + name);
    const ElsewhereOption* const elsewhere = find_elsewhere(option);
    constexpr std::array kObjects = {"--lr-scheduler-kwargs", "--rank-pattern", "--alpha-pattern", "--class-weights"};
    return std::ranges::find(kObjects, option) != kObjects.end() ||
           (elsewhere != nullptr && elsewhere->effect != ElsewhereOption::Effect::kRefused);
  }

  // An object with the name of a command is its section.
  std::vector<Entry> entries_of(const Json& file, const std::map<std::string, std::size_t>& lines) const {
    const auto line_of = [&lines](const std::string& path) {
      const auto found = lines.find(path);
      return found == lines.end() ? std::string() : fmt::format("line {}", found->second);
    };
    const auto is_command = [this](const std::string& name) {
      return !app_.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; }).empty();
    };
    std::vector<Entry> entries;
    for (const auto& [name, value] : file.items()) {
      if (value.is_object() && is_command(name)) {
        for (const auto& [option, of_option] : value.items()) {
          entries.push_back({name, option, of_option, line_of(name + "." + option)});
        }
      } else {
        entries.push_back({"", name, value, line_of(name)});
      }
    }
    // JSON has no comments, so people write them as values.
    std::erase_if(entries, [](const Entry& entry) {
      return entry.value.is_null() || entry.name.starts_with("_comment") || entry.name.starts_with("//");
    });
    return entries;
  }

  std::vector<Entry> from_toml(const std::string& text, const std::string& file) const {
    refuse_yaml(text, file);
    try {
      const TomlFile parsed = parse_toml(text);
      return entries_of(parsed.values, parsed.lines);
    } catch (const TomlError& error) {
      std::istringstream lines(text);
      std::string line;
      for (std::size_t i = 0; i < error.line(); ++i) std::getline(lines, line);
      throw UsageError({.what = "the config file is not TOML",
                        .where = fmt::format("--config {}, line {}, column {}", file, error.line(), error.column()),
                        .found = fmt::format("{} ({})", in_quotes(line.substr(0, 60)), error.what()),
                        .allowed = "name = value: max_steps = 1000, bf16 = true, optim = \"adafactor\"",
                        .remedy = "fix this line; text needs quotes, and each name may occur once"});
    }
  }

  // Refuses YAML, whose first line would otherwise be reported as an error in TOML.
  static void refuse_yaml(const std::string& text, const std::string& file) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string::npos || line[begin] == '#') continue;
      const std::size_t separator = line.find_first_of(":=[\"", begin);
      const bool is_yaml = line.starts_with("---") || (separator != std::string::npos && line[separator] == ':');
      if (!is_yaml) return;
      throw UsageError({.what = "the config file is YAML",
                        .where = "--config " + file,
                        .found = line.substr(begin, 60),
                        .allowed = "JSON or TOML: {\"max_steps\": 1000} or max_steps = 1000",
                        .remedy =
                            "make JSON of it: python -c \"import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), "
                            "sys.stdout)\" < FILE.yaml > FILE.json"});
    }
  }

  // Returns the text at the place where it stops being JSON.
  static std::string where_json_ends(const std::string& text) {
    try {
      const Json parsed = Json::parse(text);
      return parsed.type_name();
    } catch (const nlohmann::json::parse_error& error) {
      const std::size_t at = std::min<std::size_t>(error.byte > 0 ? error.byte - 1 : 0, text.size());
      const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
      const std::size_t begin = at < 20 ? 0 : at - 20;
      return fmt::format("no valid JSON from byte {} on, in line {}: {}", at, line, in_quotes(text.substr(begin, 40)));
    } catch (const nlohmann::json::exception&) {
      return "a number that is too large";
    }
  }

  std::vector<Entry> from_json(const std::string& text, const std::string& file) const {
    const std::string place = place_of(file, "");
    if (!parse_json(text, place).is_object()) {
      throw UsageError({.what = "the config file is not a JSON object",
                        .where = place,
                        .found = where_json_ends(text),
                        .allowed = R"({"learning_rate": 5e-5, "max_steps": 1000})",
                        .remedy = "fix the JSON: usually it is an extra comma or an unclosed bracket"});
    }
    if (const std::optional<std::string> key = repeated_key(text)) {
      throw UsageError({.what = "a key occurs twice in an object of the config file",
                        .where = place,
                        .found = in_quotes(*key),
                        .allowed = "each key once",
                        .remedy = "remove one of them"});
    }
    const Json parsed = Json::parse(text);
    // A run's args.json says which options were given, and so repeats it.
    if (parsed.contains("given") && parsed["given"].is_object() && parsed.contains("fingerprints")) {
      return entries_of(parsed["given"], {});
    }
    return entries_of(parsed, {});  // ordered, because the first matching pattern counts
  }

  const CLI::App& app_;
  ConfigPlaces& places_;
};

}  // namespace

std::shared_ptr<CLI::Config> make_config_reader(const CLI::App& app, ConfigPlaces& places) {
  return std::make_shared<ConfigReader>(app, places);
}

Problem with_config_place(Problem problem, const ConfigPlaces& places, const std::vector<std::string>& arguments) {
  const auto found = places.find(problem.where);
  const auto is_typed = [&problem](const std::string& argument) {
    return argument == problem.where || argument.starts_with(problem.where + "=");
  };
  if (found != places.end() && std::ranges::none_of(arguments, is_typed)) problem.where += ", " + found->second;
  return problem;
}

}  // namespace plimsoll
