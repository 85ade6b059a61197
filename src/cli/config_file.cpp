#include "cli/config_file.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace plimsoll {
namespace {

std::string text_of(const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

class ConfigReader : public CLI::ConfigTOML {
 public:
  explicit ConfigReader(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    std::vector<CLI::ConfigItem> found;
    if (first != std::string::npos && text[first] == '{') {
      found = from_json(text);
    } else {
      std::istringstream stream(text);
      found = CLI::ConfigTOML::from_config(stream);
    }
    for (CLI::ConfigItem& item : found) {
      std::replace(item.name.begin(), item.name.end(), '_', '-');
      // The options are those of the command that was given.
      for (const CLI::App* command : app_.get_subcommands()) item.parents = {command->get_name()};
    }
    return found;
  }

 private:
  static std::vector<CLI::ConfigItem> from_json(const std::string& text) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    if (!object.is_object()) {
      throw UsageError({.what = "the config file is not a JSON object",
                        .where = "--config",
                        .allowed = R"({"learning_rate": 5e-5, "max_steps": 1000})"});
    }
    std::vector<CLI::ConfigItem> found;
    for (const auto& [name, value] : object.items()) {
      if (value.is_null()) continue;
      CLI::ConfigItem item;
      item.name = name;
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
