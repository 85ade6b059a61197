// Judges a machine's facts for training: one line each, ok, warning or broken, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"

namespace plimsoll::doctor {

enum class State { kOk, kWarning, kBroken };

struct Check {
  std::string topic{};  // "driver"
  State state = State::kOk;
  std::string found{};   // what the machine has
  std::string remedy{};  // empty if nothing is to be done
  bool needed = false;   // Plimsoll itself cannot work until this is fixed
};

std::vector<Check> examine(const Facts& facts);

// Returns "ok", "warning" or "broken".
const char* state_name(State state);

}  // namespace plimsoll::doctor
