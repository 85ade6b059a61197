#include "cli/run_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

// "a,b" as two names.
std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace

void add_model_options(CLI::App* command, RunOptions& o, bool presets) {
  command->option_defaults()->group("Model");
  command
      ->add_option(
          "--model", o.model.model,
          presets ? "Hugging Face model directory, or a preset to train from scratch: layoutlmv3-tiny, "
                    "layoutlmv3-small, layoutlmv3-base, layoutlmv3-large"
                  : "Hugging Face model directory, or what train wrote (its --output-dir, or a checkpoint-N in it)")
      ->type_name("MODEL")
      ->required();
  command->add_option("--tokenizer", o.model.tokenizer, "tokenizer.json or its directory, in place of the model's own")
      ->type_name("PATH");
  command
      ->add_option(
          "--base-model", o.model.base_model,
          "Where the base model of an adapter (adapter_config.json in --model) lies, if not where the adapter says")
      ->type_name("DIR");
}

void add_label_option(CLI::App* command, RunOptions& o) {
  command
      ->add_option("--labels", o.model.labels,
                   "Label names in order, comma separated or in a file (default: the model's, or the data's); another "
                   "set than the model's gets a new head")
      ->type_name("NAMES");
}

void add_data_options(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Data");
  command
      ->add_option(
          "--data", o.data.data,
          "Pages: a JSONL file (image, words, boxes, labels), or a folder with annotations/ and images/ (FUNSD)")
      ->type_name("FILE")
      ->required();
  command->add_option("--box-format", o.box_format, "Boxes in the data: pixel, or 1000 (thousandths of the page)")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_flag("--segment-boxes", o.data.segment_boxes,
                    "FUNSD: give each word the box of its entity, as the published scores need");
  whole_number(
      command->add_option("--max-length", o.data.max_length,
                          "Text tokens of a window, <s> and </s> included (0: what the model holds, at most 512)"),
      0, 65535)
      ->capture_default_str();
  whole_number(command->add_option(
                   "--stride", o.data.stride,
                   "Tokens by which the windows of a long page overlap (-1: a quarter of a window, at most 128)"),
               -1, 65535)
      ->capture_default_str();
  command->add_flag("--truncate", o.data.truncate, "Cut long pages off instead of splitting them into windows");
  command
      ->add_option(
          "--cache", o.data.cache,
          "Keep resized pictures and tokens in a file here, some 165 KB a page, for later epochs and runs; made "
          "again when data, tokenizer or options change")
      ->type_name("DIR");
}

void add_memory_options(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Memory");
  add_device_option(command, o.device);
  command
      ->add_option("--budget", o.budget,
                   "Memory that the whole process may use, on a GPU the GPU's: 3GiB (of 1024^3 bytes, as 3g), 3GB (of "
                   "1000^3), 900MiB (default: 95 % of what is free)")
      ->type_name("SIZE");
  command
      ->add_option(
          "--host-budget", o.host_budget,
          "Beside a GPU: what of the machine's own memory the process may use before train warns (default: 95 % "
          "of what is free)")
      ->type_name("SIZE");
  whole_number(command->add_option("--dataloader-num-workers", o.memory.loader_workers,
                                   "Threads that read pages ahead (-1: chosen by the cores)"),
               -1, 256)
      ->capture_default_str();
}

void add_batch_options(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Batch");
  whole_number(
      command->add_option("--train-batch-size", o.train_batch_size,
                          "Pages of an update: the effective batch (default: 8, or the product of the next two)"),
      1, 1 << 20);
  whole_number(command->add_option("--per-device-train-batch-size", o.micro_batch_size,
                                   "Pin the micro-batch (0: the largest that fits the budget)"),
               0, 1 << 20)
      ->capture_default_str();
  whole_number(command->add_option("--gradient-accumulation-steps", o.accumulation_steps,
                                   "Pin the micro-batches of an update (0: as many as the budget asks for)"),
               0, 1 << 20)
      ->capture_default_str();
  command->add_flag(
      "--pad-to-max-length", o.pad_to_max_length,
      "Pad every page to --max-length, as many training scripts do; costs time and memory, changes no result");
  command->option_defaults()->group("Levers");
  one_of(command->add_option(
             "--recompute", o.recompute,
             "Forward values that backward computes again: auto (as many as the budget asks for), none, or "
             "layers (all but each layer's output)"),
         {"auto", "none", "layers"})
      ->type_name("WHICH")
      ->capture_default_str();
  command->add_flag("--gradient-checkpointing", o.gradient_checkpointing, "The same as --recompute layers");
  one_of(
      command->add_option("--update-mode", o.update_mode,
                          "When parameters change: after-backward, in-backward (needs --max-grad-norm 0), two-passes "
                          "(backward runs twice), or auto"),
      {"auto", "after-backward", "in-backward", "two-passes"})
      ->type_name("WHEN")
      ->capture_default_str();
}

