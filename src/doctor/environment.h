// What a machine's facts mean for training: one line each, ok, warning or broken, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"

namespace plimsoll::doctor {

enum class State { kOk, kWarning, kBroken };

struct Check {
  std::string topic{};  // "driver"
  State state = State::kOk;
  std::string found{};   // what is there
  std::string remedy{};  // empty where nothing is to be done
  bool needed = false;   // Plimsoll itself cannot work while this is broken
};

std::vector<Check> examine(const Facts& facts);

// "ok", "warning", "broken".
const char* state_name(State state);

}  // namespace plimsoll::doctor
