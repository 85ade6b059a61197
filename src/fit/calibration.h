// How fast this machine does each op's work: measured once on a small model, kept in a file, used to compare plans.
#pragma once

#include <nlohmann/json.hpp>

#include "backend/backend.h"
#include "base/bytes.h"
#include "plan/cost.h"

namespace plimsoll {

// The most that a process of its own holds while it measures.
inline constexpr std::size_t kCalibrationBytes = 240 * kMiB;

// Times every node of one LayoutLMv3-base layer's step in that precision, and the updates of each optimizer, a few times
// over, and takes the best. Takes about two seconds and kCalibrationBytes: meant for a process of its own, so that a run's memory
// does not pay for it.
OpSpeeds measure_speeds(Backend& backend, DType precision);

// A server core's speeds, rounded: what plans are compared with where nothing has been measured. Their ratios matter.
OpSpeeds typical_speeds();

// {"seconds_per_unit": {"linear": 3.1e-11, ...}, "half_seconds_per_unit": {...}}. Reading throws DataError, naming `where`, unless every op is there.
nlohmann::json speeds_json(const OpSpeeds& speeds);
OpSpeeds parse_speeds(const nlohmann::json& json, const std::string& where);

}  // namespace plimsoll