void add_offload_option(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Levers");
  command
      ->add_option(
          "--offload", o.offload,
          "Let optimizer state and forward values live in a file in this directory where the budget asks for "
          "it; gigabytes are written each update. Changes no result; the file has no name and goes with the run. On a "
          "GPU the host's memory takes them unasked, as far as --host-budget goes, unless this is none, which on the "
          "CPU changes nothing")
      ->type_name("DIR");
}

void add_training_options(CLI::App* command, RunOptions& o) {
  TrainOptions& t = o.train;
  command->option_defaults()->group("Training");
  command->add_option("--eval-data", o.eval_data, "Pages to evaluate on while training, in the form of --data")
      ->type_name("FILE");
  add_label_option(command, o);
  number(command->add_option("--learning-rate", t.learning_rate, "Peak learning rate"), 0)->capture_default_str();
  number(command->add_option("--num-train-epochs", t.num_train_epochs, "Passes over the data"), 0, 1e6, true)
      ->capture_default_str();
  whole_number(command->add_option("--max-steps", t.max_steps, "Updates; above 0 it overrides --num-train-epochs"), -1)
      ->capture_default_str();
  number(command->add_option("--warmup-ratio", t.warmup_ratio, "Share of the updates over which the rate rises"), 0, 1)
      ->capture_default_str();
  add_precision_options(command, o.precision);
  one_of(command->add_option("--fp16-fallback", o.fp16_fallback,
                             "What --fp16 continues in where no loss scale helps any more: none, bf16 or fp32"),
         {"none", "bf16", "fp32"})
      ->type_name("NAME")
      ->capture_default_str();
  one_of(command->add_option("--optim", o.optimizer,
                             "adamw_torch; adamw_8bit, whose moments take a quarter of the memory; or adafactor, which "
                             "keeps next to none"),
         {"adamw_torch", "adamw_8bit", "adafactor"})
      ->type_name("NAME")
      ->capture_default_str();
  number(
      command->add_option("--weight-decay", t.weight_decay, "Decay of weights; biases and layer norms are left alone"),
      0)
      ->capture_default_str();
  number(command->add_option("--max-grad-norm", t.max_grad_norm, "Clip the gradient's global norm (0: do not)"), 0)
      ->capture_default_str();
  one_of(command->add_option("--lr-scheduler-type", o.scheduler, "linear, cosine or constant"),
         {"linear", "cosine", "constant"})
      ->type_name("TYPE")
      ->capture_default_str();
  command->add_flag(
      "--augment", o.augment,
      "Show each page a little different in each epoch: turned, scaled, cut at its edges, lighter or "
      "darker, less sharp; boxes move with it. Training pages then come from their images, --cache or not");
  whole_number(command->add_option("--seed", t.seed, "Fixes fresh weights, the order of pages, dropout and --augment"),
               0)
      ->capture_default_str();
}

namespace {

void add_code_options(CLI::App* command, RunOptions& o) {
  command->add_flag(
      "--load-in-8bit", o.load_in_8bit,
      "Hold the encoder's weights that do not train in 8 bits, in blocks of 64 (with --lora-rank or --freeze)");
  command->add_flag("--load-in-4bit", o.load_in_4bit, "The same in 4 bits: NormalFloat, as QLoRA has it");
}

}  // namespace

void add_parts_options(CLI::App* command, RunOptions& o) {
  PartsRequest& p = o.parts;
  command->option_defaults()->group("Parts that train");
  command
      ->add_option(
          "--freeze", o.freeze,
          "Parameters that stay as they are: a pattern that matches whole Hugging Face names, where * is any run "
          "of characters (dots too), ? one, [0-5] one of a set; such as 'layoutlmv3.embeddings.*' or "
          "'layoutlmv3.encoder.layer.[0-5].*'. May be given several times, or be a list with commas. They have no "
          "gradient and no "
          "optimizer state")
      ->type_name("PATTERN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  whole_number(command->add_option("--lora-rank", p.lora_rank,
                                   "Train low-rank adapters of this rank and the classification head; all else is "
                                   "frozen, and --output-dir gets an adapter in PEFT's format (0: no adapters)"),
               0, 4096)
      ->capture_default_str();
  number(command->add_option("--lora-alpha", p.lora_alpha,
                             "What adapters add is multiplied by this, over the rank (default: twice the rank)"),
         0, 1e6, true);
  number(command->add_option("--lora-dropout", p.lora_dropout, "Dropout before adapters"), 0, 0.99)
      ->capture_default_str();
  command
      ->add_option(
          "--lora-target-modules", o.lora_targets,
          "Linear maps that get adapters, comma separated, by the end of their names: query, key, value, "
          "attention.output.dense, intermediate.dense, output.dense (default: all of them; output.dense is both "
          "of a layer's), or patterns as --freeze takes")
      ->type_name("LIST");
  add_code_options(command, o);
}

DType PrecisionOptions::resolve() const {
  if (bf16 && fp16) {
    throw UsageError({.what = "two precisions are asked for",
                      .where = "--bf16, --fp16",
                      .found = "both",
                      .allowed = "one of them",
                      .remedy = "--bf16 needs no gradient scaler and is faster on processors with AVX512_BF16"});
  }
  return bf16 ? DType::kBF16 : fp16 ? DType::kF16 : DType::kF32;
}

