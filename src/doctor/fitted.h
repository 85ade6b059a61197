// Fits a rule's advice to the versions, the GPU and the arguments that the log names: an example for others would
// contradict it.
#pragma once

#include <string>
#include <vector>

#include "doctor/diagnosis.h"

namespace plimsoll::doctor {

// What the quoted lines tell beside the rule's words; nullptr where they tell no more.
const Telling* telling_of(const Diagnosis& diagnosis);
// Puts the cause that the log's facts tell before the others, and what became of the argument that the message names.
void fit_causes(const Diagnosis& diagnosis, std::vector<std::string>& causes);
// Takes out examples that the log contradicts, and sets those that it asks for.
void fit_fixes(const Diagnosis& diagnosis, std::vector<std::string>& fixes);

}  // namespace plimsoll::doctor
