// `--config FILE`: the options of a command in a file, as JSON ({"learning_rate": 5e-5}) or TOML (learning-rate =
// 5e-5). Names take underscores or dashes. What the command line says as well wins.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll {

// Where each option that a file gives stands: "--max-steps" at "--config run.toml, line 3".
using ConfigPlaces = std::map<std::string, std::string>;

// The reader adds to `places`, which must outlive it.
std::shared_ptr<CLI::Config> make_config_reader(const CLI::App& app, ConfigPlaces& places);

// Returns a problem of an option with the place in the file, unless the option was typed.
Problem with_config_place(Problem problem, const ConfigPlaces& places, const std::vector<std::string>& arguments);

}  // namespace plimsoll
