// What a run that goes on from a checkpoint takes from it.
#pragma once

#include <filesystem>
#include <string>

#include "train/checkpoint.h"
#include "train/run_memory.h"

namespace plimsoll {

// Names everything that changes results and differs between the run that wrote a checkpoint and the one that goes on
// from it: "--seed: 1 then, 2 now; other training data". Empty where nothing does. What an older checkpoint does not
// tell is taken to be the same.
std::string resume_changes(const TrainerState& then, const TrainerState& now);

// Where a run goes on that would begin as `initial` and was saved as `saved`: the numeric key is the new run's, the
// rest the checkpoint's. `evaluates`: the run has data to evaluate on.
TrainerState resumed_state(const TrainerState& saved, TrainerState initial, bool evaluates);

// Fills `memory` from a checkpoint of output_dir or of another run, and returns resumed_state(); says in the log what
// changes results, and if nothing is left to train. Throws UsageError if it holds another optimizer's states, DataError
// if it is damaged or does not fit the model.
TrainerState resume(const std::filesystem::path& checkpoint, TrainerState initial, bool evaluates, RunMemory& memory,
                    const std::filesystem::path& output_dir);

}  // namespace plimsoll