void add_precision_options(CLI::App* command, PrecisionOptions& options) {
  command->add_flag("--bf16", options.bf16,
                    "Keep the encoder's activations in bfloat16; weights keep their F32 value, split in two halves");
  command->add_flag("--fp16", options.fp16, "Keep the encoder's activations in half precision, with a gradient scaler");
}

void RunOptions::resolve() {
  if (augment) data.augment = train.seed;
  if (box_format == "pixel") {
    data.box_format = BoxFormat::kPixel;
  } else if (box_format == "1000") {
    data.box_format = BoxFormat::k1000;
  } else {
    throw UsageError(
        {.what = "no such box format", .where = "--box-format", .found = box_format, .allowed = "pixel or 1000"});
  }
  if (data.truncate && data.stride >= 0) {
    throw UsageError({.what = "pages that are cut off have no windows that overlap",
                      .where = "--stride",
                      .found = fmt::format("{}, and --truncate", data.stride),
                      .allowed = "one of the two",
                      .remedy = "leave one of the two out"});
  }
  if (train.eval_steps > 0 && eval_data.empty()) {
    throw UsageError({.what = "there is nothing to evaluate on",
                      .where = "--eval-steps",
                      .found = "no --eval-data",
                      .remedy = "pass --eval-data FILE, or leave --eval-steps out"});
  }
  if (!budget.empty()) memory.budget_bytes = parse_bytes(budget, "--budget");
  if (!host_budget.empty()) memory.host_budget_bytes = parse_bytes(host_budget, "--host-budget");
  train.lr_scheduler_type = parse_scheduler_type(scheduler);
  train.optim = parse_optimizer(optimizer);
  train.skip_nonfinite = on_nonfinite == "skip";
  train.precision = precision.resolve();
  if (fp16_fallback != "none" && train.precision != DType::kF16) {
    throw UsageError({.what = "there is nothing to fall back from",
                      .where = "--fp16-fallback",
                      .found = "no --fp16",
                      .remedy = "pass --fp16 too, or leave it out"});
  }
  if (parts.lora_rank == 0 && (parts.lora_alpha > 0 || parts.lora_dropout > 0 || !lora_targets.empty())) {
    throw UsageError({.what = "options of adapters, but no adapters",
                      .where = parts.lora_alpha > 0     ? "--lora-alpha"
                               : parts.lora_dropout > 0 ? "--lora-dropout"
                                                        : "--lora-target-modules",
                      .found = "no --lora-rank",
                      .allowed = "--lora-rank of 1 or more beside it",
                      .remedy = "pass --lora-rank 8, or leave the option out"});
  }
  if (load_in_8bit && load_in_4bit) {
    throw UsageError({.what = "frozen weights are asked for in two forms",
                      .where = "--load-in-8bit, --load-in-4bit",
                      .found = "both",
                      .allowed = "one of them"});
  }
  parts.frozen_weights = load_in_8bit ? DType::kQ8 : load_in_4bit ? DType::kNF4 : DType::kF32;
  parts.lora_targets = names_in(lora_targets);
  parts.freeze.clear();
  for (const std::string& pattern : freeze) {
    for (std::string& name : names_in(pattern)) parts.freeze.push_back(std::move(name));
  }
  memory.forbids_offload = offload == "none";
  if (!offload.empty() && offload != "none") {
    memory.offload = OffloadTarget::kFile;
    memory.offload_directory = offload;
  }
  if (recompute == "none") memory.recompute = RecomputeMode::kNone;
  if (recompute == "layers") memory.recompute = RecomputeMode::kLayers;
  if (gradient_checkpointing) {
    if (recompute == "none") {
      throw UsageError({.what = "the recomputation options contradict one another",
                        .where = "--gradient-checkpointing",
                        .found = "--recompute none",
                        .allowed = "one of the two",
                        .remedy = "leave one of the two out"});
    }
    memory.recompute = RecomputeMode::kLayers;
  }
  if (update_mode == "after-backward") memory.update = UpdateMode::kAfterBackward;
  if (update_mode == "in-backward") memory.update = UpdateMode::kInBackward;
  if (update_mode == "two-passes") memory.update = UpdateMode::kTwoPasses;
  if (train_batch_size > 0) {
    train.train_batch_size = train_batch_size;
  } else if (micro_batch_size > 0 && accumulation_steps > 0) {
    train.train_batch_size = micro_batch_size * accumulation_steps;  // as TrainingArguments has it
  } else {
    train.train_batch_size = std::max({train.train_batch_size, micro_batch_size, accumulation_steps});
  }
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

Device open_run_device(const Invocation& invocation, RunOptions& options) {
  Device device = open_device(invocation, options.device);
  resolve_device_memory(options.memory, *device.backend);
  return device;
}

void RunOptions::resolve_padding(const LayoutLMv3Config& config) {
  if (pad_to_max_length) train.pad_to = window_options(data, config).max_length;
}

}  // namespace plimsoll
