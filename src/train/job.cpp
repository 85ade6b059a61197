#include "train/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/offload_file.h"
#include "base/process.h"
#include "data/label_scheme.h"
#include "model/trained_parts.h"
#include "tasks/tasks.h"
#include "train/batch_shape.h"
#include "train/predictor.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

// Capacities in steps that suit the matrix kernels.
constexpr std::int64_t kRowStep = 16;

std::int64_t rounded_rows(std::int64_t rows) {
  return static_cast<std::int64_t>(round_up(static_cast<std::size_t>(std::max<std::int64_t>(rows, 1)), kRowStep));
}

bool covers(const std::vector<std::string>& labels, const LabelSet& data) {
  return std::ranges::all_of(data.names(),
                             [&](const std::string& name) { return std::ranges::find(labels, name) != labels.end(); });
}

// Labels of which the model knows some and not others are a slip in the data more often than a wish for a new head,
// which would throw away what the model has learnt. Data whose entities the model knows nothing of gets a new head.
void refuse_stray_labels(const Task& task, const std::vector<std::string>& known, const LabelSet& seen,
                         const PageSource& source) {
  const auto knows = [&known](const std::string& name) { return std::ranges::find(known, name) != known.end(); };
  const bool shares =
      std::ranges::any_of(seen.names(), [&](const std::string& name) { return name != "O" && knows(name); });
  if (!shares) return;
  if (std::optional<Problem> problem = task.find_unknown_label(source, LabelSet(known, "the model's labels"))) {
    problem->remedy = fmt::format("correct the label; or, for a new head, pass all labels: --labels {}",
                                  fmt::join(seen.names(), ","));
    throw PageError("label-unknown", std::move(*problem));
  }
}

}  // namespace

PageParts page_parts(const EncoderFacts& facts) {
  return {.boxes = facts.coordinates > 0, .image = facts.image.size > 0};
}

ReadOptions read_options(const ModelBundle& bundle, const DataRequest& request, bool with_targets) {
  const Task& task = bundle.task();
  ReadOptions options{.segment_boxes = request.segment_boxes,
                      .parts = page_parts(bundle.facts()),
                      .ignore_labels = !with_targets || !task.labels_words(),
                      .target = with_targets || task.asks() ? task.reader() : nullptr};
  if (with_targets) options.label_names = bundle.config.task.labels;
  return options;
}

WindowOptions window_options(const DataRequest& request, const EncoderFacts& facts) {
  constexpr std::int64_t kUsual = 512;
  const std::int64_t most = facts.max_text_tokens();
  const std::int64_t length = request.max_length > 0 ? request.max_length : std::min(kUsual, most);
  constexpr std::int64_t kLeast = 3;
  if (length < kLeast || length > most) {
    throw UsageError(
        {.what = length > most ? "windows of that length exceed the model's positions"
                               : "a window of that length has no room for text",
         .where = "--max-length",
         .found = fmt::format("{}", length),
         .allowed = fmt::format(
             "{} (the first and the last token and one between) to {} (max_position_embeddings{})", kLeast, most,
             facts.token.first_position > 0 ? fmt::format(" {} less the padding position", facts.positions) : ""),
         .remedy = fmt::format("pass --max-length {}; longer pages become several windows", std::min(kUsual, most))});
  }
  WindowOptions options{.max_length = static_cast<int>(length),
                        .stride = request.stride >= 0 ? request.stride : std::min(128, static_cast<int>(length) / 4),
                        .long_pages = request.truncate ? LongPages::kTruncate : LongPages::kWindows};
  validate(options);
  return options;
}

void resolve_labels(ModelBundle& bundle, const ModelRequest& model, const DataRequest& data) {
  set_task(bundle, model.task, model.problem_type);
  const Task& task = bundle.task();
  if (!model.labels.empty()) set_labels(bundle, LabelSet::parse(model.labels));
  // Labels of words need no look at the data where they are given; classes of pages have a problem type too.
  if (!model.labels.empty() && (task.labels_words() || !bundle.config.task.problem_type.empty())) return;
  const bool model_has_labels = bundle.weights != nullptr && !bundle.fresh_task;
  ReadOptions reading = read_options(bundle, data, true);
  if (!model_has_labels) reading.label_names.clear();
  const std::unique_ptr<PageSource> source = open_pages(data.data, reading);
  const TaskConfig found = task.seen_in(*source, bundle.config.task);
  bundle.config.task.problem_type = found.problem_type;
  bundle.config.task.link_labels = found.link_labels;
  if (!model.labels.empty()) return;
  const LabelSet seen(found.labels, "labels of the data");
  if (model_has_labels && covers(bundle.config.task.labels, seen)) return;
  if (model_has_labels) refuse_stray_labels(task, bundle.config.task.labels, seen, *source);
  set_labels(bundle, seen);
}

