// Chooses what to do about a failure by what the log says about the run: the model's family, the GPU, the batch.
#pragma once

#include <string>
#include <vector>

#include "doctor/diagnosis.h"

namespace plimsoll::doctor {

// Says in one line what failed.
std::string headline(const Diagnosis& diagnosis);
// Returns the rule's causes, the likeliest first.
std::vector<std::string> causes(const Diagnosis& diagnosis);
// Says what to do, the cheapest first. If memory ran out, it gives no advice that this model, GPU or run cannot follow.
std::vector<std::string> fixes(const Diagnosis& diagnosis);
// Says what would show that the cause is the right one.
std::string confirmation(const Diagnosis& diagnosis);
// Names advice that is often given and does not exist for this model; empty if there is nothing to say.
std::string note(const Diagnosis& diagnosis);
// Returns the command of Plimsoll that avoids the failure. If a GPU was full, it is the `plimsoll plan` line for the
// GPU in the log.
std::string command(const Diagnosis& diagnosis);
// Says what numbers in the log mean, one line each: versions, memory that grows, processes.
std::vector<std::string> meanings(const Diagnosis& diagnosis);

}  // namespace plimsoll::doctor
