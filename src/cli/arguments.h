// Looks at what was typed before CLI11 does, so that every fault is told in five fields: misspelt options by the name
// that was meant, options of other programs by what to do instead. Reads CLI11's objects, as few other files do.
//
//   arguments = join_flag_values(app, without_elsewhere_options(app, arguments));
//   check_arguments(app, arguments);
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace plimsoll {

// This says what an option may hold, as whole_number, number and one_of have it.
struct OptionValues {
  std::string kind;     // kIntOption, kFloatOption or kChoiceOption; empty: anything
  std::string range{};  // of an int or a float: "1 to 65535", "0 or more"
  std::vector<std::string> choices{};
};
OptionValues option_values(const CLI::Option& option);
bool is_flag(const CLI::Option& option);
// "FILE", as --help shows it; CLI11 adds to it what validators say.
std::string type_word(const CLI::Option& option);

// Returns the arguments without the options of other programs that change nothing here (cli/elsewhere.h).
std::vector<std::string> without_elsewhere_options(const CLI::App& app, const std::vector<std::string>& arguments);
// "--bf16 True" as "--bf16=true", for every flag of the command that is named.
std::vector<std::string> join_flag_values(const CLI::App& app, const std::vector<std::string>& arguments);

// A name that the command does not have: with the option that was probably meant.
Problem unknown_option_problem(const CLI::App& command, const std::string& given, const std::string& where);

// Looks through the arguments before CLI11 does, so that a misspelt option is named rather than what it leaves missing.
// `arguments` in the order typed, names with dashes. Throws UsageError.
void check_arguments(const CLI::App& app, const std::vector<std::string>& arguments);

// Returns what CLI11 could not parse, in our words.
Problem usage_problem(const CLI::ParseError& error, const std::vector<std::string>& arguments);

}  // namespace plimsoll