void choose_trained_parts(ModelBundle& bundle, const PartsRequest& request) {
  bundle.options.freeze = request.freeze;
  if (request.lora_rank > 0) {
    const std::string asked = fmt::format("--lora-rank {} with --model {}", request.lora_rank, bundle.origin);
    if (bundle.weights == nullptr) {
      throw UsageError({.what = "adapters need a base model with stored weights",
                        .where = "--lora-rank",
                        .found = asked + ", a preset, whose weights would be random and lost",
                        .allowed = "a model directory",
                        .remedy = fmt::format("write the preset first: plimsoll init --model {} --output-dir DIR; then "
                                              "train with --model DIR",
                                              bundle.origin)});
    }
    if (bundle.options.lora.enabled()) {
      throw UsageError(
          {.what = "the model has adapters already",
           .where = "--lora-rank",
           .found = fmt::format("{}, adapters of rank {}", asked, bundle.options.lora.rank),
           .allowed = "no --lora-rank, to continue training those adapters; or a model without adapters",
           .remedy = fmt::format("omit --lora-rank; or merge them first: plimsoll merge --adapter {} --output-dir DIR",
                                 bundle.origin)});
    }
    const std::vector<std::string> all(kLoraTargets.begin(), kLoraTargets.end());
    bundle.base = std::filesystem::absolute(bundle.origin).lexically_normal().string();
    bundle.options.lora = {
        .rank = request.lora_rank,
        .alpha = request.lora_alpha > 0 ? request.lora_alpha : 2 * static_cast<double>(request.lora_rank),
        .dropout = request.lora_dropout,
        .modules = lora_modules(bundle.definition().encoder().linear_maps(),
                                request.lora_targets.empty() ? all : request.lora_targets)};
  }
  check_trained_parts(bundle.definition(), bundle.options);
  if (!is_coded(request.frozen_weights)) return;
  bundle.options.frozen_weights = request.frozen_weights;
  const std::vector<ParameterSpec> specs = bundle.specs();
  const bool any = std::any_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
    return is_coded(parameter_type(spec, DType::kF32, bundle.options));
  });
  if (any) return;
  const char* const option = request.frozen_weights == DType::kQ8 ? "--load-in-8bit" : "--load-in-4bit";
  throw UsageError({.what = "trained weights cannot be quantized",
                    .where = option,
                    .found = "every weight of the encoder is trained",
                    .allowed = "frozen weights: with --lora-rank, or --freeze 'layoutlmv3.encoder.*'",
                    .remedy = fmt::format("pass --lora-rank 8 {}", option)});
}

