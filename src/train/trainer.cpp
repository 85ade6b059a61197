#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/dropout.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process.h"
#include "bundle/model_place.h"
#include "train/batch_shape.h"
#include "train/resume_changes.h"
#include "train/run_directory.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Tells data sets apart by how their pages fall into windows.
std::string fingerprint(std::span<const Example> examples) {
  std::uint64_t hash = 0;
  for (const Example& e : examples) {
    const std::array<std::uint32_t, 4> values = {e.page, e.begin, e.tokens, e.loss_terms};
    hash = hash_bytes(std::as_bytes(std::span(values)), hash);
  }
  return fmt::format("{:016x}", hash);
}

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

// Of the base model's weights, which an adapter is no use without and does not hold; empty without adapters.
std::string base_fingerprint(const ModelBundle& bundle) {
  if (!bundle.options.lora.enabled() || bundle.weights == nullptr) return {};
  std::uint64_t hash = 0;
  for (const std::filesystem::path& file : bundle.weights->files()) {
    const std::uint64_t sum = sum_of_file(file).hash;
    hash = hash_bytes(std::as_bytes(std::span(&sum, 1)), hash);
  }
  return hex(hash);
}

// A NaN's sign means nothing, and "-nan" would be printed.
double without_sign(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

// A number of a JSON line: null where it is not finite.
class JsonNumber {
 public:
  explicit JsonNumber(double value) : null_(!std::isfinite(value)), text_() {
    *fmt::format_to_n(text_.data(), text_.size() - 1, "{:.9g}", value).out = '\0';
  }
  const char* c_str() const { return null_ ? "null" : text_.data(); }

 private:
  bool null_;
  std::array<char, 32> text_;
};

// The options that change results, as text; empty where all parameters train.
std::string numeric_text(const ModelOptions& options) {
  std::string text;
  for (const std::string& pattern : options.freeze) text += fmt::format(", frozen {}", pattern);
  const LoraOptions& lora = options.lora;
  if (!lora.enabled()) return text;
  return text + fmt::format(", adapters of rank {}, alpha {}, dropout {}, on {}", lora.rank, lora.alpha, lora.dropout,
                            counted(lora.modules.size(), "map"));
}

}  // namespace

std::int64_t total_steps(const TrainOptions& options, std::int64_t updates_per_epoch) {
  if (options.max_steps > 0) return options.max_steps;
  return static_cast<std::int64_t>(std::ceil(options.num_train_epochs * static_cast<double>(updates_per_epoch)));
}

Trainer::Trainer(const Session& session, const ModelBundle& bundle, const TrainData& data, const TrainOptions& options,
                 const LoaderOptions& loader, int threads, TrainObserver& observer)
    : session_(session),
      bundle_(bundle),
      data_(data),
      options_(options),
      loader_options_(loader),
      observer_(observer),
      sampler_(data.train->examples(), {.seed = options.seed, .train_batch_size = options.train_batch_size}),
      bindings_(static_cast<std::size_t>(ProgramKind::kGradients) + 1),
      checked_(bindings_.size()) {
  state_ = {.step = 0,
            .total_steps = total_steps(options, sampler_.updates_per_epoch()),
            .seed = options.seed,
            .train_batch_size = options.train_batch_size,
            .micro_batch_size = session.plan().levers.micro_batch_size,
            .examples = static_cast<std::int64_t>(sampler_.size()),
            .max_length = data.train->options().windows.max_length,
            .device = session.plan().on_device ? "cuda" : "cpu",
            .threads = threads,
            .optimizer = std::string(optimizer_name(options.optim)),
            .data = fingerprint(data.train->examples()),
            .tokens = hex(data.train->fingerprint().tokens),
            .labels = hex(data.train->fingerprint().labels),
            .images = hex(data.train->fingerprint().images),
            .base = base_fingerprint(bundle),
            .options =
                fmt::format("learning rate {} ({}, warm-up {}), weight decay {}, gradient norm at most {}, {}",
                            options.learning_rate, scheduler_type_name(options.lr_scheduler_type), options.warmup_ratio,
                            options.weight_decay, options.max_grad_norm, precision_name(options.precision)) +
                (options.warmup_steps > 0 ? ", warm-up of " + counted(options.warmup_steps, "update") : "") +
                numeric_text(bundle.options) + (data.train->options().augment ? ", augmented" : ""),
            .scaler = {},
            .best_metric = std::nullopt,
            .best_step = 0,
            .evaluation_due = false,
            .skipped_pages = {},
            .choices = session.choices()};
  for (const std::uint32_t page : data.train->options().skipped) sampler_.leave_out(page);
  for (const auto& [name, entry] : session.plan().layout.entries()) {
    if (entry.role == Role::kState && is_optimizer_state(name)) state_names_.push_back(name);
  }
  for (const auto& [name, state] : session.plan().offload.states()) state_names_.push_back(name);
  std::sort(state_names_.begin(), state_names_.end());  // a checkpoint does not depend on what is offloaded
}

