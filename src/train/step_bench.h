// One training step repeated on one batch, for comparison with other engines: no loader, no logging, nothing else.
#pragma once

#include <filesystem>
#include <vector>

#include "fit/fit.h"
#include "train/model_bundle.h"

namespace plimsoll {

struct StepBench {
  std::vector<double> step_seconds;
  std::vector<double> losses;
  std::size_t predicted_peak_bytes = 0;
};

// Forward, backward, clipping and the update on the whole batch as one micro-batch, `steps` times, dropout on. The step's time per op
// goes to `op_seconds` (by op name) if given.
StepBench bench_step(const ModelBundle& bundle, const std::filesystem::path& batch_file, int steps, Backend& backend,
                     OptimizerKind optimizer = OptimizerKind::kAdamW, DType precision = DType::kF32,
                     std::map<std::string, double>* op_seconds = nullptr);

}  // namespace plimsoll
