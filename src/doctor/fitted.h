// Adapts a rule's advice to the versions, the GPU and the arguments that the log names: examples for others would
// contradict the log.
#pragma once

#include <string>
#include <vector>

#include "doctor/diagnosis.h"

namespace plimsoll::doctor {

// Returns what the quoted lines say besides the rule's words; nullptr if they say nothing more.
const Telling* telling_of(const Diagnosis& diagnosis);
// Puts first the cause that the log's facts point to, and what happened to the argument that the message names.
void fit_causes(const Diagnosis& diagnosis, std::vector<std::string>& causes);
// Removes examples that the log contradicts, and inserts the right ones.
void fit_fixes(const Diagnosis& diagnosis, std::vector<std::string>& fixes);

}  // namespace plimsoll::doctor