StateAccess Trainer::states() const {
  return {.type = [this](const std::string& name) { return session_.state_type(name); },
          .read = [this](const std::string& name, const auto& visit) { session_.read_state(name, visit); },
          .fill = [this](const std::string& name, const auto& visit) { session_.fill_state(name, visit); }};
}

void Trainer::begin_afresh() {
  if (options_.precision == DType::kF16) scaler_ = GradScaler({.scale = options_.fp16_initial_scale});
  original_ = bundle_.source(options_.seed);
  load_model(bundle_, options_.seed, [this](const std::string& name) { return session_.parameter(name); });
  for (const std::string& name : state_names_) {
    session_.fill_state(name, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); });
  }
}

void Trainer::begin_from(const std::filesystem::path& resume) {
  const ParameterMemory memory = [this](const std::string& name) { return session_.parameter(name); };
  const TrainerState saved = read_trainer_state(resume);
  if (saved.optimizer != state_.optimizer) {
    throw UsageError(
        {.what = "the checkpoint holds the state of another optimizer",
         .where = fmt::format("--optim, {}", resume.string()),
         .found = fmt::format("{} requested, {} in the checkpoint", state_.optimizer, saved.optimizer),
         .allowed = fmt::format("--optim {}", saved.optimizer),
         .remedy = fmt::format("pass that, or start a new run from its weights with --model {}", resume.string())});
  }
  try {
    load_checkpoint(resume, bundle_, memory, state_names_, states());
    if (!bundle_.options.lora.enabled()) resumed_ = std::make_shared<WeightsFile>(open_weights(resume));
    original_ = {.weights = resumed_.get(), .seed = options_.seed};
  } catch (const DataError& error) {
    Problem problem = error.problem();
    std::vector<std::int64_t> steps = list_checkpoints(options_.output_dir);
    std::erase_if(steps, [&](std::int64_t step) { return checkpoint_path({}, step).filename() == resume.filename(); });
    if (!steps.empty()) {
      problem.remedy += fmt::format("{}or resume from {}", problem.remedy.empty() ? "" : "; ",
                                    checkpoint_path(options_.output_dir, steps.back()).string());
    }
    throw DataError(std::move(problem));
  }
  if (const std::string changes = resume_changes(saved, state_); !changes.empty()) {
    log_warning(fmt::format("this run differs from the one that wrote {}, so it will not continue bit for bit: {}",
                            resume.string(), changes));
  }
  if (saved.step >= state_.total_steps && !saved.evaluation_due) {
    log_info(fmt::format("nothing is left to train: {} is at update {} of {}", resume.string(), saved.step,
                         state_.total_steps));
  }
  state_.step = saved.step;
  // Updates that were skipped stay so for the schedule, whatever the precision is now.
  if (options_.precision == DType::kF16) scaler_ = GradScaler(saved.scaler);
  state_.scaler = saved.scaler;
  state_.interval_loss = saved.interval_loss;
  state_.interval_steps = saved.interval_steps;
  state_.best_metric = saved.best_metric;
  state_.best_step = saved.best_step;
  state_.evaluation_due = saved.evaluation_due && data_.evaluation != nullptr;
  state_.skipped_pages = saved.skipped_pages;
  for (const std::uint32_t page : indices_of(state_.skipped_pages, false)) sampler_.leave_out(page);
  saved_step_ = saved.step;
}

