// How many pages an update has, as Hugging Face counts them: --per-device-train-batch-size (8) times
// --gradient-accumulation-steps (1) is the effective batch, and --train-batch-size states that product. How an update
// is computed in memory is another question: the planner splits it into micro-batches as the budget asks, unless
// --micro-batch-size says how many pages go through the model at once.
//
//   BatchOptions batch{.per_device_train_batch_size = 2, .gradient_accumulation_steps = 4};
//   batch.effective();  // 8
#pragma once

#include <cstdint>

#include "cli/command_line.h"

namespace plimsoll {

struct BatchOptions {
  // 0: not given.
  std::int64_t train_batch_size = 0;
  std::int64_t per_device_train_batch_size = 0;
  std::int64_t gradient_accumulation_steps = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t ranks = 1;  // processes that share an update

  // --per-device-train-batch-size, as given or by its default.
  std::int64_t per_device() const;
  // Pages of an update; throws UsageError if the options contradict one another.
  std::int64_t effective() const;
};

void add_batch_size_options(Command* command, BatchOptions& options);

}  // namespace plimsoll
