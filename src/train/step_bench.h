// One training step repeated on one batch, for comparison with other engines: no loader, no logging, nothing else.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "fit/choices.h"
#include "fit/fit.h"

namespace plimsoll {

struct StepBenchOptions {
  int steps = 5;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  DType precision = DType::kF32;
  // Forward's values are recomputed, best first, until forward leaves at most this many bytes for backward; absent: all
  // are kept, except the cheap ones if others share the memory.
  std::optional<std::size_t> kept_bytes{};
  bool recompute_cheap = true;  // false: not even those
  std::size_t forks = 0;        // products that overlap others, at once (plan/forks.h)
  KnownChoices choices{};
  // Called after each step, to time something else alternately.
  std::function<void(const Graph&)> after_step{};
};

struct StepBench {
  std::vector<double> step_seconds;
  std::vector<double> losses;
  std::size_t predicted_peak_bytes = 0, measured_peak_bytes = 0;
  ForwardBytes forward;
};

// Runs forward, backward, clipping and the update on the whole batch as one micro-batch, without padding, with dropout.
// The steps' time per op goes to `op_seconds` (by op name) if given. Throws UsageError if no choice keeps as little as
// asked.
StepBench bench_step(const ModelBundle& bundle, const std::filesystem::path& batch_file,
                     const StepBenchOptions& options, Backend& backend,
                     std::map<std::string, double>* op_seconds = nullptr);

}  // namespace plimsoll