void Trainer::open_logs(bool resumed) {
  const std::int64_t keep = resumed ? state_.step : -1;
  metrics_ = std::make_unique<JsonLinesLog>(options_.output_dir / "metrics.jsonl", keep);
  if (!options_.log_order) return;
  order_ = std::make_unique<JsonLinesLog>(options_.output_dir / "order.jsonl", keep);
  order_line_.reserve(64 + 32 * static_cast<std::size_t>(options_.train_batch_size));
}

void Trainer::restart_loader() {
  loader_.reset();
  loader_is_stale_ = false;
  copied_ = nullptr;
  const std::int64_t per_epoch = sampler_.updates_per_epoch();
  sequence_ =
      std::make_unique<BatchSequence>(sampler_, state_.micro_batch_size,
                                      BatchSequence::Range{.epoch = static_cast<std::uint64_t>(state_.step / per_epoch),
                                                           .update = state_.step % per_epoch,
                                                           .updates = state_.total_steps - state_.step});
  const ModelCapacity& capacity = session_.plan().programs.front().capacity;
  loader_ = std::make_unique<Loader>(*data_.train, *sequence_, batch_shape(bundle_.definition(), capacity),
                                     options_.pad_to, loader_options_);
}

StepScalars Trainer::scalars(const Batch& batch) const {
  return {.step = state_.step + 1,
          .optimizer_step = real_updates() + 1,
          .seed = options_.seed,
          .dropout_key = dropout_key(options_.seed, static_cast<std::uint64_t>(state_.step)),
          .learning_rate = scheduled_learning_rate(options_, real_updates(), state_.total_steps),
          .max_grad_norm = options_.max_grad_norm,
          .scale = scaler_.scale(),
          .labelled = batch.info().loss_terms_in_update};
}

const Program& Trainer::bind(const Batch& batch) {
  const MicroBatchInfo& info = batch.info();
  const ProgramKind kind = step_program(session_, info.micro_batch + 1 == info.micro_batches);
  const Program& program = session_.program(kind);
  std::optional<BatchBinding>& binding = bindings_[static_cast<std::size_t>(kind)];
  if (!binding) binding.emplace(program, batch);
  if (std::exchange(copied_, nullptr) != &batch) binding->copy(batch);
  bind_scalars(*binding, scalars(batch), info.micro_batch == 0);
  return program;
}

void Trainer::copy_ahead(ProgramKind kind) {
  const Program& program = session_.program(kind);
  if (!program.tensor(session_.planned(kind).loss).host_bytes().empty()) return;  // the host itself has computed
  const Batch* const next = loader_->peek();
  if (next == nullptr) return;
  const MicroBatchInfo& info = next->info();
  if (step_program(session_, info.micro_batch + 1 == info.micro_batches) != kind) return;  // its inputs lie elsewhere
  bindings_[static_cast<std::size_t>(kind)]->copy(*next);
  copied_ = next;
}