namespace {

bool all_folders(const PageSource& source) {
  return std::ranges::all_of(source.paths(), [](const auto& path) { return std::filesystem::is_directory(path); });
}

// What `check` and a run that begins have in common. `names` give numbers in the data their meaning; `labels` (nullptr:
// any) are those that may occur.
DataCheck check_with(const ModelBundle& bundle, const CheckRequest& request, const std::vector<std::string>& names,
                     const LabelSet* labels, bool required) {
  const WordEncoder encoder = bundle.word_encoder();
  ReadOptions reading = read_options(bundle, request.data, required);
  reading.label_names = names;
  const auto open = [&](const PagePaths& path) { return open_pages(path, reading); };
  TaskConfig task = bundle.config.task;
  if (labels != nullptr) task.labels = names;
  const std::shared_ptr<const Targets> targets =
      labels != nullptr || bundle.task().asks() ? bundle.task().targets(task, required) : nullptr;
  const auto run = [&](const PageSource& source, bool evaluation) {
    return check_pages(source, {.parts = page_parts(bundle.facts()),
                                .box_format = request.data.box_format,
                                .labels = labels,
                                .labels_required = required,
                                .words_labelled = bundle.task().labels_words(),
                                .targets = targets,
                                .encoder = &encoder,
                                .vocab_size = bundle.facts().vocab_size,
                                .windows = window_options(request.data, bundle.facts()),
                                .segments_known = all_folders(source) && !request.data.segment_boxes,
                                .decode_images = request.decode_images,
                                .decoding_bytes = request.decoding_bytes,
                                .skipped = indices_of(request.skipped, evaluation),
                                .places_kept = request.places_kept,
                                .threads = request.threads,
                                .on_progress = request.on_progress});
  };
  const std::unique_ptr<PageSource> train = open(request.data.data);
  DataCheck result{.findings = Findings(request.places_kept), .train = run(*train, false)};
  result.findings.merge(result.train.findings);
  if (request.evaluation.empty()) return result;
  const std::unique_ptr<PageSource> evaluation = open(request.evaluation);
  result.evaluation = run(*evaluation, true);
  result.findings.merge(result.evaluation->findings);
  result.findings.merge(compare_data({*train, result.train}, {*evaluation, *result.evaluation}, request.places_kept));
  return result;
}

// The same checks before a run: its warnings are logged, its errors end it.
void refuse_bad_data(const ModelBundle& bundle, const DataRequest& request, const PagePaths& evaluation,
                     bool labels_required, const RunDataOptions& options = {}) {
  const LabelSet labels(bundle.config.task.labels, "the model's labels");
  CheckRequest check{.data = request,
                     .evaluation = evaluation,
                     .decode_images = options.decode_images,
                     .skipped = options.skipped,
                     .threads = std::min(4, available_cores())};
  if (options.decode_images) check.on_progress = options.on_progress;
  const DataCheck result = labels_required ? check_with(bundle, check, labels.names(), &labels, true)
                                           : check_with(bundle, check, {}, nullptr, false);
  for (const std::string& line : result.findings.to_lines(Severity::kWarning)) log_warning(line);
  if (result.findings.count(Severity::kError) > 0) {
    throw result.findings.to_error(evaluation.empty() ? listed(request.data)
                                                      : listed(request.data) + " and " + listed(evaluation));
  }
}

// Labels without B- and I- are read as whole types, which need not be what was meant.
void say_scheme(const ModelBundle& bundle) {
  if (!bundle.task().labels_words()) return;
  const std::string note = scheme_note(bundle.config.task.labels);
  if (note.empty()) return;
  label_scheme(bundle.config.task.labels) == LabelScheme::kMixed ? log_warning(note) : log_info(note);
}

std::unique_ptr<Dataset> open_checked(const ModelBundle& bundle, const DataRequest& request, bool with_labels,
                                      bool owned_only, const std::vector<std::uint32_t>& skipped = {}) {
  std::shared_ptr<const PageSource> source = open_pages(request.data, read_options(bundle, request, with_labels));
  DatasetOptions options{.parts = page_parts(bundle.facts()),
                         .box_format = request.box_format,
                         .windows = window_options(request, bundle.facts()),
                         .separator_box = bundle.facts().token.separator_box};
  if (with_labels && bundle.task().labels_words()) {
    options.labels = LabelSet(bundle.config.task.labels, "the model's labels");
  }
  options.targets = bundle.task().targets(bundle.config.task, with_labels);
  options.label_owned_words_only = owned_only;
  options.skipped = skipped;
  if (request.augment) {
    if (!options.parts.image) {
      throw UsageError({.what = "the model sees no image that could be augmented",
                        .where = "--augment",
                        .found = fmt::format("a model of {}", bundle.config.encoder->model_type()),
                        .allowed = "--augment with a model that reads pictures, such as LayoutLMv3",
                        .remedy = "omit --augment"});
    }
    options.augment = request.augment;
  } else {
    options.cache = {.directory = request.cache, .threads = std::min(4, available_cores())};
  }
  auto dataset = std::make_unique<Dataset>(std::move(source), bundle.word_encoder(), ImageProcessor(bundle.image),
                                           std::move(options));
  if (dataset->size() == 0) {
    throw DataError({.what = "there are no pages",
                     .where = listed(request.data),
                     .found = "an empty file",
                     .allowed = "at least one page"});
  }
  if (dataset->lost_words() > 0) {
    log_warning(fmt::format("--truncate drops {} at the ends of long pages of {}",
                            counted(dataset->lost_words(), "word"), listed(request.data)));
  }
  return dataset;
}

}  // namespace

