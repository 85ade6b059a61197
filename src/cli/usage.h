// What options may hold, and one clear message for what they hold instead.
//
//   whole_number(command->add_option("--steps", steps, "How many steps"), 1, 10000);
//   one_of(command->add_option("--backend", backend, "Who computes"), {"cpu", "reference"});
//
// They throw UsageError with option, value found and values allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/command_line.h"

namespace plimsoll {

// Refuses all but whole numbers from `low` to `high`.
Option* whole_number(Option* option, std::int64_t low, std::int64_t high = INT64_MAX);
// Refuses all but finite numbers from `low` (or above `low`, with `open`) to `high`.
Option* number(Option* option, double low, double high = 1e300, bool open = false);
Option* one_of(Option* option, std::vector<std::string> names);

// The error that they throw.
UsageError bad_value(const std::string& option, const std::string& found, std::string allowed);

// "a,b" as two names.
std::vector<std::string> names_in(const std::string& list);

// "a=1,b=2", or a JSON object with numbers, as names with numbers, in their order. `example` is for the message that
// refuses anything else.
std::vector<std::pair<std::string, double>> numbers_in(const std::string& option, const std::string& text,
                                                       const std::string& example);

// What a flag's value says, as HfArgumentParser reads it: true, yes, t, y, 1 or false, no, f, n, 0 in any case;
// nullopt: none of these.
std::optional<bool> truth_of(std::string_view word);
// Whether --json is asked for in arguments that nobody has parsed yet. Allocates nothing.
bool wants_json(int argc, const char* const* argv);

// Of the command's options, the one that `given` is a misspelling of; empty: none, or more than one. Every word of the
// name must be nearly right: "--learnin-rate" is --learning-rate, but "--save-steps" is not "--max-steps".
std::string misspelt_option(const std::string& given, const std::vector<std::string>& names);

}  // namespace plimsoll
