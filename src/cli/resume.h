// --resume-from-checkpoint of train and plan: which checkpoint it means, and what a resumed run keeps.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/run_options.h"
#include "fit/fit.h"
#include "train/checkpoint.h"

namespace plimsoll {

// Returns the checkpoint that the option names; for "latest" the last one in `output_dir`, or, after logging it, none
// if there is none yet. Throws DataError if the path is not a checkpoint, UsageError for "latest" without a directory.
std::optional<std::filesystem::path> find_resume(const std::string& resume, const std::filesystem::path& output_dir);

// Throws DataError if the checkpoint is of a model whose family is not the bundle's.
void refuse_other_family(const ModelBundle& bundle, const std::filesystem::path& resume);

// Finishes what a killed run left incomplete in `output_dir`, as `train` does, so that find_resume finds what `train`
// would find. A directory in which a run is active is left alone, because that run has already done this.
void recover_for_plan(const std::filesystem::path& output_dir);

// Keeps the pages of an update on another number of ranks, where the options would multiply by that number: the same
// options on as many ranks as then give the checkpoint's, and none states the product.
void keep_batch(RunOptions& options, const TrainerState& saved);

// Makes the run keep its original micro-batch, because results depend on it, unless an update is smaller than that or
// --micro-batch-size says another one.
void keep_micro_batch(RunOptions& options, const TrainerState& saved);

// Calls fit() with the original cut of updates if that fits the budget, else with another one and a warning. Changes
// the request to the one that was answered.
RunPlan fit_resumed(FitRequest& request, const std::optional<KeptCut>& kept, Backend& backend);
KeptCut cut_of(const TrainerState& saved);
// Pins what the run keeps; a run without chunks continues without them.
void keep_cut(FitRequest& request, const KeptCut& kept);

}  // namespace plimsoll