DataCheck check_data(ModelBundle& bundle, const ModelRequest& model, const CheckRequest& request) {
  const bool has_own = bundle.weights != nullptr && model.task.empty();
  const std::vector<std::string> own = has_own ? bundle.config.task.labels : std::vector<std::string>();
  // Where the data's labels cannot be listed, the check itself says which pages are broken; what it cannot see without
  // labels is added.
  const auto without_labels = [&](const std::string& kind, const Problem& problem) {
    DataCheck result = check_with(bundle, request, own, nullptr, true);
    if (result.findings.count(Severity::kError) == 0) result.findings.add(Severity::kError, kind, problem);
    return result;
  };
  try {
    resolve_labels(bundle, model, request.data);
  } catch (const PageError& error) {
    // A label that the model does not know, among some that it does: every one of them is listed.
    if (error.kind() == "label-unknown" && !own.empty()) {
      const LabelSet labels(own, "the model's labels");
      return check_with(bundle, request, own, &labels, true);
    }
    return without_labels(error.kind(), error.problem());
  } catch (const DataError& error) {
    return without_labels("labels-missing", error.problem());
  }
  const LabelSet labels(bundle.config.task.labels, "the labels");
  return check_with(bundle, request, labels.names(), &labels, true);
}

std::unique_ptr<Dataset> open_dataset(const ModelBundle& bundle, const DataRequest& request, bool with_labels,
                                      bool owned_only) {
  say_scheme(bundle);
  refuse_bad_data(bundle, request, {}, with_labels);
  return open_checked(bundle, request, with_labels, owned_only);
}

RunData open_run_data(const ModelBundle& bundle, const DataRequest& request, const PagePaths& evaluation,
                      const RunDataOptions& options) {
  say_scheme(bundle);
  RunDataOptions checks = options;
  // A cache decodes every image once, when it is made.
  if (!request.cache.empty() && !request.augment) checks.decode_images = false;
  refuse_bad_data(bundle, request, evaluation, true, checks);
  RunData data{.train = open_checked(bundle, request, true, false, indices_of(options.skipped, false)),
               .evaluation = nullptr};
  if (evaluation.empty()) return data;
  DataRequest held_out = request;
  held_out.data = evaluation;
  held_out.augment.reset();
  data.evaluation = open_checked(bundle, held_out, true, true, indices_of(options.skipped, true));
  return data;
}

std::int64_t updates_of(const TrainOptions& options, const Dataset& train) {
  const auto windows = static_cast<std::int64_t>(train.size());
  return total_steps(options, (windows + options.train_batch_size - 1) / options.train_batch_size);
}

LoaderOptions loader_options(const MemoryRequest& memory) {
  return {.workers = memory.loader_workers >= 0 ? memory.loader_workers : std::min(4, (available_cores() + 1) / 2),
          .slots = 0};
}

namespace {

// A device's tensors may go to the host's memory unless somebody says no.
void resolve_host_offload(MemoryRequest& memory, Backend& backend) {
  if (memory.offload == OffloadTarget::kFile) {
    throw UsageError({.what = "a GPU offloads to the host's memory, not to a file",
                      .where = "--offload",
                      .found = memory.offload_directory.string(),
                      .allowed = "none, or no --offload: the host's memory then holds what does not fit on the GPU",
                      .remedy = "omit --offload; --host-budget limits what the host holds"});
  }
  if (memory.forbids_offload) return;
  if (const std::optional<TransferSpeed> speed = backend.offload_speed()) {
    memory.offload = OffloadTarget::kHost;
    memory.host_speed = *speed;
  }
}

}  // namespace

std::size_t resolve_budget(const MemoryRequest& memory) {
  return memory.budget_bytes > 0 ? memory.budget_bytes : usual_budget(resident_bytes(), available_memory_bytes());
}

