#include "cli/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/usage.h"
#include "tasks/tasks.h"

namespace plimsoll {
namespace {

constexpr double kBelowOne = 1 - 1e-9;

// Metrics of every task, each also as "eval_…".
std::vector<std::string> metric_names() {
  std::set<std::string> names = {"loss"};
  for (const Task* task : all_tasks()) {
    for (const char* problem : {"", "regression"}) {
      for (const std::string& name : task->metrics({.problem_type = problem})) names.insert(name);
    }
  }
  std::vector<std::string> all(names.begin(), names.end());
  for (const std::string& name : names) all.push_back("eval_" + name);
  return all;
}

// "token-classification: f1, precision, recall; …".
std::string metrics_by_task() {
  std::string text;
  for (const Task* task : all_tasks()) {
    const std::vector<std::string> metrics = task->metrics({}),
                                   of_numbers = task->metrics({.problem_type = "regression"});
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", task->name(), fmt::join(metrics, ", "));
    if (metrics != of_numbers) text += fmt::format(", or {}", fmt::join(of_numbers, ", "));
  }
  return text;
}

// "PATTERN=RATE".
std::pair<std::string, double> parse_rate(const std::string& text, double peak) {
  const std::size_t equals = text.rfind('=');
  double rate = -1;
  if (equals != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, rate);
    if (error != std::errc() || stop != end || !std::isfinite(rate)) rate = -1;
  }
  if (rate < 0 || equals == 0 || (peak == 0 && rate > 0)) {
    throw UsageError({.what = peak == 0 ? "rates are multiples of --learning-rate, which is 0" : "no rate of a pattern",
                      .where = "--lr-pattern",
                      .found = text,
                      .allowed = "PATTERN=RATE, such as classifier.*=1e-3, with a rate of 0 or more"});
  }
  return {text.substr(0, equals), rate};
}

// Below 1, --warmup-steps is a fraction of all updates, as in transformers 5.
void set_warmup(double steps, TrainOptions& options) {
  if (steps >= 1) {
    options.warmup_steps = static_cast<std::int64_t>(steps);
  } else if (steps > 0) {
    options.warmup_ratio = steps;
  }
}

}  // namespace

void add_model_options(CLI::App* command, RunOptions& o, bool presets) {
  command->option_defaults()->group("Model");
  command
      ->add_option("--model", o.model.model,
                   presets ? fmt::format("Hugging Face model directory, or a preset, which has random weights: {}",
                                         fmt::join(preset_names(), ", "))
                           : "Hugging Face model directory, or train's --output-dir or a checkpoint-N in it")
      ->type_name("MODEL")
      ->required();
  command->add_option("--tokenizer", o.model.tokenizer, "tokenizer.json or its directory, instead of the model's own")
      ->type_name("PATH");
  command
      ->add_option(
          "--base-model", o.model.base_model,
          "Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)")
      ->type_name("DIR");
}

void add_task_options(CLI::App* command, std::string& task, std::string& problem_type) {
  command
      ->add_option("--task", task,
                   fmt::format("What is trained: {} (default: what the model was trained for; a preset: the first). "
                               "Another than the model's gives it a new head",
                               fmt::join(task_names(), ", ")))
      ->type_name("TASK");
  one_of(command->add_option("--problem-type", problem_type,
                             "Of classes of pages: single_label_classification (a name a page), "
                             "multi_label_classification (a list), regression (a number); default: as the data is"),
         {"single_label_classification", "multi_label_classification", "regression"})
      ->type_name("TYPE");
}

void add_label_option(CLI::App* command, RunOptions& o) {
  add_task_options(command, o.model.task, o.model.problem_type);
  command
      ->add_option("--labels", o.model.labels,
                   "Label names in order, separated by commas or in a file (default: the model's, else the data's). "
                   "Names other than the model's give it a new head")
      ->type_name("NAMES");
}

namespace {

void add_files_option(CLI::App* command, RunOptions& o) {
  command
      ->add_option("--data", o.data_files,
                   "Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as "
                   "the task has it), or a folder with annotations/ and images/ "
                   "(FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one")
      ->type_name("FILE")
      ->required();
}

}  // namespace

