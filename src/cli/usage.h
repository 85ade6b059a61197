// What options may hold, and one clear message for what they hold instead.
//
//   whole_number(command->add_option("--steps", steps, "How many steps"), 1, 10000);
//   one_of(command->add_option("--backend", backend, "Who computes"), {"cpu", "reference"});
//
// Everything here throws UsageError with option, value found and values allowed; CLI11's own complaints, which know
// none of the five answers, are translated by `usage_problem`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace plimsoll {

// Refuses all but whole numbers from `low` to `high`.
CLI::Option* whole_number(CLI::Option* option, std::int64_t low, std::int64_t high = INT64_MAX);
// Refuses all but finite numbers from `low` (or above `low`, with `open`) to `high`.
CLI::Option* number(CLI::Option* option, double low, double high = 1e300, bool open = false);
CLI::Option* one_of(CLI::Option* option, std::vector<std::string> names);

// "a,b" as two names.
std::vector<std::string> names_in(const std::string& list);

// This says what an option may hold, as whole_number, number and one_of have it.
struct OptionValues {
  std::string kind;     // int, float or choices; empty: anything
  std::string range{};  // of an int or a float: "1 to 65535", "0 or more"
  std::vector<std::string> choices{};
};
OptionValues option_values(const CLI::Option& option);
bool is_flag(const CLI::Option& option);
// "FILE", as --help shows it; CLI11 adds to it what validators say.
std::string type_word(const CLI::Option& option);

// What a flag's value says, as HfArgumentParser reads it: true, yes, t, y, 1 or false, no, f, n, 0 in any case;
// nullopt: none of these.
std::optional<bool> truth_of(std::string_view word);
// Without the options of other programs that change nothing here (cli/elsewhere.h).
std::vector<std::string> without_elsewhere_options(const CLI::App& app, const std::vector<std::string>& arguments);
// "--bf16 True" as "--bf16=true", for every flag of the command that is named.
std::vector<std::string> join_flag_values(const CLI::App& app, const std::vector<std::string>& arguments);
// Whether --json is asked for in arguments that nobody has parsed yet. Allocates nothing.
bool wants_json(int argc, const char* const* argv);

// Of the command's options, the one that `given` is a misspelling of; empty: none, or more than one. Every word of the
// name must be nearly right: "--learnin-rate" is --learning-rate, but "--save-steps" is not "--max-steps".
std::string misspelt_option(const std::string& given, const std::vector<std::string>& names);

// A name that the command does not have: with the option that was probably meant.
Problem unknown_option_problem(const CLI::App& command, const std::string& given, const std::string& where);

// Looks through the arguments before CLI11 does, so that a misspelt option is named rather than what it leaves missing.
// `arguments` in the order typed, names with dashes. Throws UsageError.
void check_arguments(const CLI::App& app, const std::vector<std::string>& arguments);

// What CLI11 could not parse, in our words.
Problem usage_problem(const CLI::ParseError& error, const std::vector<std::string>& arguments);

}  // namespace plimsoll