namespace {

// Beyond the least limit of its cgroups a process is killed; beyond the machine's memory it swaps, or is killed.
void check_host_budget(std::size_t budget_bytes, const char* option, const MemoryRequest& memory) {
  if (budget_bytes == 0) return;
  if (const auto limit = MemoryGroups(memory.root).least_limit(); limit && limit->limit_bytes < budget_bytes) {
    const std::string found = fmt::format("{}, but the cgroup {} allows {}", format_bytes(budget_bytes),
                                          limit->directory, format_bytes(limit->limit_bytes));
    if (!memory.plans_only) {
      throw BudgetError({.what = "the budget exceeds the process's memory limit",
                         .where = option,
                         .found = found,
                         .allowed = fmt::format("at most {} MiB", limit->limit_bytes / kMiB),
                         .remedy = fmt::format("omit {} to use the free memory, or raise the limit (docker run "
                                               "--memory, Kubernetes resources.limits.memory, Slurm --mem)",
                                               option)});
    }
    log_warning(fmt::format("{} {}: a run here would be refused", option, found));
    return;
  }
  const std::size_t machine = machine_memory_bytes(memory.root);
  if (machine == 0 || budget_bytes <= machine) return;
  log_warning(fmt::format("{} {} exceeds the machine's memory of {}{}", option, format_bytes(budget_bytes),
                          format_bytes(machine),
                          memory.plans_only ? "" : ": a run that uses that much would be killed"));
}

}  // namespace

void resolve_device_memory(MemoryRequest& memory, Backend& backend) {
  if (const std::optional<DeviceUse> use = backend.device_use()) {
    resolve_host_offload(memory, backend);
    if (!memory.other_machine) check_host_budget(memory.host_budget_bytes, "--host-budget", memory);
    const std::size_t device = use->held_bytes + use->free_bytes;
    if (memory.budget_bytes > device && !memory.other_machine) {
      log_warning(fmt::format("{} {} exceeds the {} of the GPU's memory that other processes leave free",
                              memory.budget_option.name, format_bytes(memory.budget_bytes), format_bytes(device)));
    }
    if (memory.budget_bytes == 0) memory.budget_bytes = usual_budget(use->held_bytes, use->free_bytes);
    if (memory.host_budget_bytes == 0) {  // another machine's host may have any memory
      memory.host_budget_bytes = memory.other_machine ? std::numeric_limits<std::size_t>::max()
                                                      : usual_budget(resident_bytes(), available_memory_bytes());
    }
    return;
  }
  if (memory.host_budget_bytes > 0) {
    throw UsageError({.what = "--host-budget needs --device cuda",
                      .where = "--host-budget",
                      .found = format_bytes(memory.host_budget_bytes),
                      .allowed = "--budget, which limits the host's memory on the CPU",
                      .remedy = "omit --host-budget, or pass --device cuda"});
  }
  if (!memory.other_machine) check_host_budget(memory.budget_bytes, memory.budget_option.name, memory);
}

FitRequest fit_request(const ModelBundle& bundle, const TrainOptions& options, const Dataset* train,
                       const Dataset* evaluation, const MemoryRequest& memory) {
  FitRequest request;
  request.step.definition = bundle.definition();
  request.step.model = bundle.options;
  request.step.optimizer.kind = options.optim;
  request.step.precision = options.precision;
  request.step.optimizer.adamw.weight_decay = options.weight_decay;
  request.step.optimizer.clips = options.max_grad_norm > 0;
  request.step.optimizer.unscales = options.precision == DType::kF16;
  request.train_batch_size = options.train_batch_size;
  request.micro_batch_size = memory.micro_batch_size;
  request.update = memory.update;
  request.recompute = memory.recompute;
  request.speeds = memory.speeds;
  if (train != nullptr && memory.offload != OffloadTarget::kNone) {
    const TransferSpeed speed =
        memory.offload == OffloadTarget::kFile ? measure_disk(memory.offload_directory) : memory.host_speed;
    request.offload = memory.offload;
    request.offload_directory = memory.offload_directory;
    request.speeds.offload_read_seconds_per_byte = 1 / speed.read_bytes_per_second;
    request.speeds.offload_write_seconds_per_byte = 1 / speed.write_bytes_per_second;
  }
  request.trains = train != nullptr;
  request.pretrained = bundle.weights != nullptr;
  for (const auto& [name, config] : smaller_presets(bundle.config)) {
    request.smaller_models.push_back({name, task_of(config.task).model(config.encoder, config.task)});
  }
  request.evaluates = evaluation != nullptr;
  if (options.load_best_model_at_end) {
    request.evaluation_options = {};
  } else if (options.eval_steps > 0) {
    request.evaluation_options = "--eval-data and --eval-steps";
  }
  request.resumes = memory.resumes;
  request.least_window = memory.least_window;
  request.drawing_bytes = memory.drawing_bytes;
  request.budget_bytes = resolve_budget(memory);
  request.budget_option = memory.budget_option;
  request.host_budget_bytes = memory.host_budget_bytes;
  if (train != nullptr) {
    const SamplerOptions order{
        .seed = options.seed, .train_batch_size = options.train_batch_size, .shuffle = true, .pad_to = options.pad_to};
    const Sampler sampler(train->examples(), order);
    const std::int64_t per_epoch = sampler.updates_per_epoch();
    const std::int64_t epochs = (total_steps(options, per_epoch) + per_epoch - 1) / per_epoch;
    // The order of pages is known, so the most rows of any micro-batch of the run are known, not guessed.
    const auto most_rows = [train, order, epochs](std::int64_t micro) {
      return Sampler(train->examples(), order).largest_text_rows(0, static_cast<std::uint64_t>(epochs), micro);
    };
    request.text_rows = [most_rows](std::int64_t micro) { return rounded_rows(most_rows(micro)); };
    request.update_text_rows = rounded_rows(most_rows(options.train_batch_size));
  }
  if (evaluation != nullptr) {
    request.evaluation_text_rows = [evaluation](std::int64_t micro) {
      const Sampler sampler(evaluation->examples(), {.seed = 0, .train_batch_size = micro, .shuffle = false});
      return rounded_rows(sampler.largest_text_rows(0, 1, micro));
    };
  }
  const LoaderOptions loader = loader_options(memory);
  request.loader_bytes = [model = bundle.definition(), train, evaluation, loader](const ModelCapacity& capacity) {
    const BatchShape shape = batch_shape(model, capacity);
    std::size_t most = 0;
    for (const Dataset* dataset : {train, evaluation}) {
      if (dataset == nullptr) continue;
      const Sampler sampler(dataset->examples(), {.seed = 0, .train_batch_size = capacity.samples});
      const BatchSequence sequence(sampler, capacity.samples, {.epoch = 0, .update = 0, .updates = 1});
      most = std::max(most, static_cast<std::size_t>(Loader::host_bytes(*dataset, sequence, shape, loader)));
    }
    return most;
  };
  return request;
}

