// Tells a user why a run that was resumed will not continue bit for bit.
#pragma once

#include <string>

#include "train/checkpoint.h"

namespace plimsoll {

// Names everything that changes results and differs between the run that wrote a checkpoint and the one that goes on
// from it: "--seed: 1 then, 2 now; other training data". Empty where nothing does. What an older checkpoint does not
// tell is taken to be the same.
std::string resume_changes(const TrainerState& then, const TrainerState& now);

}  // namespace plimsoll
