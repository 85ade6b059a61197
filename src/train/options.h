// TrainOptions: what a run is asked to do. Names and defaults follow Hugging Face's TrainingArguments where the meaning
// is the same; `train_batch_size` is the effective batch of an update, however it is split.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/grad_scaler.h"
#include "train/schedule.h"
#include "transform/optimizer.h"

namespace plimsoll {

struct TrainOptions {
  std::filesystem::path output_dir;
  std::int64_t train_batch_size = 8;
  double learning_rate = 5e-5;
  double num_train_epochs = 3;
  std::int64_t max_steps = 0;  // above 0: overrides num_train_epochs
  double warmup_ratio = 0;
  std::int64_t warmup_steps = 0;  // updates; above 0: overrides warmup_ratio
  OptimizerKind optim = OptimizerKind::kAdamW;
  DType precision = DType::kF32;  // of the encoder's activations
  double fp16_initial_scale = GradScaler::kInitialScale;
  double weight_decay = 0.01;
  double max_grad_norm = 1.0;
  Schedule schedule{};
  std::uint64_t seed = 42;
  std::int64_t logging_steps = 10;
  std::int64_t save_steps = 500;      // 0: only at the end
  std::int64_t save_total_limit = 0;  // 0: keep all
  std::int64_t eval_steps = 0;        // 0: at the end of each epoch
  bool load_best_model_at_end = false;
  std::int64_t pad_to = 0;  // text tokens that every page is padded to; 0: none (the numbers are the same, time is not)
  bool skip_nonfinite = false;  // an update whose loss or gradients are not finite is left out; false: it ends the run
  bool stop_on_bad_page = false;        // a page that cannot be read any more ends the run; false: it is left out
  bool detect_anomaly = false;          // look at every node's output, and at every index before it is used
  bool log_order = false;               // write order.jsonl: the pages and windows of each update
  std::string metric_for_best_model{};  // one of the task's, or loss; empty: the task's first
};

// Updates of warm-up in a run of `total`: warmup_steps, or ceil(total * warmup_ratio).
std::int64_t warmup_updates(const TrainOptions& options, std::int64_t total);

}  // namespace plimsoll
