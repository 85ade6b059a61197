// The number of pages of an update, counted as in Hugging Face: --per-device-train-batch-size (8) times
// --gradient-accumulation-steps (1) is the effective batch, and --train-batch-size states that product. How an update
// is split is separate from that: the planner cuts it into micro-batches to fit the budget, unless --micro-batch-size
// says how many pages go through the model at once.
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

  // Returns --per-device-train-batch-size, given or by default.
  std::int64_t per_device() const;
  // Returns the pages of an update; throws UsageError if the options contradict one another.
  std::int64_t effective() const;
};

void add_batch_size_options(Command* command, BatchOptions& options);

}  // namespace plimsoll
