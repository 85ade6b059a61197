#include "cli/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>

#include "base/counted.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/elsewhere.h"
#include "cli/usage.h"
#include "data/page.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

std::string text_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class ConfigReader : public CLI::ConfigTOML {
 public:
  explicit ConfigReader(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::string text{std::istreambuf_iterator<char>(input), {}};
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    std::vector<CLI::ConfigItem> found;
    if (first != std::string::npos && text[first] == '{') {
      found = from_json(text);
    } else {
      refuse_yaml(text);
      refuse_long_sections(text);
      std::istringstream stream(text);
      found = CLI::ConfigTOML::from_config(stream);
    }
    // How CLI11 marks where a [section] begins and ends.
    std::erase_if(found, [](const CLI::ConfigItem& item) { return item.name == "++" || item.name == "--"; });
    for (CLI::ConfigItem& item : found) {
      std::replace(item.name.begin(), item.name.end(), '_', '-');
      // The options are those of the command that was given.
      for (const CLI::App* command : app_.get_subcommands()) {
        if (!item.parents.empty() && !is_section_for(*command, item.parents)) {
          throw UsageError({.what = "the config file has a section for another command",
                            .where = "--config",
                            .found = fmt::format("[{}]", fmt::join(item.parents, ".")),
                            .allowed = fmt::format("no section, or [{}]{}", command->get_name(),
                                                   command->get_name() == "plan" ? " or [train]" : ""),
                            .remedy = "use one config file per command"});
        }
        const CLI::Option* const option = command->get_option_no_throw("--" + item.name);
        if (option == nullptr) {
          if (passes_over(command->get_name(), "--" + item.name, fmt::format("{}", fmt::join(item.inputs, " ")),
                          "--config")) {
            item.name.clear();
            break;
          }
          throw UsageError(unknown_option_problem(*command, "--" + item.name, "--config"));
        }
        if (option->get_items_expected_max() <= 1) join(item.inputs);
        item.parents = {command->get_name()};
      }
    }
    std::erase_if(found, [](const CLI::ConfigItem& item) { return item.name.empty(); });
    return found;
  }

 private:
  // The parser's time grows with the square of a name's parts.
  static void refuse_long_sections(const std::string& text) {
    constexpr std::size_t kLongest = 200;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string::npos || line[begin] != '[' || line.size() <= kLongest) continue;
      throw UsageError({.what = "the name of a section of the config file is too long",
                        .where = "--config",
                        .found = line.substr(begin, 60),
                        .allowed = "a command's name: [train]",
                        .remedy = "write all options at the top level, or in that section"});
    }
  }

  // TOML would be read out of it: an option that is called "max_steps: 1000".
  static void refuse_yaml(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string::npos || line[begin] == '#') continue;
      const std::size_t separator = line.find_first_of(":=[\"", begin);
      const bool is_yaml = line.starts_with("---") || (separator != std::string::npos && line[separator] == ':');
      if (!is_yaml) return;
      throw UsageError({.what = "the config file is YAML",
                        .where = "--config",
                        .found = line.substr(begin, 60),
                        .allowed = "JSON or TOML: {\"max_steps\": 1000} or max_steps = 1000",
                        .remedy =
                            "make JSON of it: python -c \"import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), "
                            "sys.stdout)\" < FILE.yaml > FILE.json"});
    }
  }

  // `plan` also reads what is meant for `train`: it plans that very run.
  static bool is_section_for(const CLI::App& command, const std::vector<std::string>& section) {
    return section.size() == 1 &&
           (section.front() == command.get_name() || (command.get_name() == "plan" && section.front() == "train"));
  }

  // A list stands for names with commas between: --labels O,B-TOTAL,I-TOTAL.
  static void join(std::vector<std::string>& values) {
    std::string joined;
    for (const std::string& value : values) joined += (joined.empty() ? "" : ",") + value;
    values = {joined};
  }

  // Options of TrainingArguments and LoraConfig that are objects.
  static bool takes_object(const std::string& name) {
    std::string option = "--" + name;
    std::replace(option.begin(), option.end(), '_', '-');
    const ElsewhereOption* const elsewhere = find_elsewhere(option);
    constexpr std::array kObjects = {"--lr-scheduler-kwargs", "--rank-pattern", "--alpha-pattern", "--class-weights"};
    return std::ranges::find(kObjects, option) != kObjects.end() ||
           (elsewhere != nullptr && elsewhere->effect != ElsewhereOption::Effect::kRefused);
  }

  // Returns what stands where the text stops being JSON.
  static std::string where_json_ends(const std::string& text) {
    try {
      const nlohmann::json parsed = nlohmann::json::parse(text);
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

  static std::vector<CLI::ConfigItem> from_json(const std::string& text) {
    if (!parse_json(text, "--config").is_object()) {
      throw UsageError({.what = "the config file is not a JSON object",
                        .where = "--config",
                        .found = where_json_ends(text),
                        .allowed = R"({"learning_rate": 5e-5, "max_steps": 1000})",
                        .remedy = "fix the JSON: usually it is an extra comma or an unclosed bracket"});
    }
    const auto object = nlohmann::ordered_json::parse(text);  // of patterns the first that matches counts
    std::vector<CLI::ConfigItem> found;
    for (const auto& [name, value] : object.items()) {
      if (value.is_null()) continue;
      CLI::ConfigItem item;
      item.name = name;
      if (value.is_object() && !takes_object(name)) {
        throw UsageError({.what = "an option has an invalid value",
                          .where = fmt::format("--config, \"{}\"", name),
                          .found = value.dump().substr(0, 60),
                          .allowed = "a string, a number, true or false, or a list of names",
                          .remedy = "write all options at the top level: {\"max_steps\": 1000, …}"});
      }
      if (value.is_array()) {
        for (const auto& part : value) item.inputs.push_back(text_of(part));
      } else {
        item.inputs.push_back(text_of(value));
      }
      found.push_back(std::move(item));
    }
    return found;
  }

  const CLI::App& app_;
};

}  // namespace

std::shared_ptr<CLI::Config> make_config_reader(const CLI::App& app) { return std::make_shared<ConfigReader>(app); }

}  // namespace plimsoll
