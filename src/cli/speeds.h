// This machine's measured speeds: kept under ~/.cache/plimsoll, measured by `plimsoll calibrate` in a separate process.
#pragma once

#include <filesystem>

#include "cli/devices.h"
#include "plan/cost.h"

namespace plimsoll {

// Returns the directory for measurements of this machine: $XDG_CACHE_HOME/plimsoll or ~/.cache/plimsoll. Empty without
// either.
std::filesystem::path cache_directory();

// Returns the file there with the speeds of that device (on the CPU, with that many threads) and precision.
std::filesystem::path speeds_path(const Device& device, DType precision);

struct Calibration {
  OpSpeeds speeds;
  std::filesystem::path file{};  // where they are stored; empty: they cannot be stored, which a warning says
};
// Measures and writes the file.
Calibration calibrate(const Device& device, DType precision);

// Reads the file, if it belongs to this processor or GPU; else runs `plimsoll calibrate`, so that this process does not
// need its memory. If both processes together would hold more than `budget_bytes` (0: than what is free), or if that
// fails, returns typical speeds and says so.
OpSpeeds machine_speeds(const Device& device, DType precision, std::size_t budget_bytes);

}  // namespace plimsoll