void add_data_options(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Data");
  add_files_option(command, o);
  add_reading_options(command, o);
}

void add_reading_options(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Data");
  command
      ->add_option("--box-format", o.box_format,
                   "Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge)")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_flag("--segment-boxes", o.data.segment_boxes,
                    "FUNSD: each word gets the box of its entity, as in published results");
  whole_number(
      command->add_option("--max-length", o.data.max_length,
                          "Text tokens per window, with the first and last (0: the model's limit, at most 512)"),
      0, 65535)
      ->capture_default_str();
  whole_number(command->add_option(
                   "--stride", o.data.stride,
                   "Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128)"),
               -1, 65535)
      ->capture_default_str();
  command->add_flag("--truncate", o.data.truncate, "Truncate long pages instead of splitting them into windows");
  command
      ->add_option("--cache", o.data.cache,
                   "Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for "
                   "later epochs and runs; rebuilt when data, tokenizer or options change")
      ->type_name("DIR");
}

void add_evaluation_data_option(CLI::App* command, RunOptions& o, const std::string& description) {
  command->add_option("--eval-data", o.eval_data_files, description)->type_name("FILE");
}

void add_memory_options(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Memory");
  add_device_option(command, o.device);
  command
      ->add_option("--budget", o.budget,
                   "Memory limit for the whole process, or for the GPU with --device cuda: 3GiB (of 1024^3 bytes, as "
                   "3g), 3GB (of 1000^3), 900MiB (default: 95 % of the free memory)")
      ->type_name("SIZE");
  command
      ->add_option("--host-budget", o.host_budget,
                   "With --device cuda: limit for the machine's own memory (default: 95 % of the free memory)")
      ->type_name("SIZE");
  whole_number(command->add_option("--dataloader-num-workers", o.memory.loader_workers,
                                   "Threads that load pages in the background (-1: chosen by the number of cores)"),
               -1, kMaxWorkers)
      ->capture_default_str();
}

void add_batch_options(CLI::App* command, RunOptions& o) {
  o.trains = true;
  command->option_defaults()->group("Batch");
  add_batch_size_options(command, o.batch);
  command->add_flag(
      "--pad-to-max-length", o.pad_to_max_length,
      "Pad every page to --max-length, as many training scripts do: slower, more memory, the same results");
  command->option_defaults()->group("Memory and speed");
  one_of(command->add_option("--recompute", o.recompute,
                             "Activations recomputed in backward: auto (as many as the budget requires), none, or "
                             "layers (all but each layer's output)"),
         {"auto", "none", "layers"})
      ->type_name("WHICH")
      ->capture_default_str();
  command->add_flag("--gradient-checkpointing", o.gradient_checkpointing, "The same as --recompute layers");
  one_of(command->add_option("--update-mode", o.update_mode,
                             "When parameters are updated: after-backward, in-backward (needs --max-grad-norm 0), "
                             "two-passes (backward runs twice), or auto"),
         {"auto", "after-backward", "in-backward", "two-passes"})
      ->type_name("WHEN")
      ->capture_default_str();
}

void add_offload_option(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Memory and speed");
  command
      ->add_option("--offload", o.offload,
                   "Keep optimizer state and activations in a temporary file in this directory if the budget requires "
                   "it: gigabytes are written per update, results do not change. With --device cuda they go to the "
                   "machine's memory instead, up to --host-budget, without being asked; none forbids that")
      ->type_name("DIR");
}

