// What a run takes from the checkpoint that it resumes.
#pragma once

#include <filesystem>
#include <string>

#include "train/checkpoint.h"
#include "train/options.h"
#include "train/run_memory.h"

namespace plimsoll {

// Returns whether early_stopping_patience ends the run.
bool stops_early(const TrainOptions& options, const TrainerState& state);
// Returns whether a run in this state only has to save its model.
bool is_done(const TrainOptions& options, const TrainerState& state);

// Names everything that changes results and differs between the run that wrote a checkpoint and the one that resumes
// it: "--seed: 1 then, 2 now; other training data". Empty if there is nothing. What an older checkpoint does not record
// is assumed to be the same.
std::string resume_changes(const TrainerState& then, const TrainerState& now);

// Returns whether both runs compare evaluations by the same metric, in the same direction, and on the same data, as far
// as the states say.
bool judged_alike(const TrainerState& then, const TrainerState& now);

// Returns the state in which a run continues that would begin as `initial` and was saved as `saved`: the numeric key is
// the new run's, the rest the checkpoint's. `evaluates` says whether the run has data to evaluate on.
TrainerState resumed_state(const TrainerState& saved, TrainerState initial, bool evaluates);

// Fills `memory` from a checkpoint of this run or of another, and returns resumed_state(); logs what changes results,
// and whether nothing is left to train. Throws UsageError if it holds another optimizer's states or none, DataError if
// it is damaged or does not fit the model.
TrainerState resume(const std::filesystem::path& checkpoint, TrainerState initial, const TrainOptions& options,
                    bool evaluates, RunMemory& memory);

}  // namespace plimsoll
