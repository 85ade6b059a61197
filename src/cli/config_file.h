// `--config FILE`: the options of a command in a file, as JSON ({"learning_rate": 5e-5}) or TOML (learning-rate =
// 5e-5). Names may have underscores or dashes. The command line has priority.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll {

// Where the file has each option: "--max-steps" at "--config run.toml, line 3".
using ConfigPlaces = std::map<std::string, std::string>;

// The reader adds to `places`, which must outlive it.
std::shared_ptr<CLI::Config> make_config_reader(const CLI::App& app, ConfigPlaces& places);

// Returns a problem about an option with its place in the file, unless the option was typed.
Problem with_config_place(Problem problem, const ConfigPlaces& places, const std::vector<std::string>& arguments);

}  // namespace plimsoll