void add_training_options(CLI::App* command, RunOptions& o) {
  TrainOptions& t = o.train;
  command->option_defaults()->group("Training");
  add_evaluation_data_option(command, o, "Pages for evaluation during training, in the format of --data");
  add_label_option(command, o);
  number(command->add_option("--learning-rate", t.learning_rate, "Peak learning rate"), 0)->capture_default_str();
  number(
      command->add_option("--layerwise-lr-decay", t.rates.layer_decay,
                          "Factor of the learning rate from one encoder layer to the one before it; the head has the "
                          "full rate"),
      0, 1, true)
      ->capture_default_str();
  command
      ->add_option("--lr-pattern", o.rates,
                   "Peak learning rates of single parameters, PATTERN=RATE with patterns as in --freeze: "
                   "'classifier.*=1e-3'. May be given several times, or as a list with commas; the last that matches "
                   "counts")
      ->type_name("RATES")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  number(command->add_option("--num-train-epochs", t.num_train_epochs, "Number of passes over the data"), 0, 1e6, true)
      ->capture_default_str();
  whole_number(
      command->add_option("--max-steps", t.max_steps, "Number of updates; above 0 it overrides --num-train-epochs"), -1,
      1'000'000'000)
      ->capture_default_str();
  number(command->add_option("--warmup-ratio", t.warmup_ratio, "Fraction of updates used for warm-up"), 0, 1)
      ->capture_default_str();
  number(command->add_option("--warmup-steps", o.warmup_steps,
                             "Updates used for warm-up; below 1 their fraction; above 0 it overrides --warmup-ratio"),
         0, 1e9)
      ->capture_default_str();
  add_precision_options(command, o.precision);
  one_of(command->add_option("--fp16-fallback", o.fp16_fallback,
                             "Precision to continue in if no loss scale works for --fp16: none, bf16 or fp32"),
         {"none", "bf16", "fp32"})
      ->type_name("NAME")
      ->capture_default_str();
  one_of(command->add_option("--optim", o.optimizer,
                             "adamw_torch; adamw_8bit (moments in 8 bits); or adafactor (almost no optimizer state)"),
         {"adamw_torch", "adamw_8bit", "adafactor"})
      // Names of implementations, for the same optimizers.
      ->transform([](const std::string& name) -> std::string {
        for (const char* same : {"adamw_torch_fused", "paged_adamw_32bit", "paged_adamw"}) {
          if (name == same) return "adamw_torch";
        }
        return name == "adamw_bnb_8bit" || name == "paged_adamw_8bit" ? "adamw_8bit" : name;
      })
      ->type_name("NAME")
      ->capture_default_str();
  number(command->add_option("--weight-decay", t.weight_decay, "Weight decay, not applied to biases and layer norms"),
         0)
      ->capture_default_str();
  number(command->add_option("--label-smoothing-factor", o.model.loss.label_smoothing,
                             "Fraction of a label's weight that is spread over all labels"),
         0, kBelowOne)
      ->capture_default_str();
  number(command->add_option("--focal-gamma", o.model.loss.focal_gamma,
                             "Focal loss: words and pages whose label is found easily weigh less, by (1 - p)^gamma (0: "
                             "all weigh the same)"),
         0, 20)
      ->capture_default_str();
  number(command->add_option("--max-grad-norm", t.max_grad_norm, "Clip gradients to this global norm (0: no clipping)"),
         0)
      ->capture_default_str();
  one_of(command->add_option("--lr-scheduler-type", o.scheduler,
                             fmt::format("{}, as in transformers", fmt::join(schedule_names(), ", "))),
         schedule_names())
      ->type_name("TYPE")
      ->capture_default_str();
  command
      ->add_option("--lr-scheduler-kwargs", o.scheduler_arguments,
                   R"(The schedule's arguments by their names in transformers: '{"num_cycles": 2}')")
      ->type_name("JSON");
  command->add_flag("--augment", o.augment,
                    "Change each training page at random in each epoch: rotation, scale, crop, brightness, blur; boxes "
                    "move along. Training images are then not cached");
  number(command->add_option("--adam-beta1", t.adam_beta1, "Decay of AdamW's first moments"), 0, kBelowOne)
      ->capture_default_str();
  number(command->add_option("--adam-beta2", t.adam_beta2, "Decay of AdamW's second moments"), 0, kBelowOne)
      ->capture_default_str();
  number(command->add_option("--adam-epsilon", t.adam_epsilon, "AdamW's epsilon, added to the root of second moments"),
         0)
      ->capture_default_str();
  whole_number(command->add_option("--seed", t.seed, "Random seed of new weights, page order, dropout and --augment"),
               0)
      ->capture_default_str();
  whole_number(command->add_option("--data-seed", o.data_seed, "Random seed of the page order (-1: --seed)"), -1)
      ->capture_default_str();
  one_of(command->add_option("--train-sampling-strategy", o.sampling,
                             "Order of pages: random, sequential (the data's), or group_by_length (random groups, "
                             "sorted by length)"),
         {"random", "sequential", "group_by_length"})
      ->type_name("ORDER")
      ->capture_default_str();
  command->add_flag("--dataloader-drop-last", o.drop_last,
                    "Leave out the pages at an epoch's end that fill no whole --per-device-train-batch-size");
}

namespace {

void add_code_options(CLI::App* command, RunOptions& o) {
  command->add_flag("--load-in-8bit", o.load_in_8bit,
                    "Store the encoder's frozen weights in 8 bits, in blocks of 64 (with --lora-rank or --freeze)");
  command->add_flag("--load-in-4bit", o.load_in_4bit, "Store them in 4 bits: NormalFloat (nf4), as in QLoRA");
}

}  // namespace

void add_parts_options(CLI::App* command, RunOptions& o) {
  PartsRequest& p = o.parts;
  command->option_defaults()->group("Trained parameters");
  command
      ->add_option("--freeze", o.freeze,
                   "Parameters that are not trained: a pattern for whole Hugging Face names, where * is any text (dots "
                   "too), ? one character, [0-5] one of a set; such as 'layoutlmv3.embeddings.*' or "
                   "'layoutlmv3.encoder.layer.[0-5].*'. May be given several times, or as a list with commas. Frozen "
                   "parameters have no gradient and no optimizer state")
      ->type_name("PATTERN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  whole_number(command->add_option("--lora-rank", p.lora_rank,
                                   "Train LoRA adapters of this rank and the classification head; everything else is "
                                   "frozen, and --output-dir gets an adapter in PEFT's format (0: no adapters)"),
               0, 4096)
      ->capture_default_str();
  number(command->add_option("--lora-alpha", p.lora_alpha,
                             "LoRA's alpha: adapters are scaled by alpha / rank (default: twice the rank)"),
         0, 1e6, true);
  number(command->add_option("--lora-dropout", p.lora_dropout, "Dropout on the input of adapters"), 0, 0.99)
      ->capture_default_str();
  command
      ->add_option("--lora-target-modules", o.lora_targets,
                   "Linear layers that get adapters, separated by commas, by the end of their names: query, key, "
                   "value, attention.output.dense, intermediate.dense, output.dense (which matches both of a layer's), "
                   "or patterns as in --freeze (default: all of them)")
      ->type_name("LIST");
  add_code_options(command, o);
}