Trainer::UpdateEnd Trainer::run_update(const Interrupt& interrupt, double& loss) {
  loss = 0;
  faulty_ = false;
  fault_.reset();
  pages_before_ = pages_;
  wait_seconds_before_ = wait_seconds_;
  for (;;) {
    const auto wait_time = Clock::now();
    const Batch* batch = loader_->next(&interrupt);
    wait_seconds_ += seconds_since(wait_time);
    if (batch == nullptr) {
      check(interrupt.pending(), "the loader has a batch for every update");
      return UpdateEnd::kDropped;
    }
    if (batch->samples() == 0) return UpdateEnd::kWithoutPages;
    const MicroBatchInfo& info = batch->info();
    const bool last = info.micro_batch + 1 == info.micro_batches;
    const ProgramKind kind = step_program(session_, last);
    try {
      const Program& program = bind(*batch);
      if (!run_program(program, kind, interrupt)) return UpdateEnd::kDropped;
      if (faulty_) return UpdateEnd::kWhole;
      copy_ahead(kind);
      const PlannedProgram& planned = session_.planned(kind);
      loss = without_sign(loss + double{program.tensor(planned.loss).get<float>()} / scaler_.scale());
      if (last) gradient_norm_ = without_sign(program.tensor(planned.gradient_norm).get<float>());
    } catch (const EnvironmentError& error) {
      throw_unfinished(error);
    }
    if (!scaler_.on() && !(std::isfinite(loss) && (!last || std::isfinite(gradient_norm_)))) {
      faulty_ = true;
      if (!last) gradient_norm_ = std::numeric_limits<double>::quiet_NaN();  // which nobody knows
      return UpdateEnd::kWhole;
    }
    if (last) update_scale(*batch);
    pages_ += batch->samples();
    if (order_) log_order(*batch, info.micro_batch == 0, last);
    if (last) return UpdateEnd::kWhole;
    if (interrupt.pending()) return UpdateEnd::kDropped;
  }
}

bool Trainer::run_program(const Program& program, ProgramKind kind, const Interrupt& interrupt) {
  if (!options_.detect_anomaly) return program.run(interrupt);
  std::optional<CheckedRun>& checked = checked_[static_cast<std::size_t>(kind)];
  if (!checked) checked.emplace(program);
  fault_ = checked->run(scaler_.on());
  faulty_ = fault_.has_value();
  return true;
}

// The device that computes a step may fail within it, as may the disk that it reads and writes: states then belong to
// two updates, and only what was saved before can be continued.
void Trainer::throw_unfinished(const EnvironmentError& error) const {
  Problem problem = error.problem();
  problem.what = fmt::format("cannot finish update {}: {}", state_.step + 1, problem.what);
  problem.remedy += continue_remedy();
  if (dynamic_cast<const DeviceError*>(&error) != nullptr && !options_.detect_anomaly) {
    problem.remedy += "; --detect-anomaly runs ops one by one and names the one that fails";
  }
  throw EnvironmentError(std::move(problem));
}

std::optional<double> Trainer::device_busy() const {
  double seconds = 0;
  for (const PlannedProgram& program : session_.plan().programs) {
    if (program.kind != ProgramKind::kEvaluate) seconds += session_.program(program.kind).device_seconds();
  }
  return seconds > 0 && step_seconds_ > 0 ? std::optional(seconds / step_seconds_) : std::nullopt;
}

std::string Trainer::continue_remedy() const {
  const std::vector<std::int64_t> good = list_checkpoints(options_.output_dir);
  return good.empty()
             ? "; there is no earlier checkpoint: the run starts from the beginning"
             : fmt::format("; then continue with --resume-from-checkpoint latest, from update {}", good.back());
}

std::string Trainer::pages_of(const Batch& batch) const {
  std::string pages;
  for (const SampleReference& reference : batch.references().first(static_cast<std::size_t>(batch.samples()))) {
    pages += fmt::format("{}{}", pages.empty() ? "" : ", ", data_.train->source().read(reference.page).id);
  }
  return pages;
}

void Trainer::update_scale(const Batch& batch) {
  const bool finite = std::isfinite(gradient_norm_);
  skipped_ = !scaler_.update(finite);
  skipped_in_a_row_ = 0;
  if (!scaler_.on()) return;
  state_.scaler = scaler_.state();
  if (!scaler_.collapsed()) return;
  ++state_.step;  // nothing of it has reached the parameters, but its pages have been seen
  save(false);
  throw ScaleCollapsedError(
      {.what = "half precision overflows whatever the loss is scaled by",
       .where = fmt::format("update {}, pages {}", state_.step, pages_of(batch)),
       .found = fmt::format("{} skipped, the last ones in a row; the loss scale has fallen to {:.3g}",
                            counted(state_.scaler.skipped, "update"), state_.scaler.scale),
       .allowed = fmt::format("a scale of {:.3g} or more", GradScaler::kSmallestScale),
       .remedy = fmt::format("activations do not fit half precision: continue with --bf16 --resume-from-checkpoint {}, "
                             "or pass --fp16-fallback bf16",
                             checkpoint_path(options_.output_dir, state_.step).string())});
}

