#include "cli/run_options.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

void add_model_options(CLI::App* command, RunOptions& o) {
  command
      ->add_option("--model", o.model.model,
                   "Hugging Face model directory, or a preset to train from scratch: layoutlmv3-tiny, "
                   "layoutlmv3-small, layoutlmv3-base, layoutlmv3-large")
      ->required();
  command->add_option("--tokenizer", o.model.tokenizer, "tokenizer.json or a directory, in place of the model's own");
}

void add_data_options(CLI::App* command, RunOptions& o) {
  command->add_option("--data", o.data.data, "Pages: a JSONL file, or a folder with annotations/ and images/ (FUNSD)")
      ->required();
  command->add_option("--box-format", o.box_format, "Boxes in the data: pixel, or 1000 (thousandths of the page)")
      ->capture_default_str();
  command->add_flag("--segment-boxes", o.data.segment_boxes, "FUNSD: give each word the box of its entity");
  command
      ->add_option("--max-length", o.data.max_length,
                   "Text tokens of a window, <s> and </s> included (0: what the model holds, at most 512)")
      ->capture_default_str();
  command->add_option("--stride", o.data.stride, "Tokens by which the windows of a long page overlap")
      ->capture_default_str();
  command->add_flag("--truncate", o.data.truncate, "Cut long pages off instead of splitting them into windows");
}

void add_memory_options(CLI::App* command, RunOptions& o) {
  command->add_option("--budget", o.budget,
                      "Memory that the whole process may use: 3GiB, 900MiB (default: 95 % of what is free)");
  command->add_option("--dataloader-num-workers", o.memory.loader_workers, "Threads that read pages ahead (-1: chosen)")
      ->capture_default_str();
}

void add_batch_options(CLI::App* command, RunOptions& o) {
  command->add_option("--train-batch-size", o.train.train_batch_size, "Pages of an update: the effective batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--per-device-train-batch-size", o.micro_batch_size,
                   "Pin the micro-batch (0: the largest that fits the budget)")
      ->capture_default_str();
  command
      ->add_option("--gradient-accumulation-steps", o.accumulation_steps,
                   "Pin the micro-batches of an update (0: as many as the budget asks for)")
      ->capture_default_str();
  command
      ->add_option("--recompute", o.recompute,
                   "Compute forward values again in backward: auto (as many as the budget asks for), none, or layers")
      ->check(CLI::IsMember({"auto", "none", "layers"}))
      ->capture_default_str();
  command->add_flag("--gradient-checkpointing", o.gradient_checkpointing, "The same as --recompute layers");
  command
      ->add_option("--update-mode", o.update_mode,
                   "When parameters change: after-backward, in-backward (needs --max-grad-norm 0), two-passes "
                   "(backward runs twice), or auto")
      ->check(CLI::IsMember({"auto", "after-backward", "in-backward", "two-passes"}))
      ->capture_default_str();
  command->add_flag(
      "--pad-to-max-length", o.pad_to_max_length,
      "Pad every page to --max-length, as many training scripts do; costs time and memory, changes no result");
}

void add_training_options(CLI::App* command, RunOptions& o) {
  TrainOptions& t = o.train;
  command->add_option("--eval-data", o.eval_data, "Pages to evaluate on while training");
  command->add_option("--labels", o.model.labels,
                      "Label names, comma separated or in a file (default: model's or data's)");
  command->add_option("--learning-rate", t.learning_rate, "Peak learning rate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--num-train-epochs", t.num_train_epochs, "Passes over the data")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--max-steps", t.max_steps, "Updates; above 0 it overrides --num-train-epochs")
      ->capture_default_str();
  command->add_option("--warmup-ratio", t.warmup_ratio, "Share of the updates over which the rate rises")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--weight-decay", t.weight_decay, "AdamW's decay; biases and layer norms are left alone")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--max-grad-norm", t.max_grad_norm, "Clip the gradient's global norm (0: do not)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--lr-scheduler-type", o.scheduler, "linear, cosine or constant")->capture_default_str();
  command->add_option("--seed", t.seed, "Fixes fresh weights, the order of pages and dropout")->capture_default_str();
}

void RunOptions::resolve() {
  if (box_format == "pixel") {
    data.box_format = BoxFormat::kPixel;
  } else if (box_format == "1000") {
    data.box_format = BoxFormat::k1000;
  } else {
    throw UsageError(
        {.what = "no such box format", .where = "--box-format", .found = box_format, .allowed = "pixel or 1000"});
  }
  if (!budget.empty()) memory.budget_bytes = parse_bytes(budget, "--budget");
  train.lr_scheduler_type = parse_scheduler_type(scheduler);
  if (recompute == "none") memory.recompute = RecomputeMode::kNone;
  if (recompute == "layers") memory.recompute = RecomputeMode::kLayers;
  if (gradient_checkpointing) {
    if (recompute == "none") {
      throw UsageError({.what = "the recomputation options contradict one another",
                        .where = "--gradient-checkpointing",
                        .found = "--recompute none",
                        .remedy = "leave one of the two out"});
    }
    memory.recompute = RecomputeMode::kLayers;
  }
  if (update_mode == "after-backward") memory.update = UpdateMode::kAfterBackward;
  if (update_mode == "in-backward") memory.update = UpdateMode::kInBackward;
  if (update_mode == "two-passes") memory.update = UpdateMode::kTwoPasses;
  if (micro_batch_size > 0) memory.micro_batch_size = micro_batch_size;
  if (accumulation_steps > 0) {
    const std::int64_t micro = (train.train_batch_size + accumulation_steps - 1) / accumulation_steps;
    const std::int64_t steps = (train.train_batch_size + micro - 1) / micro;
    if ((micro_batch_size > 0 && micro_batch_size * accumulation_steps != train.train_batch_size) ||
        steps != accumulation_steps) {
      throw UsageError(
          {.what = "the batch options contradict one another",
           .where = "--gradient-accumulation-steps",
           .found = fmt::format("{} pages an update in {} steps{}", train.train_batch_size, accumulation_steps,
                                micro_batch_size > 0 ? fmt::format(" of {}", micro_batch_size) : ""),
           .allowed = "per-device-train-batch-size times gradient-accumulation-steps = train-batch-size",
           .remedy = "leave one of the three to Plimsoll"});
    }
    memory.micro_batch_size = micro;
  }
}

void RunOptions::resolve_padding(const LayoutLMv3Config& config) {
  if (pad_to_max_length) train.pad_to = window_options(data, config).max_length;
}

}  // namespace plimsoll