namespace {

void strategy(CLI::Option* option, std::vector<std::string> names) {
  one_of(option, std::move(names))->type_name("WHEN")->capture_default_str();
}

void add_log_options(CLI::App* command, RunOptions& o) {
  TrainOptions& t = o.train;
  command->option_defaults()->group("Checkpoints, evaluation, logs");
  strategy(command->add_option("--logging-strategy", o.logging_strategy,
                               "When to log: steps (every --logging-steps), epoch, or no (once, at the end)"),
           {"no", "steps", "epoch"});
  number(command->add_option("--logging-steps", t.logging_steps,
                             "Log every N updates, with their mean loss (0: once, at the end; below 1: a fraction of "
                             "all updates)"),
         0)
      ->capture_default_str();
  command->add_flag("--logging-first-step", t.logging_first_step, "Log the first update too");
  strategy(
      command->add_option("--save-strategy", o.save_strategy,
                          "When to save a checkpoint: steps (every --save-steps), epoch, best (after an evaluation "
                          "that is the best so far), or no"),
      {"no", "steps", "epoch", "best"});
  number(command->add_option("--save-steps", t.save_steps,
                             "Save a checkpoint every N updates (0: none; below 1: a fraction of all updates)"),
         0)
      ->capture_default_str();
  command->add_flag(
      "--save-only-model", t.save_only_model,
      "Save checkpoints without the optimizer's state: smaller, but a run cannot be resumed from them. One "
      "that a signal asks for is complete");
  whole_number(
      command->add_option("--save-total-limit", t.save_total_limit, "Keep at most this many checkpoints (0: all)"), 0)
      ->capture_default_str();
  strategy(command->add_option("--eval-strategy", o.eval_strategy,
                               "When to evaluate: steps (every --eval-steps), epoch, or no (default: steps with "
                               "--eval-steps, else epoch)"),
           {"no", "steps", "epoch"});
  number(command->add_option("--eval-steps", t.eval_steps,
                             "Evaluate every N updates (0: after each epoch; with --eval-strategy steps as "
                             "--logging-steps; below 1: a fraction of all updates)"),
         0)
      ->capture_default_str();
  number(command->add_option("--eval-delay", t.eval_delay,
                             "No evaluation before so many updates, or epochs if there is one after each"),
         0)
      ->capture_default_str();
  command->add_flag("--eval-on-start", t.eval_on_start, "Evaluate before the first update too");
  whole_number(command->add_option("--early-stopping-patience", t.early_stopping_patience,
                                   "End the run after N evaluations in a row without a better metric (0: never)"),
               0)
      ->capture_default_str();
  number(command->add_option("--early-stopping-threshold", t.early_stopping_threshold,
                             "By how much the metric must be better to count, for --early-stopping-patience"),
         0)
      ->capture_default_str();
  command
      ->add_option("--greater-is-better", o.greater_is_better,
                   "True or False: whether the larger --metric-for-best-model is the better (default: as it is)")
      ->type_name("BOOL");
  command
      ->add_option(
          "--events", o.events,
          "Write what happens to this file, one JSON object per line (docs/json.md); - for standard output, as "
          "--json does")
      ->type_name("FILE");
  command
      ->add_option("--report-to", o.report_to,
                   "tensorboard (event files in --logging-dir) and jsonl (events.jsonl in --output-dir), separated by "
                   "commas; all; or none")
      ->type_name("LIST")
      ->capture_default_str();
  command
      ->add_option("--logging-dir", o.logging_dir,
                   "Directory of TensorBoard's event files (default: tensorboard, in --output-dir)")
      ->type_name("DIR");
  command->add_flag("--load-best-model-at-end", t.load_best_model_at_end,
                    "Save the model of the best evaluation, not of the last update");
  one_of(command->add_option("--metric-for-best-model", t.metric_for_best_model,
                             fmt::format("The metric that decides which model is best: loss, or one of the task's ({}; "
                                         "default: the first)",
                                         metrics_by_task())),
         metric_names())
      ->type_name("NAME");
  command
      ->add_option("--resume-from-checkpoint", o.resume_from_checkpoint,
                   "latest (or True), or a checkpoint-N directory: continue bit for bit; latest with no checkpoint "
                   "starts from the beginning")
      ->type_name("WHICH");
  command->option_defaults()->group("NaN and infinities");
  one_of(command->add_option("--on-nonfinite", o.on_nonfinite,
                             "When loss or gradients are NaN or infinite: stop the run, or skip the update"),
         {"stop", "skip"})
      ->type_name("WHAT")
      ->capture_default_str();
  command->add_flag(
      "--detect-anomaly", t.detect_anomaly,
      "Check every op's output for NaN and infinities, and every index before it is used; slow, for debugging");
  add_bad_page_options(command, o);
  command->option_defaults()->group("Checkpoints, evaluation, logs");
  command->add_flag("--log-order", t.log_order,
                    "Write order.jsonl: the pages and windows (and questions) of every update");
}

}  // namespace

