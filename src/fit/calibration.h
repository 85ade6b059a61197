// Measures how fast this machine does each op's work, once on a small model; a file keeps it for comparing plans.
#pragma once

#include <nlohmann/json.hpp>

#include "backend/backend.h"
#include "base/bytes.h"
#include "model/definition.h"
#include "plan/cost.h"

namespace plimsoll {

// The most memory that a separate process holds while it measures; on a GPU, the most of its memory, besides the
// context.
inline constexpr std::size_t kCalibrationBytes = 240 * kMiB, kDeviceCalibrationBytes = 512 * kMiB;

// Times every node of a step of that model in that precision, and the updates of each optimizer, a few times each, and
// takes the best. With a layer of a published model it takes about two seconds and kCalibrationBytes and is meant for a
// separate process, so that the memory of a run is not affected. A page has this many rows of text; a GPU, whose
// launches take time, is given four pages.
OpSpeeds measure_speeds(Backend& backend, const ModelDefinition& model, DType precision, std::int64_t text_rows = 300);

// The speeds of a server core, rounded, used to compare plans if nothing was measured. Only their ratios matter.
OpSpeeds typical_speeds();
// Returns those of a data-centre GPU, for plans that are made without a GPU.
OpSpeeds typical_gpu_speeds();

// The rates that a device reaches.
struct DeviceRates {
  double float_flops = 0, half_flops = 0;            // of products, per second
  double memory_bytes = 0;                           // per second
  double score_seconds = 0, score_grad_seconds = 0;  // of one of attention's scores; 0: what its products take
  double seconds_per_start = 0;
};
// Returns the speeds of a device with these rates, for plans that are made without it.
OpSpeeds device_speeds(const DeviceRates& rates);

// Write and read {"seconds_per_unit": {"linear": 3.1e-11, ...}, "seconds_per_start": 0}. Reading throws DataError,
// naming `where`, if an op is missing.
nlohmann::json speeds_json(const OpSpeeds& speeds);
OpSpeeds parse_speeds(const nlohmann::json& json, const std::string& where);

}  // namespace plimsoll