void Trainer::log_order(const Batch& batch, bool first, bool last) {
  if (first) {
    order_line_.clear();
    fmt::format_to(std::back_inserter(order_line_), "{{\"step\": {}, \"update\": {}, \"examples\": [", state_.step + 1,
                   state_.step);
  }
  bool comma = !first;
  for (const SampleReference& reference : batch.references().first(static_cast<std::size_t>(batch.samples()))) {
    fmt::format_to(std::back_inserter(order_line_), "{}[{}, {}]", comma ? ", " : "", reference.page, reference.window);
    comma = true;
  }
  if (!last) return;
  order_line_ += "]}";
  order_->write(order_line_);
}

StepReport Trainer::report(double loss) const {
  const double rate = step_seconds_ > 0 ? static_cast<double>(pages_) / step_seconds_ : 0;
  const double pages_left = static_cast<double>(state_.total_steps - state_.step) *
                            static_cast<double>(sampler_.size()) / static_cast<double>(sampler_.updates_per_epoch());
  return {
      .step = state_.step,
      .total_steps = state_.total_steps,
      .epoch = static_cast<double>(state_.step) / static_cast<double>(sampler_.updates_per_epoch()),
      .loss = loss,
      .mean_loss = state_.interval_steps > 0 ? state_.interval_loss / static_cast<double>(state_.interval_steps) : loss,
      .learning_rate =
          scheduled_learning_rate(options_, std::max<std::int64_t>(0, real_updates() - 1), state_.total_steps),
      .gradient_norm = gradient_norm_,
      .pages_per_second = rate,
      .data_wait = data_wait(),
      .seconds_left = rate > 0 ? pages_left / rate : 0,
      .resident_bytes = resident_bytes(),
      .budget_bytes = session_.plan().resident_budget_bytes(),
      .on_device = session_.plan().on_device,
      .loss_scale = scaler_.scale(),
      .skipped_updates = state_.scaler.skipped};
}

void Trainer::after_update(double loss) {
  if (!skipped_) {
    state_.interval_loss += loss;
    ++state_.interval_steps;
  }
  const StepReport now = report(loss);
  observer_.on_step(now);
  const bool end = state_.step == state_.total_steps;
  const bool logs = updates_now(options_.logging_steps) || end;
  ProcessMemory memory;
  if (logs || step_seconds_ - growth_seconds_ >= 1) memory = process_memory(groups_);
  if (step_seconds_ - growth_seconds_ >= 1) {
    growth_seconds_ = step_seconds_;
    if (const auto growth = growth_.add(state_.step, step_seconds_, memory)) log_warning(describe(*growth));
  }
  if (logs) {
    std::array<char, 512> line;
    const auto out = fmt::format_to_n(
        line.data(), line.size(),
        "{{\"step\": {}, \"epoch\": {:.6g}, \"loss\": {}, \"learning_rate\": {:.9g}, \"grad_norm\": {}, "
        "\"pages_per_second\": {:.5g}, \"data_wait\": {:.4f}, \"resident_bytes\": {}, \"anonymous_bytes\": {}, "
        "\"file_bytes\": {}, "
        "\"machine_free_bytes\": {}",
        now.step, now.epoch, JsonNumber(now.mean_loss).c_str(), now.learning_rate,
        JsonNumber(now.gradient_norm).c_str(), now.pages_per_second, now.data_wait, now.resident_bytes,
        memory.anonymous, memory.file_backed, memory.machine_free);
    const auto rest = line.size() - out.size;
    const auto end_of_line =
        scaler_.on() ? fmt::format_to_n(out.out, rest, ", \"loss_scale\": {:.6g}, \"skipped_updates\": {}}}",
                                        now.loss_scale, now.skipped_updates)
        : options_.skip_nonfinite || now.skipped_updates > 0
            ? fmt::format_to_n(out.out, rest, ", \"skipped_updates\": {}}}", now.skipped_updates)
            : fmt::format_to_n(out.out, rest, "}}");
    metrics_->write({line.data(), out.size + end_of_line.size});
    state_.interval_loss = 0;
    state_.interval_steps = 0;
  }
  const bool epoch_end = state_.step % sampler_.updates_per_epoch() == 0;
  const bool evaluates = options_.eval_steps > 0 ? updates_now(options_.eval_steps) : epoch_end;
  state_.evaluation_due = data_.evaluation != nullptr && (evaluates || end);
  if (!state_.evaluation_due && updates_now(options_.save_steps)) save(false);
}