void add_train_options(CLI::App* command, RunOptions& o) {
  o.command = command;
  add_model_options(command, o);
  add_data_options(command, o);
  command->option_defaults()->group("Output");
  command
      ->add_option("--output-dir", o.train.output_dir,
                   "Checkpoints (checkpoint-N), the final model, metrics.jsonl, plan.json, summary.json, args.json")
      ->type_name("DIR");
  command->add_flag(
      "--overwrite-output-dir", o.overwrite_output_dir,
      "If --output-dir holds a finished run, move it to earlier-N in it and start a new run (default: refuse)");
  add_memory_options(command, o);
  add_batch_options(command, o);
  add_offload_option(command, o);
  add_training_options(command, o);
  add_parts_options(command, o);
  add_log_options(command, o);
}

DType PrecisionOptions::resolve() const {
  if (bf16 && fp16) {
    throw UsageError({.what = "two precisions are requested",
                      .where = "--bf16, --fp16",
                      .found = "both",
                      .allowed = "only one of them",
                      .remedy = "--bf16 needs no gradient scaler and is faster on processors with AVX512_BF16"});
  }
  return bf16 ? DType::kBF16 : fp16 ? DType::kF16 : DType::kF32;
}

void add_precision_options(CLI::App* command, PrecisionOptions& options) {
  command->add_flag("--bf16", options.bf16, "Activations in bfloat16; weights keep full F32 precision");
  command->add_flag("--fp16", options.fp16, "Activations in half precision, with loss scaling");
}

