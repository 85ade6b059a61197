// A training run, from its options to the files in its output directory: what `train` does, and what `prune` does with
// a pruned model.
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

// Called when the output directory is known to be the run's and is locked, before the model is opened, so that it may
// still change the model in `options`. `resume` is the checkpoint that the run resumes. Returns the content of a
// `prune` event, or null if there is none.
using BeforeTraining =
    std::function<nlohmann::json(const Device& device, const std::optional<std::filesystem::path>& resume)>;

// Resolves the options and runs to the end. Throws the errors that the command reports.
void run_training(Invocation& invocation, RunOptions& options, const BeforeTraining& before = {});

// Returns the directory of the run that wrote the checkpoint.
std::filesystem::path run_of(const std::filesystem::path& checkpoint);

// Moves an earlier run in the directory aside, and logs it, unless this run resumes that one from `resume`.
void make_room_for_run(const std::filesystem::path& output_dir, const std::optional<std::filesystem::path>& resume);

}  // namespace plimsoll