void Trainer::evaluate_now(TrainSummary& summary, const Interrupt& interrupt) {
  // The loader's buffers are given back: the plan holds one loader at a time.
  loader_.reset();
  Evaluation evaluation;
  try {
    evaluation = evaluate(session_, bundle_, *data_.evaluation, loader_options_, evaluation_control(interrupt));
  } catch (const DivergedError& error) {
    save(false);  // the update before it was sound, as far as its loss and gradients show
    Problem problem = error.problem();
    problem.what = fmt::format("evaluation after update {}: {}", state_.step, problem.what);
    problem.remedy +=
        fmt::format("; the run is saved in {}", checkpoint_path(options_.output_dir, state_.step).string());
    throw DivergedError(std::move(problem));
  }
  if (evaluation.interrupted) return;
  summary.evaluation = evaluation;
  state_.evaluation_due = false;
  saved_step_ = -1;  // what was saved before does not know of this evaluation
  bad_pages_in_a_row_ = 0;
  const StepReport now = report(summary.last_loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  nlohmann::json line = {{"step", now.step}, {"epoch", now.epoch}};
  const nlohmann::json scores = to_json(*summary.evaluation);
  for (const auto& [key, value] : scores.items()) line["eval_" + key] = value;
  metrics_->write(line.dump());
  observer_.on_evaluation(now, *summary.evaluation);
  const Scores::Metric metric = summary.evaluation->metric(metric_name(bundle_, options_.metric_for_best_model));
  if (!state_.best_metric ||
      (metric.smaller_is_better ? metric.value < *state_.best_metric : metric.value > *state_.best_metric)) {
    state_.best_metric = metric.value;
    state_.best_step = state_.step;
    if (options_.load_best_model_at_end) save(false);
  }
  if (updates_now(options_.save_steps)) save(false);
}

void Trainer::throw_unwritten(const std::string& what, const EnvironmentError& error) const {
  Problem problem = error.problem();
  problem.what = fmt::format("{}: {}", what, problem.what);
  problem.remedy += continue_remedy();
  throw EnvironmentError(std::move(problem));
}

WrittenBytes Trainer::written_bytes() const {
  // Configuration, tokenizer, where the run stands: a few MiB at most.
  constexpr std::uint64_t kSmallFiles = 4 * kMiB;
  WrittenBytes written{.checkpoint = 0, .model = kSmallFiles};
  for (const ParameterSpec& spec : bundle_.specs()) {
    if (bundle_.options.lora.enabled() && !spec.trains) continue;  // an adapter leaves them out
    written.model += static_cast<std::uint64_t>(spec.shape.elements()) * dtype_bytes(DType::kF32);
  }
  std::uint64_t state_bytes = 0;
  for (const std::string& name : state_names_) state_bytes += states().type(name).bytes();
  written.checkpoint = written.model + state_bytes;
  // Weights are one file, the optimizer's state another; a run that is interrupted writes both.
  written.largest_file = std::max(written.model - kSmallFiles, state_bytes) + 64 * kKiB;  // its header
  return written;
}

void Trainer::save(bool force) {
  // Also where a run was ended between a save and this.
  const auto rotate = [this] {
    rotate_checkpoints(options_.output_dir, options_.save_total_limit,
                       options_.load_best_model_at_end ? state_.best_step : -1);
  };
  if (saved_step_ == state_.step && !force) return rotate();
  const ParameterMemory memory = [this](const std::string& name) { return session_.parameter(name); };
  std::filesystem::path path;
  try {
    path = save_checkpoint(options_.output_dir, state_, bundle_, original_, memory, state_names_, states());
  } catch (const EnvironmentError& error) {
    throw_unwritten(fmt::format("cannot write the checkpoint of update {}", state_.step), error);
  }
  saved_step_ = state_.step;
  rotate();
  observer_.on_checkpoint(path);
}

TrainSummary Trainer::run(const std::optional<std::filesystem::path>& resume, Interrupt& interrupt) {
  TrainSummary summary;
  recover_run_directory(options_.output_dir);
  if (resume) {
    begin_from(*resume);
  } else {
    begin_afresh();
    if (const auto aside = set_run_aside(options_.output_dir)) log_warning(set_aside_text(options_.output_dir, *aside));
  }
  check_disk(options_, state_.step, state_.total_steps,
             static_cast<std::int64_t>(list_checkpoints(options_.output_dir).size()), written_bytes());
  open_logs(resume.has_value());
  growth_ = GrowthWatch({.budget_bytes = session_.plan().resident_budget_bytes(), .total_steps = state_.total_steps});
  const std::int64_t first = state_.step;
  const auto begin_time = Clock::now();
  while (state_.step < state_.total_steps || state_.evaluation_due) {
    interrupt.set_saved(saved_step_ == state_.step);
    if (interrupt.pending()) {
      obey(interrupt);
      continue;
    }
    if (state_.evaluation_due) {
      evaluate_now(summary, interrupt);
      continue;
    }
    if (loader_ == nullptr || loader_is_stale_) restart_loader();
    const auto step_time = Clock::now();
    double loss = 0;
    UpdateEnd end = UpdateEnd::kWhole;
    try {
      end = run_update(interrupt, loss);
    } catch (const BadPageError& error) {
      end = UpdateEnd::kDropped;
      skip_page(error, false);
    }
    if (end == UpdateEnd::kDropped) {
      drop_update();
      continue;
    }
    if (end == UpdateEnd::kWithoutPages) {
      loss = std::numeric_limits<double>::quiet_NaN();  // which nobody computed
      pass_over_update();
    }
    if (end == UpdateEnd::kWhole) bad_pages_in_a_row_ = 0;
    if (faulty_) after_fault(loss);
    ++state_.step;
    loader_is_stale_ |= faulty_;
    step_seconds_ += seconds_since(step_time);
    if (!skipped_) summary.last_loss = loss;
    after_update(loss);
  }
  loader_.reset();
  if (options_.save_steps > 0) save(false);
  const ParameterMemory memory = [this](const std::string& name) { return session_.parameter(name); };
  const bool takes_best = options_.load_best_model_at_end && state_.best_metric && state_.best_step != state_.step;
  if (takes_best) load_checkpoint_parameters(checkpoint_path(options_.output_dir, state_.best_step), bundle_, memory);
  try {
    write_model(options_.output_dir,
                [&](const std::filesystem::path& aside) { return save_model(aside, bundle_, original_, memory); });
  } catch (const EnvironmentError& error) {
    throw_unwritten("cannot write the model at the end of the run", error);
  }
  if (takes_best && data_.evaluation != nullptr) evaluate_best(summary, interrupt);
  summary.steps = state_.step;
  summary.steps_here = state_.step - first;
  summary.pages_here = pages_;
  summary.seconds = seconds_since(begin_time);
  summary.data_wait = data_wait();
  summary.device_busy = device_busy();
  summary.best_metric = state_.best_metric;
  summary.best_step = state_.best_step;
  summary.skipped_updates = state_.scaler.skipped;
  summary.skipped_pages = state_.skipped_pages;
  return summary;
}

}  // namespace plimsoll
