// The state of a run before its first update: its position, and all that its numbers depend on besides weights and
// optimizer states (TrainerState). resume.h compares it with that of the run that wrote a checkpoint.
#pragma once

#include <string>

#include "data/dataset.h"
#include "data/sampler.h"
#include "fit/session.h"
#include "train/checkpoint.h"
#include "train/options.h"

namespace plimsoll {

// Returns TrainerState::judged_by of a run with these evaluations.
std::string judged_by(const ModelBundle& bundle, const Dataset& evaluation, const TrainOptions& options);

// Reads the base model's files if an adapter is trained. `evaluation` is nullptr if the run has no evaluations;
// `threads` are those of the CPU.
TrainerState initial_state(const Session& session, const ModelBundle& bundle, const Dataset& pages,
                           const Dataset* evaluation, const Sampler& sampler, const TrainOptions& options, int threads);

}  // namespace plimsoll
