// This machine's measured speeds: kept under ~/.cache/plimsoll, measured by `plimsoll calibrate` in a process of its
// own.
#pragma once

#include <filesystem>

#include "cli/devices.h"
#include "plan/cost.h"

namespace plimsoll {

// Where what was measured on this machine is kept: $XDG_CACHE_HOME/plimsoll or ~/.cache/plimsoll. Empty without either.
std::filesystem::path cache_directory();

// There, the speeds of that device (on the CPU, with that many threads) and precision.
std::filesystem::path speeds_path(const Device& device, DType precision);

// Measures and writes the file; returns the speeds even where it cannot be written (with a warning).
OpSpeeds calibrate(const Device& device, DType precision);

// From the file, if it belongs to this processor or GPU; else `plimsoll calibrate` is run, so that its memory is not
// this process's. Where both processes together would hold more than `budget_bytes` (0: than what is free), or where
// that fails, typical speeds, said so.
OpSpeeds machine_speeds(const Device& device, DType precision, std::size_t budget_bytes);

}  // namespace plimsoll
