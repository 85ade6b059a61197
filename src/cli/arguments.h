// Checks the arguments before CLI11 does, so that every fault is reported in five fields: for misspelt options with the
// name that was meant, for options of other programs with what to do instead. One of the few files that read CLI11's
// objects.
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

// Which values an option may have, as set by whole_number, number and one_of.
struct OptionValues {
  std::string kind;     // kIntOption, kFloatOption or kChoiceOption; empty: anything
  std::string range{};  // of an int or a float: "1 to 65535", "0 or more"
  std::vector<std::string> choices{};
};
OptionValues option_values(const CLI::Option& option);
bool is_flag(const CLI::Option& option);
// Returns "FILE", as --help shows it; CLI11 appends what validators say.
std::string type_word(const CLI::Option& option);

// Returns the arguments without the options of other programs that change nothing here (cli/elsewhere.h).
std::vector<std::string> without_elsewhere_options(const CLI::App& app, const std::vector<std::string>& arguments);
// Turns "--bf16 True" into "--bf16=true", for every flag of the command in the arguments.
std::vector<std::string> join_flag_values(const CLI::App& app, const std::vector<std::string>& arguments);

// Describes a name that the command does not have, with the option that was probably meant.
Problem unknown_option_problem(const CLI::App& command, const std::string& given, const std::string& where);

// Checks the arguments before CLI11 does, so that the message names a misspelt option and not the option that is then
// missing. `arguments` are in the order typed, names with dashes. Throws UsageError.
void check_arguments(const CLI::App& app, const std::vector<std::string>& arguments);

// Returns what CLI11 could not parse, in our words.
Problem usage_problem(const CLI::ParseError& error, const std::vector<std::string>& arguments);

}  // namespace plimsoll
