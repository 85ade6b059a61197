// fit: the largest micro-batch whose whole run stays inside the budget, or a refusal that names the smallest budget.
//
// What a run may use on a CPU is its peak resident set. A plan predicts it as the sum of
//   what the process holds already (code, libraries, data index, tokenizer; measured, once kernels are prepared)
//   + the arena (parameters, optimizer state, accumulated gradients, and the largest program's transient part)
//   + the loader's buffers + a reserve for what libraries take for a moment.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "fit/step_graphs.h"
#include "plan/memory_plan.h"
#include "runtime/program.h"

namespace plimsoll {

struct FitRequest {
  StepOptions step;
  std::int64_t train_batch_size = 1;             // samples an update, the effective batch
  std::optional<std::int64_t> micro_batch_size;  // pinned by the user
  bool trains = true;                            // false: evaluation only
  bool evaluates = false;
  // The most text rows that any micro-batch of `micro` samples will hold; training and evaluation.
  std::function<std::int64_t(std::int64_t micro)> text_rows;
  std::function<std::int64_t(std::int64_t micro)> evaluation_text_rows;
  // The most text rows of an update: bounds the distinct words in an accumulated gradient.
  std::int64_t update_text_rows = 0;
  // What the loader will hold for micro-batches of that capacity, and its worst decode.
  std::function<std::size_t(const ModelCapacity&)> loader_bytes;
  std::size_t budget_bytes = 0;  // 0: no limit
};

struct PlannedProgram {
  ProgramKind kind;
  ModelCapacity capacity;
  ValueId loss, logits, gradient_norm;
  Gradients gradients;
  PreparedGraph prepared;
  MemoryPlan plan;
};

struct RunPlan {
  std::int64_t micro_batch_size = 0;
  std::int64_t accumulation_steps = 0;
  std::vector<PlannedProgram> programs;
  PersistentLayout layout;
  std::size_t arena_bytes = 0;
  std::size_t predicted_peak_bytes = 0;
  std::size_t budget_bytes = 0;
  std::vector<MemoryItem> items;  // add up to predicted_peak_bytes
};

// Plans a run with this micro-batch, whatever the budget.
RunPlan plan_run(const FitRequest& request, std::int64_t micro_batch_size, Backend& backend);

// The plan with the fewest micro-batches an update that fits, and among those the smallest micro-batch. Throws BudgetError
// with the smallest budget that works, and UsageError if a pinned micro-batch makes no sense.
RunPlan fit(const FitRequest& request, Backend& backend);

}  // namespace plimsoll
