// What values options may have, and one clear message for any other value.
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

// Makes the error that they throw.
UsageError bad_value(const std::string& option, const std::string& found, std::string allowed);

// Parses "a,b" as two names.
std::vector<std::string> names_in(const std::string& list);

// Parses "a=1,b=2", or a JSON object with numbers, as names with numbers, in their order. The message that refuses
// anything else shows `example`.
std::vector<std::pair<std::string, double>> numbers_in(const std::string& option, const std::string& text,
                                                       const std::string& example);

// Parses a flag's value like HfArgumentParser: true, yes, t, y, 1 or false, no, f, n, 0 in any case; nullopt for
// anything else.
std::optional<bool> truth_of(std::string_view word);
// Returns whether unparsed arguments ask for --json. Allocates nothing.
bool wants_json(int argc, const char* const* argv);

// Returns the command's option that `given` is a misspelling of; empty if there is none, or more than one. Every word
// of the name must be nearly right: "--learnin-rate" is --learning-rate, but "--save-steps" is not "--max-steps".
std::string misspelt_option(const std::string& given, const std::vector<std::string>& names);

}  // namespace plimsoll
