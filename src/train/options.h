// TrainOptions: the options of a run. Names and defaults follow Hugging Face's TrainingArguments if the meaning is the
// same; `train_batch_size` is the effective batch of an update, however it is split.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/sampler.h"
#include "model/learning_rates.h"
#include "train/grad_scaler.h"
#include "train/schedule.h"
#include "transform/distillation.h"
#include "transform/optimizer.h"

namespace plimsoll {

// When something is done during a run (IntervalStrategy and SaveStrategy of `transformers`): never, every so many
// updates, after each epoch, or, for checkpoints, after an evaluation that is the best so far.
enum class IntervalStrategy : std::uint8_t { kNo, kSteps, kEpoch, kBest };
// Parses "no", "steps", "epoch" or "best". Throws UsageError, naming the option, for another word.
IntervalStrategy parse_strategy(std::string_view name, const std::string& option);

struct ModelBundle;  // bundle/model_bundle.h
class TeacherFile;   // train/teacher_file.h

// Numbers of updates that are below 1 are a share of all updates of the run, rounded up.
struct TrainOptions {
  std::filesystem::path output_dir;
  std::int64_t train_batch_size = 8;
  int rank = 0, ranks = 1;  // of the processes that share every update
  double learning_rate = 5e-5;
  double num_train_epochs = 3;
  std::int64_t max_steps = 0;  // above 0: overrides num_train_epochs
  double warmup_ratio = 0;
  std::int64_t warmup_steps = 0;  // updates; above 0: overrides warmup_ratio
  OptimizerKind optim = OptimizerKind::kAdamW;
  DType precision = DType::kF32;  // of the encoder's activations
  double fp16_initial_scale = GradScaler::kInitialScale;
  double weight_decay = 0.01;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;  // of both kinds of AdamW
  double max_grad_norm = 1.0;
  Schedule schedule{};
  RateOptions rates{};  // of single parameters
  std::uint64_t seed = 42;
  std::optional<std::uint64_t> data_seed{};  // for the order of pages; nothing: seed
  SampleOrder sampling = SampleOrder::kRandom;
  std::int64_t drop_last_of = 1;  // an epoch has whole batches of this many pages (dataloader_drop_last)
  IntervalStrategy logging_strategy = IntervalStrategy::kSteps;
  double logging_steps = 10;  // 0: once, at the end
  bool logging_first_step = false;
  IntervalStrategy save_strategy = IntervalStrategy::kSteps;
  double save_steps = 500;            // 0: no checkpoints
  std::int64_t save_total_limit = 0;  // 0: keep all
  bool save_only_model = false;       // due checkpoints have no optimizer state and cannot be resumed
  std::optional<IntervalStrategy> eval_strategy{};  // nothing: steps if eval_steps is given, else each epoch
  double eval_steps = 0;                            // 0: equal to logging_steps
  double eval_delay = 0;  // no evaluation before so many updates, or epochs if there is one after each
  bool eval_on_start = false;
  bool load_best_model_at_end = false;
  std::int64_t early_stopping_patience = 0;  // the run ends after this many evaluations without improvement; 0: never
  double early_stopping_threshold = 0;       // by how much the metric must be better to count
  std::int64_t pad_to = 0;  // text tokens that every page is padded to; 0: none (only the time changes)
  bool skip_nonfinite = false;  // skip an update whose loss or gradients are not finite; false: it ends the run
  bool stop_on_bad_page = false;            // a page that can no longer be read ends the run; false: it is left out
  bool detect_anomaly = false;              // check every node's output, and every index before it is used
  bool log_order = false;                   // write order.jsonl: the pages and windows of each update
  std::string metric_for_best_model{};      // one of the task's, or loss; empty: the task's first
  std::optional<bool> greater_is_better{};  // nothing: as the metric requires
  std::shared_ptr<const ModelBundle> teacher{};  // the model to learn from besides the labels; nullptr: none
  DistillationOptions distillation{};
  std::shared_ptr<const TeacherFile> teacher_file{};  // holds the teacher's outputs; nullptr: each step computes them
};

SamplerOptions sampler_options(const TrainOptions& options);
// Returns when the run evaluates, if it has data for that.
IntervalStrategy evaluation_strategy(const TrainOptions& options);
// Returns the warm-up's updates in a run of `total`: warmup_steps, or ceil(total * warmup_ratio).
std::int64_t warmup_updates(const TrainOptions& options, std::int64_t total);

}  // namespace plimsoll