KnownChoices known_choices(const std::optional<std::filesystem::path>& resume, const std::filesystem::path& cache) {
  if (!resume) return {.recorded = {}, .recorded_in = {}, .cache = cache};
  return {.recorded = read_trainer_state(*resume).choices, .recorded_in = resume->string(), .cache = cache};
}

nlohmann::json plan_json(const PlanSummary& plan, std::span<const PlannedProgram> planned) {
  const auto listed = [](const std::vector<MemoryItem>& items) {
    nlohmann::json list = nlohmann::json::array();
    for (const MemoryItem& item : items) list.push_back({{"name", item.name}, {"bytes", item.bytes}});
    return list;
  };
  nlohmann::json programs = nlohmann::json::array();
  for (const PlannedProgram& program : planned) {
    programs.push_back({{"kind", program_kind_name(program.kind)},
                        {"samples", program.capacity.samples},
                        {"text_rows", program.capacity.text_rows},
                        {"transient_bytes", program.plan.transient_bytes},
                        {"lower_bound_bytes", program.plan.lower_bound_bytes},
                        {"is_smallest", program.plan.is_smallest}});
  }
  return {{"predicted_peak_bytes", plan.predicted_peak_bytes},
          {"budget_bytes", plan.budget_bytes},
          {"host_peak_bytes", plan.host_peak_bytes},
          {"host_budget_bytes", plan.host_budget_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"train_batch_size", plan.train_batch_size},
          {"micro_batch_size", plan.levers.micro_batch_size},
          {"gradient_accumulation_steps", plan.accumulation_steps},
          {"optim", optimizer_name(plan.optimizer)},
          {"precision", precision_name(plan.precision)},
          {"parameters", plan.parameters},
          {"trained_parameters", plan.trained_parameters},
          {"update_mode", update_mode_name(plan.levers.update)},
          {"recomputed_bytes", recomputed_bytes(plan.levers)},
          {"offload",
           {{"directory", plan.offload_directory.string()},
            {"bytes", plan.offload.bytes()},
            {"optimizer_state_bytes", plan.offload.state_bytes()},
            {"activation_bytes", plan.offload.activation_bytes()}}},
          {"seconds_per_update", plan.seconds_per_update},
          {"seconds_to_save", plan.seconds_to_save},
          {"items", listed(plan.items)},
          {"host_items", listed(plan.host_items)},
          {"programs", programs}};
}

}  // namespace plimsoll
