// Interprets a run's typed options together: texts become values, and options that contradict each other are refused.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "bundle/model_place.h"
#include "cli/run_options.h"
#include "cli/usage.h"
#include "formats/json.h"
#include "model/trained_parts.h"
#include "request/reading.h"
#include "train/checkpoint.h"

namespace plimsoll {
namespace {

// Parses "PATTERN=RATE".
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

void RunOptions::resolve() {
  refuse_unfinished_run(model.model);
  resolve_data();
  resolve_strategies();
  resolve_reports();
  resolve_memory();
  resolve_training();
  resolve_parts();
  if (runs || memory.plans_only) {
    ranks.on_gpu = device.device != "cpu";
    ranks.resolve(memory);
    train.rank = ranks.launch.rank;
  }
  set_ranks(ranks.launch.size);
  if (!trains) return;
  if (drop_last) train.drop_last_of = batch.per_device();
  if (batch.micro_batch_size > 0) memory.micro_batch_size = batch.micro_batch_size;
}

void RunOptions::set_ranks(int size) {
  train.ranks = size;
  batch.ranks = size;
  if (trains) train.train_batch_size = batch.effective();
}

void RunOptions::resolve_data() {
  // As in the scripts of transformers, True means the latest checkpoint of --output-dir.
  if (const std::optional<bool> resumes = truth_of(resume_from_checkpoint)) {
    resume_from_checkpoint = *resumes ? "latest" : "";
  }
  data.data = match_paths(data_files);
  data.pages = match_paths(pages_files);
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
}

void RunOptions::resolve_training() {
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
  model.class_weights = {};
  for (const std::string& text : class_weights) {
    if (text == "balanced") {
      model.class_weights.balanced = true;
    } else {
      std::ranges::move(numbers_in("--class-weights", text, "B-TOTAL=5,O=0.2"),
                        std::back_inserter(model.class_weights.named));
    }
  }
  if (model.class_weights.balanced && !model.class_weights.named.empty()) {
    throw UsageError({.what = "class weights are to be balanced, and are given",
                      .where = "--class-weights",
                      .found = fmt::format("balanced and {}", model.class_weights.named.front().first),
                      .allowed = "only one of them"});
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
}

void RunOptions::resolve_memory() {
  if (!budget.empty()) memory.budget_bytes = parse_bytes(budget, "--budget");
  if (!host_budget.empty()) memory.host_budget_bytes = parse_bytes(host_budget, "--host-budget");
  constexpr std::int64_t kAroundOverlap = 3;  // <s>, </s> and a token beyond the overlap
  if (data.stride >= 0) memory.least_window = data.stride + kAroundOverlap;
  memory.forbids_offload = offload == "none";
  if (!offload.empty() && offload != "none") {
    memory.offload = OffloadTarget::kFile;
    memory.offload_directory = offload;
  }
  if (grad_cache == "on") memory.grad_cache = GradCache::kOn;
  if (grad_cache == "off") memory.grad_cache = GradCache::kOff;
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
  if (update_mode == "head-in-parts") memory.update = UpdateMode::kHeadInParts;
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
  if (jsonl && !events.empty()) {
    log_warning(fmt::format("--report-to jsonl changes nothing beside --events: all events go to {}", events));
  }
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
    throw UsageError({.what = "evaluations are to come after a number of updates, and nothing says how many",
                      .where = "--eval-strategy",
                      .found = "steps, without --eval-steps, and --logging-steps 0",
                      .remedy = "pass --eval-steps N"});
  }
  if (train.load_best_model_at_end && train.save_strategy == IntervalStrategy::kNo) {
    log_info("--load-best-model-at-end saves a checkpoint whenever an evaluation is the best so far");
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

std::optional<DType> RunOptions::fallback_precision() const {
  if (fp16_fallback == "none" || train.precision != DType::kF16) return std::nullopt;
  return fp16_fallback == "bf16" ? DType::kBF16 : DType::kF32;
}

std::vector<NamedPath> RunOptions::inputs() const {
  std::vector<NamedPath> paths = {{"--model", model.model},
                                  {"--tokenizer", model.tokenizer},
                                  {"--base-model", model.base_model},
                                  {"--labels", model.labels}};
  for (const std::filesystem::path& path : data.data) paths.push_back({"--data", path});
  for (const std::filesystem::path& path : data.pages) paths.push_back({"--pages", path});
  for (const std::filesystem::path& path : eval_data) paths.push_back({"--eval-data", path});
  if (!teacher.model.empty()) paths.push_back({"--distil-from", teacher.model});
  return paths;
}

namespace {

Device open_one_of_ranks(const Invocation& invocation, const RunOptions& options) {
  if (invocation.ranks == nullptr) return open_device(invocation, options.device);
  Device device = open_device(invocation, device_of_rank(options.device, options.ranks.launch));
  device.backend->connect(*invocation.ranks, options.ranks.timeout());
  return device;
}

// The rows of several pages exceed a CPU's caches sooner, and do not fill its vectors better.
constexpr std::int64_t kEvaluationPagesOfGpu = 8, kEvaluationPagesOfCpu = 2;

}  // namespace

Device open_run_device(const Invocation& invocation, RunOptions& options) {
  Device device = open_one_of_ranks(invocation, options);
  resolve_on_device(options, *device.backend);
  return device;
}

void resolve_on_device(RunOptions& options, Backend& backend) {
  resolve_device_memory(options.memory, backend);
  if (options.train.train_batch_size > 0) return;
  options.train.train_batch_size = backend.device_use() ? kEvaluationPagesOfGpu : kEvaluationPagesOfCpu;
}

void refuse_unfinished_run(const std::string& model) {
  if (!std::filesystem::is_directory(model)) return;
  const std::filesystem::path place = model_place(model);
  for (const char* name : {"config.json", "adapter_config.json"}) {
    if (std::filesystem::exists(place / name)) return;
  }
  const std::vector<std::int64_t> steps = list_checkpoints(model);
  if (steps.empty()) return;
  const std::string last = checkpoint_path(model, steps.back()).string();
  throw DataError({.what = "no model in this directory",
                   .where = model,
                   .found = "the checkpoints of a run that has not ended, the last of which is " + last,
                   .allowed = "a directory with a model",
                   .remedy = fmt::format("pass --model {}; or finish the run: plimsoll train with its options and "
                                         "--resume-from-checkpoint latest",
                                         last)});
}

ModelBundle open_evaluated_model(const RunOptions& options) {
  ModelBundle bundle = open_trained_model(options.model.model, options.model.tokenizer, options.model.base_model);
  check_weights(bundle, MissingHead::kRefused);
  const DType code = coded_weights(options);
  if (is_coded(code)) {
    hold_in_codes(bundle.options, code, !options.float_activations);
  } else if (bundle.quantized) {
    bundle.options.freeze = {"*"};
  } else if (options.float_activations) {
    throw UsageError({.what = "activations are rounded only with quantized weights",
                      .where = "--float-activations",
                      .found = "weights that are not quantized",
                      .allowed = "--float-activations with --load-in-8bit or --load-in-4bit",
                      .remedy = "omit --float-activations"});
  }
  return bundle;
}

void tell_trained_windows(const RunOptions& options, const ModelBundle& bundle, const char* does) {
  const std::filesystem::path path = std::filesystem::path(options.model.model) / "args.json";
  std::error_code error;
  if (options.data.max_length > 0 || !std::filesystem::exists(path, error)) return;
  const nlohmann::json record = parse_json(read_text_file(path, 1 << 26), path.string());
  DataRequest trained;
  trained.max_length = record.value(nlohmann::json::json_pointer("/options/max_length"), 0);
  const EncoderFacts facts = bundle.facts();
  if (trained.max_length > facts.max_text_tokens()) return;  // not a record of this model
  const int then = window_length(trained, facts), now = window_length(options.data, facts);
  if (then == now) return;
  const bool truncated = record.value(nlohmann::json::json_pointer("/options/truncate"), false);
  log_info(
      fmt::format("windows of {} here, and of {} when the model was trained ({}); --max-length {}{} {} as the run did",
                  counted(now, "token"), then, path.string(), then, truncated ? " --truncate" : "", does));
}

void RunOptions::resolve_padding(const EncoderFacts& facts) {
  if (pad_to_max_length) train.pad_to = window_length(data, facts);
}

}  // namespace plimsoll