void add_bad_page_options(CLI::App* command, RunOptions& o) {
  command->option_defaults()->group("Pages that cannot be read");
  command->add_flag(
      "--no-decode-images", o.no_decode_images,
      "Skip decoding every page's image before the first update: the run starts sooner, and finds broken images later");
  one_of(command->add_option("--on-bad-page", o.on_bad_page,
                             "If a page becomes unreadable during the run: skip it from then on and name it, or stop "
                             "(save, and end with exit code 3)"),
         {"skip", "stop"})
      ->type_name("WHAT")
      ->capture_default_str();
}

void RunOptions::resolve() {
  // As the scripts of transformers have it: True is the latest checkpoint of --output-dir.
  if (const std::optional<bool> resumes = truth_of(resume_from_checkpoint)) {
    resume_from_checkpoint = *resumes ? "latest" : "";
  }
  data.data = match_paths(data_files);
  eval_data = match_paths(eval_data_files);
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
    throw UsageError({.what = "truncated pages have no overlapping windows",
                      .where = "--stride",
                      .found = fmt::format("{}, and --truncate", data.stride),
                      .allowed = "only one of them",
                      .remedy = "omit one of them"});
  }
  resolve_strategies();
  resolve_reports();
  if (!budget.empty()) memory.budget_bytes = parse_bytes(budget, "--budget");
  if (!host_budget.empty()) memory.host_budget_bytes = parse_bytes(host_budget, "--host-budget");
  train.schedule = parse_schedule(scheduler, scheduler_arguments);
  if (train.schedule.adapts() && trains && eval_data.empty()) {
    throw UsageError({.what = "the learning rate goes by evaluations, and there are none",
                      .where = "--lr-scheduler-type",
                      .found = fmt::format("{} without --eval-data", scheduler),
                      .remedy = "pass --eval-data FILE, or another schedule"});
  }
  set_warmup(warmup_steps, train);
  train.optim = parse_optimizer(optimizer);
  if (!greater_is_better.empty()) {
    train.greater_is_better = truth_of(greater_is_better);
    if (!train.greater_is_better) {
      throw UsageError({.what = "neither true nor false",
                        .where = "--greater-is-better",
                        .found = greater_is_better,
                        .allowed = "True or False (yes, no, 1, 0)"});
    }
  }
  if (model.loss.label_smoothing > 0 && model.loss.focal_gamma > 0) {
    throw UsageError({.what = "labels are to be smoothed, and to have a focal loss",
                      .where = "--focal-gamma, --label-smoothing-factor",
                      .found = "both",
                      .allowed = "only one of them",
                      .remedy = "omit one of them"});
  }
  train.rates.rates.clear();
  for (const std::string& list : rates) {
    for (const std::string& text : names_in(list)) train.rates.rates.push_back(parse_rate(text, train.learning_rate));
  }
  if (data_seed >= 0) train.data_seed = static_cast<std::uint64_t>(data_seed);
  train.sampling = sampling == "sequential"        ? SampleOrder::kSequential
                   : sampling == "group_by_length" ? SampleOrder::kByLength
                                                   : SampleOrder::kRandom;
  train.skip_nonfinite = on_nonfinite == "skip";
  train.stop_on_bad_page = on_bad_page == "stop";
  train.precision = precision.resolve();
  if (fp16_fallback != "none" && train.precision != DType::kF16) {
    throw UsageError({.what = "--fp16-fallback needs --fp16",
                      .where = "--fp16-fallback",
                      .found = "no --fp16",
                      .remedy = "pass --fp16 too, or omit --fp16-fallback"});
  }
  if (parts.lora_rank == 0 && (parts.lora_alpha > 0 || parts.lora_dropout > 0 || !lora_targets.empty())) {
    throw UsageError({.what = "an adapter option needs --lora-rank",
                      .where = parts.lora_alpha > 0     ? "--lora-alpha"
                               : parts.lora_dropout > 0 ? "--lora-dropout"
                                                        : "--lora-target-modules",
                      .found = "no --lora-rank",
                      .allowed = "--lora-rank of 1 or more",
                      .remedy = "pass --lora-rank 8, or omit the option"});
  }
  if (load_in_8bit && load_in_4bit) {
    throw UsageError({.what = "8-bit and 4-bit weights are both requested",
                      .where = "--load-in-8bit, --load-in-4bit",
                      .found = "both",
                      .allowed = "only one of them"});
  }
  parts.frozen_weights = load_in_8bit ? DType::kQ8 : load_in_4bit ? DType::kNF4 : DType::kF32;
  parts.lora_targets = names_in(lora_targets);
  parts.freeze.clear();
  for (const std::string& pattern : freeze) {
    for (std::string& name : names_in(pattern)) parts.freeze.push_back(std::move(name));
  }
  constexpr std::int64_t kAroundOverlap = 3;  // <s>, </s> and a token beyond the overlap
  if (data.stride >= 0) memory.least_window = data.stride + kAroundOverlap;
  memory.forbids_offload = offload == "none";
  if (!offload.empty() && offload != "none") {
    memory.offload = OffloadTarget::kFile;
    memory.offload_directory = offload;
  }
  if (recompute == "none") memory.recompute = RecomputeMode::kNone;
  if (recompute == "layers") memory.recompute = RecomputeMode::kLayers;
  if (gradient_checkpointing) {
    if (recompute == "none") {
      throw UsageError({.what = "the recomputation options contradict each other",
                        .where = "--gradient-checkpointing",
                        .found = "--recompute none",
                        .allowed = "only one of them",
                        .remedy = "omit one of them"});
    }
    memory.recompute = RecomputeMode::kLayers;
  }
  if (update_mode == "after-backward") memory.update = UpdateMode::kAfterBackward;
  if (update_mode == "in-backward") memory.update = UpdateMode::kInBackward;
  if (update_mode == "two-passes") memory.update = UpdateMode::kTwoPasses;
  if (trains) {
    train.train_batch_size = batch.effective();
    if (drop_last) train.drop_last_of = batch.per_device();
    if (batch.micro_batch_size > 0) memory.micro_batch_size = batch.micro_batch_size;
  }
}

