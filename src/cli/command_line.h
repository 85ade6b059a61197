// A command and its options, while they are registered. CLI11 parses them; only the few files that need its objects
// include it, because that adds seconds to compile each.
//
//   command->heading("Output");
//   command->add_option("--output-dir", output_dir, "Where the model goes")->type_name("DIR")->required();
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace plimsoll {

// The kinds of options whose values are checked.
inline constexpr const char *kIntOption = "int", *kFloatOption = "float", *kChoiceOption = "choices";

class Option {
 public:
  explicit Option(CLI::Option* parsed) : parsed_(parsed) {}

  std::string name() const;
  Option* type_name(const std::string& word);  // "FILE", as --help shows it
  Option* group(const std::string& heading);   // in --help; empty: it is not shown
  Option* required(bool is = true);
  Option* capture_default_str();  // --help shows the variable's value
  // Takes one value each time that it is given; all of them count.
  Option* repeatable();
  // The same for a list whose values are texts, with any brackets and commas.
  Option* repeatable_text();
  Option* transform(std::function<std::string(std::string)> change);
  // `check` returns or throws; `kind` and `range` are for --help and the table of options.
  Option* check(std::function<void(const std::string&)> check, const std::string& range, const char* kind);

 private:
  CLI::Option* parsed_;
};

// Pointers to options are valid as long as the command.
class Command {
 public:
  explicit Command(CLI::App& parsed) : parsed_(parsed) {}

  // Names the group in --help for the options that are added next.
  void heading(const std::string& text);
  Option* add_option(const std::string& name, std::string& value, const std::string& description);
  Option* add_option(const std::string& name, std::filesystem::path& value, const std::string& description);
  Option* add_option(const std::string& name, int& value, const std::string& description);
  Option* add_option(const std::string& name, std::int64_t& value, const std::string& description);
  Option* add_option(const std::string& name, std::uint64_t& value, const std::string& description);
  Option* add_option(const std::string& name, double& value, const std::string& description);
  Option* add_option(const std::string& name, std::vector<std::string>& value, const std::string& description);
  Option* add_flag(const std::string& name, bool& value, const std::string& description);
  // Adds an option that is read elsewhere.
  Option* add_option(const std::string& name, const std::string& description);
  Option* get_option(const std::string& name);
  // Sets the text below the options in --help.
  void footer(const std::string& text);
  // Sets what runs when the command has been chosen and its options are known.
  void callback(std::function<void()> chosen);

  std::string name() const;
  // Returns how often an option was given, on the command line or in a config file.
  std::size_t count(const std::string& option) const;
  // Returns whether an option was given a value that is not its default. False if the command does not have it.
  bool changed(const std::string& option) const;
  // Returns every option by its Hugging Face name, with the value that was given or its default: {"learning_rate":
  // 5e-05, …}.
  nlohmann::json values(bool given_alone = false) const;

 private:
  Option* keep(CLI::Option* option);

  CLI::App& parsed_;
  std::deque<Option> options_;
};

}  // namespace plimsoll
