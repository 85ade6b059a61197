#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "formats/json.h"

namespace plimsoll {
namespace {

// Returns a number as a number, so that programs need not parse it, and a text unchanged.
nlohmann::json value_of(const std::string& text) {
  const auto parsed = parse_json(text);
  return parsed.is_number() ? parsed : nlohmann::json(text);
}

nlohmann::json value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return option.count() > 0 && option.as<bool>();  // a flag
  if (option.count() == 0) return value_of(option.get_default_str());
  const std::vector<std::string> results = option.reduced_results();
  if (results.size() == 1) return value_of(results.front());
  return results;
}

}  // namespace

std::string Option::name() const { return parsed_->get_name(); }

Option* Option::type_name(const std::string& word) {
  parsed_->type_name(word);
  return this;
}

Option* Option::group(const std::string& heading) {
  parsed_->group(heading);
  return this;
}

Option* Option::required(bool is) {
  parsed_->required(is);
  return this;
}

Option* Option::capture_default_str() {
  parsed_->capture_default_str();
  return this;
}

Option* Option::repeatable() {
  parsed_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return this;
}

Option* Option::repeatable_text() {
  parsed_->allow_extra_args(false);  // CLI11 would otherwise take "[a,b]" for a list
  return this;
}

Option* Option::transform(std::function<std::string(std::string)> change) {
  parsed_->transform(std::move(change));
  return this;
}

Option* Option::check(std::function<void(const std::string&)> check, const std::string& range, const char* kind) {
  const auto checked = [check = std::move(check)](const std::string& text) {
    check(text);
    return std::string();
  };
  parsed_->check(checked, range, kind);
  return this;
}

Option* Command::keep(CLI::Option* option) { return &options_.emplace_back(option); }

void Command::heading(const std::string& text) { parsed_.option_defaults()->group(text); }

Option* Command::add_option(const std::string& name, std::string& value, const std::string& description) {
  return keep(parsed_.add_option(name, value, description));
}

Option* Command::add_option(const std::string& name, std::filesystem::path& value, const std::string& description) {
  return keep(parsed_.add_option(name, value, description));
}

Option* Command::add_option(const std::string& name, int& value, const std::string& description) {
  return keep(parsed_.add_option(name, value, description));
}

Option* Command::add_option(const std::string& name, std::int64_t& value, const std::string& description) {
  return keep(parsed_.add_option(name, value, description));
}

Option* Command::add_option(const std::string& name, std::uint64_t& value, const std::string& description) {
  return keep(parsed_.add_option(name, value, description));
}

Option* Command::add_option(const std::string& name, double& value, const std::string& description) {
  return keep(parsed_.add_option(name, value, description));
}

Option* Command::add_option(const std::string& name, std::vector<std::string>& value, const std::string& description) {
  return keep(parsed_.add_option(name, value, description));
}

Option* Command::add_flag(const std::string& name, bool& value, const std::string& description) {
  return keep(parsed_.add_flag(name, value, description));
}

Option* Command::add_option(const std::string& name, const std::string& description) {
  return keep(parsed_.add_option(name, description));
}

Option* Command::get_option(const std::string& name) { return keep(parsed_.get_option(name)); }

void Command::footer(const std::string& text) { parsed_.footer("\n" + text); }

void Command::callback(std::function<void()> chosen) { parsed_.callback(std::move(chosen)); }

std::string Command::name() const { return parsed_.get_name(); }

std::size_t Command::count(const std::string& option) const { return parsed_.count(option); }

bool Command::changed(const std::string& option) const {
  const CLI::Option* const found = std::as_const(parsed_).get_option_no_throw(option);
  return found != nullptr && found->count() > 0 && value_of(*found) != value_of(found->get_default_str());
}

nlohmann::json Command::values(bool given_alone) const {
  static const std::set<std::string> kNotOfTheRun = {"help", "config", "json", ""};
  nlohmann::json options = nlohmann::json::object();
  for (const CLI::Option* option : std::as_const(parsed_).get_options()) {
    std::string name = option->get_single_name();
    if (kNotOfTheRun.contains(name) || (given_alone && option->count() == 0)) continue;
    std::replace(name.begin(), name.end(), '-', '_');
    options[name] = value_of(*option);
  }
  return options;
}

}  // namespace plimsoll
