// `--config FILE`: the options of a command in a file, as JSON ({"learning_rate": 5e-5}) or TOML (learning-rate = 5e-5).
// Names take underscores or dashes. What the command line says as well wins.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace plimsoll {

std::shared_ptr<CLI::Config> make_config_reader(const CLI::App& app);

}  // namespace plimsoll
