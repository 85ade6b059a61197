// A training run, from its options to the files in its output directory: what `train` does, and what `prune` does with
// the model that it has pruned.
//
//   run_training(invocation, options);
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/devices.h"
#include "cli/run_options.h"

namespace plimsoll {

// It is called when the output directory is known to be the run's and is locked, before the model is opened, so that
// `options` may still get another model. `resume` is the checkpoint that the run goes on from. It returns what a
// `prune` event says, or null where there is none.
using BeforeTraining =
    std::function<nlohmann::json(const Device& device, const std::optional<std::filesystem::path>& resume)>;

// Resolves the options and runs to the end. Throws what the command reports.
void run_training(Invocation& invocation, RunOptions& options, const BeforeTraining& before = {});

// The directory of the run that wrote the checkpoint.
std::filesystem::path run_of(const std::filesystem::path& checkpoint);

// Moves an earlier run in the directory aside, and says so; a run that goes on there from `resume` stays.
void make_room_for_run(const std::filesystem::path& output_dir, const std::optional<std::filesystem::path>& resume);

}  // namespace plimsoll