bool RunOptions::reports_to_tensorboard() const {
  const std::vector<std::string> names = names_in(report_to);
  return std::ranges::find(names, "tensorboard") != names.end() || std::ranges::find(names, "all") != names.end();
}

std::filesystem::path RunOptions::logging_directory() const {
  return logging_dir.empty() ? train.output_dir / "tensorboard" : logging_dir;
}

void RunOptions::resolve_reports() {
  for (const std::string& name : names_in(report_to)) {
    if (name == "none" || name == "all" || name == "tensorboard") continue;
    if (name != "jsonl") {
      throw UsageError({.what = "nothing like that to report to",
                        .where = "--report-to",
                        .found = name,
                        .allowed = "tensorboard, jsonl, all or none",
                        .remedy = "Weights & Biases, MLflow and Trackio are reached from Python: plimsoll.train(..., "
                                  "callbacks=[...]), docs/python.md"});
    }
  }
  const std::vector<std::string> names = names_in(report_to);
  const bool jsonl = std::ranges::find(names, "jsonl") != names.end() || std::ranges::find(names, "all") != names.end();
  if (jsonl && events.empty() && !train.output_dir.empty()) events = (train.output_dir / "events.jsonl").string();
}

void RunOptions::resolve_strategies() {
  for (const auto& [option, steps] : {std::pair("--logging-steps", train.logging_steps),
                                      {"--save-steps", train.save_steps},
                                      {"--eval-steps", train.eval_steps}}) {
    if (steps < 1 || steps == std::floor(steps)) continue;
    throw UsageError({.what = "neither a number of updates nor a fraction of them",
                      .where = option,
                      .found = fmt::format("{:g}", steps),
                      .allowed = "a whole number, or a fraction of all updates below 1"});
  }
  train.logging_strategy = parse_strategy(logging_strategy, "--logging-strategy");
  train.save_strategy = parse_strategy(save_strategy, "--save-strategy");
  if (!eval_strategy.empty()) train.eval_strategy = parse_strategy(eval_strategy, "--eval-strategy");
  if (train.eval_strategy == IntervalStrategy::kNo) {
    if (!eval_data.empty()) log_info("--eval-strategy no: --eval-data is not read");
    eval_data.clear();
  }
  if (train.eval_strategy == IntervalStrategy::kSteps && train.eval_steps == 0 && train.logging_steps == 0) {
    throw UsageError({.what = "evaluations are to come every so many updates, and nothing says how many",
                      .where = "--eval-strategy",
                      .found = "steps, without --eval-steps, and --logging-steps 0",
                      .remedy = "pass --eval-steps N"});
  }
  if (!eval_data.empty()) return;
  const std::string found = train.eval_strategy == IntervalStrategy::kNo ? "--eval-strategy no" : "no --eval-data";
  const auto needs = [&](bool asked, const std::string& option, const char* what) {
    if (!asked) return;
    throw UsageError({.what = what,
                      .where = option,
                      .found = found,
                      .remedy = fmt::format("pass --eval-data FILE, or omit {}", option)});
  };
  const bool evaluates = train.eval_strategy && *train.eval_strategy != IntervalStrategy::kNo;
  needs(evaluates, "--eval-strategy", "there is no evaluation data");
  needs(train.eval_steps > 0 && train.eval_strategy != IntervalStrategy::kNo, "--eval-steps",
        "there is no evaluation data");
  needs(train.eval_on_start, "--eval-on-start", "there is no evaluation data");
  needs(train.load_best_model_at_end, "--load-best-model-at-end",
        "the best model cannot be found without evaluation data");
  needs(train.save_strategy == IntervalStrategy::kBest, "--save-strategy best",
        "the best model cannot be found without evaluation data");
  needs(train.early_stopping_patience > 0, "--early-stopping-patience",
        "a run cannot stop early without evaluation data");
}

std::vector<NamedPath> RunOptions::inputs() const {
  std::vector<NamedPath> paths = {{"--model", model.model},
                                  {"--tokenizer", model.tokenizer},
                                  {"--base-model", model.base_model},
                                  {"--labels", model.labels}};
  for (const std::filesystem::path& path : data.data) paths.push_back({"--data", path});
  for (const std::filesystem::path& path : eval_data) paths.push_back({"--eval-data", path});
  return paths;
}

Device open_run_device(const Invocation& invocation, RunOptions& options) {
  Device device = open_device(invocation, options.device);
  resolve_device_memory(options.memory, *device.backend);
  return device;
}

void RunOptions::resolve_padding(const EncoderFacts& facts) {
  if (pad_to_max_length) train.pad_to = window_options(data, facts).max_length;
}

}  // namespace plimsoll
