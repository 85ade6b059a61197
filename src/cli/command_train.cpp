#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/work_folder.h"
#include "bundle/adapter.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/first_lines.h"
#include "cli/idle_options.h"
#include "cli/outputs.h"
#include "cli/page_bar.h"
#include "cli/report.h"
#include "cli/resume.h"
#include "cli/run_events.h"
#include "cli/run_options.h"
#include "cli/run_record.h"
#include "cli/same_run.h"
#include "cli/signals.h"
#include "cli/speeds.h"
#include "cli/teacher_cache.h"
#include "cli/tensorboard_log.h"
#include "cli/train_run.h"
#include "cli/usage.h"
#include "cli/worst_pictures.h"
#include "fit/phases.h"
#include "formats/json.h"
#include "request/arena_json.h"
#include "request/check_data.h"
#include "request/fit_request.h"
#include "request/memory.h"
#include "request/open_data.h"
#include "request/plan_json.h"
#include "request/word_rows.h"
#include "train/initial_state.h"
#include "train/resume.h"
#include "train/run_directory.h"
#include "train/worst_pages.h"

namespace plimsoll {

namespace fs = std::filesystem;

fs::path run_of(const fs::path& checkpoint) {
  std::error_code error;
  return fs::canonical(checkpoint, error).parent_path();
}

namespace {

// Returns whether the run continues in the directory of its checkpoint, rather than beginning there.
bool goes_on_in(const fs::path& output_dir, const std::optional<fs::path>& resume) {
  std::error_code error;
  return resume && fs::equivalent(run_of(*resume), output_dir, error);
}

// Refuses an output directory that must not be written to, before anything is written.
void check_output_dir(const RunOptions& options) {
  const fs::path& output_dir = options.train.output_dir;
  refuse_replacing({{"--output-dir", output_dir}}, options.inputs());
  if (run_directory_state(output_dir) != RunDirectoryState::kForeign) return;
  throw UsageError({.what = "the directory holds files that were not written by Plimsoll",
                    .where = "--output-dir",
                    .found = output_dir.string(),
                    .allowed = "a new or empty directory, or one of an earlier run",
                    .remedy = "pass a new directory; nothing was written"});
}

// Reports all options that have changed. (The checkpoint itself records only those that its numbers depend on.)
void tell_changed_options(const Command& command, const fs::path& resume) {
  const fs::path path = run_of(resume) / "args.json";
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const std::string changes =
      changed_options(parse_json(read_text_file(path, 1 << 26), path.string()), {{"options", command.values()}});
  if (!changes.empty()) log_info(fmt::format("options differ from those of {}: {}", path.string(), changes));
}

// Refuses a run that begins where an earlier one is, if something would be lost or if the run reads from there.
void check_earlier_run(const RunOptions& options, const std::optional<fs::path>& resume) {
  const fs::path& output_dir = options.train.output_dir;
  const RunDirectoryState state = run_directory_state(output_dir);
  if (goes_on_in(output_dir, resume)) return;
  if (state == RunDirectoryState::kFinished && !options.overwrite_output_dir) {
    const bool resumable = !list_checkpoints(output_dir).empty();
    throw UsageError({.what = "the directory holds a finished run, and its model would be overwritten",
                      .where = "--output-dir",
                      .found = output_dir.string(),
                      .allowed = "a new directory, or --overwrite-output-dir",
                      .remedy = fmt::format(
                          "pass a new directory; or pass --overwrite-output-dir, which moves the finished run to {}{}",
                          (output_dir / "earlier-N").string(),
                          resumable ? "; or --resume-from-checkpoint latest to continue it" : "")});
  }
  // The run must not read files that would be moved away.
  for (const NamedPath& input : options.inputs()) {
    std::error_code error;
    const fs::path path = fs::weakly_canonical(input.path, error);
    for (const fs::path& entry : run_entries(output_dir)) {
      const fs::path moved = fs::weakly_canonical(entry, error);
      if (input.path.empty() ||
          std::mismatch(moved.begin(), moved.end(), path.begin(), path.end()).first != moved.end()) {
        continue;
      }
      throw UsageError({.what = "the earlier run in the directory would be moved away while it is read",
                        .where = "--output-dir",
                        .found = fmt::format("{}, and {} {}", output_dir.string(), input.option, input.path.string()),
                        .allowed = "a directory other than the earlier run's",
                        .remedy = "pass a new directory"});
    }
  }
}

nlohmann::json summary_json(const PlanSummary& plan, const TrainSummary& summary, std::size_t measured) {
  nlohmann::json object = {
      {"predicted_peak_bytes", plan.predicted_peak_bytes},
      {"measured_peak_bytes", measured},
      {"budget_bytes", plan.budget_bytes},
      {"micro_batch_size", plan.levers.micro_batch_size},
      {"gradient_accumulation_steps", plan.accumulation_steps},
      {"optim", optimizer_name(plan.optimizer)},
      {"parameters", plan.parameters},
      {"trained_parameters", plan.trained_parameters},
      {"offloaded_bytes", plan.offload.bytes()},
      {"offloaded_optimizer_state_bytes", plan.offload.state_bytes()},
      {"offloaded_parameter_bytes", plan.offload.parameter_bytes()},
      {"offloaded_in_place_bytes", plan.offload.in_place_bytes()},
      {"offloaded_activation_bytes", plan.offload.activation_bytes()},
      {"steps", summary.steps},
      {"steps_here", summary.steps_here},  // without those before a resumption, to which `seconds` do not belong
      {"seconds", summary.seconds},
      {"pages_per_second", summary.seconds > 0 ? static_cast<double>(summary.pages_here) / summary.seconds : 0},
      {"data_wait", summary.data_wait},
      {"precision", precision_name(plan.precision)},
      {"loss", summary.last_loss ? nlohmann::json(*summary.last_loss) : nlohmann::json()}};
  if (plan.precision == DType::kF16 || summary.skipped_updates > 0) object["skipped_updates"] = summary.skipped_updates;
  if (!summary.skipped_pages.empty()) object["skipped_pages"] = skipped_pages_json(summary.skipped_pages);
  if (plan.on_device) object["host_measured_peak_bytes"] = peak_resident_bytes();
  if (summary.device_busy) object["device_busy"] = *summary.device_busy;
  if (summary.evaluation) {
    const Scores::Metric& metric = summary.evaluation->scores.metrics.front();
    object[metric.name] = metric.value;
    object["evaluation"] = to_json(*summary.evaluation);
  }
  if (summary.best_metric) {
    object["best_metric"] = *summary.best_metric;
    object["best_step"] = summary.best_step;
    if (summary.stopped_early) object["stopped_early"] = true;
  }
  return object;
}

// Returns whether the checkpoint is at the run's end, and the output directory has a model at least as recent: then it
// writes nothing, and reports what exists.
bool left_nothing(RunEvents& events, const TrainOptions& options, const Dataset& train, const fs::path& resume,
                  const TrainerState& saved) {
  TrainerState state = saved;
  state.total_steps = updates_of(options, train);
  const fs::path summary = options.output_dir / "summary.json";
  const bool has_model = fs::exists(options.output_dir / "model.safetensors") || is_adapter(options.output_dir);
  if (!is_done(options, state) || !has_model || !fs::exists(summary)) return false;
  const nlohmann::json written = parse_json(read_text_file(summary), summary.string());
  if (!written.is_object() || written.value("steps", std::int64_t{-1}) < saved.step) return false;
  log_info(fmt::format("nothing is left to train: {} is at update {} of {}; {} is unchanged", resume.string(),
                       saved.step, state.total_steps, options.output_dir.string()));
  events.open(saved.step);
  events.write("end", written);
  return true;
}

// Writes the findings of the checks, for `plimsoll report`.
void write_findings(const Findings& findings, const fs::path& path) {
  write_text_file(path, fmt::format("{{\"version\": 1, \"warnings\": {}, \"findings\": {}}}\n",
                                    findings.count(Severity::kWarning), findings.to_json()));
}

// Returns what each rank has planned, measured and exchanged. All ranks call it.
nlohmann::json ranks_json(Communicator& ranks, const PlanSummary& plan, std::size_t measured) {
  struct Facts {
    std::size_t predicted, measured, budget;
    Communicator::Traffic traffic;
  };
  nlohmann::json list = nlohmann::json::array();
  for (const Facts& facts : all_gather(ranks, Facts{.predicted = plan.predicted_peak_bytes,
                                              .measured = measured,
                                              .budget = plan.budget_bytes,
                                              .traffic = ranks.traffic()})) {
    list.push_back({{"rank", list.size()},
                    {"host", ranks.host(static_cast<int>(list.size()))},
                    {"predicted_peak_bytes", facts.predicted},
                    {"measured_peak_bytes", facts.measured},
                    {"budget_bytes", facts.budget},
                    {"sent_bytes", facts.traffic.sent_bytes},
                    {"received_bytes", facts.traffic.received_bytes},
                    {"sent_messages", facts.traffic.sent_messages},
                    {"sent_row_bytes", facts.traffic.sent_row_bytes},
                    {"exchange_wait_seconds", facts.traffic.wait_seconds}});
  }
  return list;
}

std::string ranks_table(const nlohmann::json& ranks, double seconds) {
  std::string text = fmt::format("{:<24}{:>12}{:>12}{:>12}{:>12}", "rank", "predicted", "measured", "sent", "waited");
  for (const nlohmann::json& rank : ranks) {
    text += fmt::format("\n{:<24}{:>12}{:>12}{:>12}{:>11.1f} %",
                        fmt::format("{} on {}", rank["rank"].get<int>(), rank["host"].get<std::string>()),
                        format_bytes(rank["predicted_peak_bytes"].get<std::size_t>()),
                        format_bytes(rank["measured_peak_bytes"].get<std::size_t>()),
                        format_bytes(rank["sent_bytes"].get<std::size_t>() + rank["sent_row_bytes"].get<std::size_t>()),
                        seconds > 0 ? 100 * rank["exchange_wait_seconds"].get<double>() / seconds : 0);
  }
  return text;
}

// Returns the time of an update and of its messages, planned and measured.
std::string update_time_line(const PlanSummary& plan, const nlohmann::json& ranks, const TrainSummary& summary) {
  const auto updates = static_cast<double>(std::max<std::int64_t>(1, summary.steps_here));
  double waited = 0;
  for (const nlohmann::json& rank : ranks) waited = std::max(waited, rank["exchange_wait_seconds"].get<double>());
  return fmt::format("an update took {:.3g} s, {:.2g} s of it waiting for messages; planned {:.3g} s and {:.2g} s",
                     summary.seconds / updates, waited / updates, plan.seconds_per_update, plan.exchange_wait_seconds);
}

// Writes the files and first events that describe a run, once it has begun: before that, a checkpoint may still be
// refused.
class RunFiles final : public TrainObserver {
 public:
  explicit RunFiles(std::function<void()> write) : write_(std::move(write)) {}
  void on_begin() override { write_(); }

 private:
  std::function<void()> write_;
};

// Plans a run, and the teacher's work before it, and keeps what the process held.
void plan_ahead(const Invocation& invocation, RunOptions& options, const ModelBundle& bundle, const RunData& data,
                const TeacherCache& teacher, Backend& backend) {
  FitRequest request = fit_request(bundle, options.train, data.train.get(), data.evaluation.get(), options.memory);
  // The phase before may leave behind more than comes out of its reserve.
  request.process_bytes = [] { return resident_bytes() + kVariationBytes; };
  check_phases(
      {[&] { options.memory.held_bytes = held_bytes(plan_of(invocation, request, backend, options.memory.kept_cut)); },
       [&] {
         if (invocation.is_first()) teacher.check(backend);
       }});
}

// A pair that is alone in an update has no other pair to differ from: its loss and gradients are 0.
void warn_of_lone_pair(const ModelBundle& bundle, const Dataset& train, const TrainOptions& options) {
  if (!bundle.definition().compares_examples()) return;
  const Sampler sampler(train.examples(), sampler_options(options));
  if (sampler.samples_in_update(sampler.updates_per_epoch() - 1) != 1) return;
  log_warning(
      fmt::format("the last update of each epoch has one pair, which is compared with no other and teaches nothing ({} "
                  "in updates of {}): --dataloader-drop-last leaves it out",
                  counted(train.size(), "pair"), options.train_batch_size));
}

// Plans and runs, from the beginning or from a checkpoint.
void train_planned(const Invocation& invocation, RunOptions& options, const ModelBundle& bundle, const RunData& data,
                   const Device& device, const std::optional<fs::path>& resume, RunEvents& events) {
  const fs::path output_dir = options.train.output_dir;
  const Dataset* const train = data.train.get();
  const Dataset* const evaluation = data.evaluation.get();
  Backend& backend = *device.backend;
  const TeacherCache teacher(options, bundle, *train, backend);
  if (teacher.exists()) {
    plan_ahead(invocation, options, bundle, data, teacher, backend);
    if (invocation.is_first() && !invocation.json) print_line(teacher.line());
    teacher.compute(invocation, device);
  }
  FitRequest request = fit_request(bundle, options.train, train, evaluation, options.memory);
  Session session(plan_of(invocation, request, backend, options.memory.kept_cut), backend,
                  known_choices(resume, cache_directory()), invocation.ranks.get());
  const RunPlan& plan = session.plan();
  if (!invocation.is_first()) {
    TrainObserver nobody;
    const TrainSummary summary = Trainer(session, bundle, {.train = train, .evaluation = evaluation}, options.train,
                                         loader_options(options.memory), device.threads, nobody)
                                     .run(resume, interrupt_on_signals());
    if (summary.evaluation) {
      write_worst_pages(session, bundle, *evaluation, loader_options(options.memory), options.data.box_format,
                        summary.evaluation->worst, output_dir / "worst.json");
    }
    ranks_json(*invocation.ranks, plan, measured_peak_bytes(backend));
    return;
  }
  make_room_for_run(output_dir, resume);
  warn_of_lone_pair(bundle, *train, options.train);
  const std::int64_t resumed_at = resume ? read_trainer_state(*resume).step : -1;
  nlohmann::json written_plan = plan_json(plan, plan.programs);
  written_plan["choices"] = choices_json(session.choices());
  written_plan["random_weights"] = bundle.weights == nullptr && !resume;
  const std::int64_t updates = updates_of(options.train, *train);
  written_plan["updates"] = updates;
  written_plan["seconds"] = plan.seconds_per_update * static_cast<double>(updates);
  RunFiles files([&] {
    events.open(resumed_at);
    write_text_file(
        output_dir / "args.json",
        json_text(run_record(*options.command, bundle, *train, evaluation, plan.on_device ? "cuda" : "cpu"), 2) + "\n");
    write_text_file(output_dir / "plan.json", json_text(written_plan, 2) + "\n");
    write_arena_file(session, request.speeds, output_dir / "arena.json");
    write_findings(data.findings, output_dir / "findings.json");
    if (teacher.exists()) written_plan["teacher_cache"] = teacher.json();
    written_plan["output_dir"] = output_dir.string();
    written_plan.erase("choices");
    events.write("plan", written_plan);
    events.write_findings(data.findings);
  });
  if (!invocation.json) {
    if (!device.summary.empty()) print_line(device.summary);
    print_line(run_line(bundle, *train, options.train));
    // A resumed run has the checkpoint's weights.
    for (const std::string& line : {resume ? std::string() : weights_line(bundle), defaults_line(options, bundle)}) {
      if (!line.empty()) print_line(line);
    }
    print_line(plan_table(plan));
    print_line(duration_line(plan, updates));
  }
  Interrupt& interrupt = interrupt_on_signals();
  ProgressBar bar(invocation.json);
  std::optional<TensorBoardLog> tensorboard;
  if (options.reports_to_tensorboard()) {
    tensorboard.emplace(options.logging_directory(), resume ? std::optional(resumed_at) : std::nullopt);
    tensorboard->add_text("plan", plan_table(plan));
    tensorboard->add_text("options", json_text(options.command->values(), 2));
  }
  Observers progress({&files, &events, &bar});
  if (tensorboard) progress.add(&*tensorboard);
  Trainer trainer(session, bundle, {.train = train, .evaluation = evaluation}, options.train,
                  loader_options(options.memory), device.threads, progress);
  const TrainSummary summary = trainer.run(resume, interrupt);
  bar.clear();
  if (summary.evaluation) {
    std::optional<WorstPictures> pictures;
    if (EventFile* const file = tensorboard ? tensorboard->file() : nullptr) {
      pictures.emplace(*file, summary.evaluation->worst, summary.steps, work_folder(output_dir));
    }
    write_worst_pages(session, bundle, *evaluation, loader_options(options.memory), options.data.box_format,
                      summary.evaluation->worst, output_dir / "worst.json",
                      pictures ? pictures->observer() : WorstPageObserver());
    if (pictures) pictures->write_table();
  }
  const std::size_t measured = measured_peak_bytes(backend);
  nlohmann::json object = summary_json(plan, summary, measured);
  if (invocation.ranks != nullptr) object["ranks"] = ranks_json(*invocation.ranks, plan, measured);
  write_text_file(output_dir / "summary.json", json_text(object, 2) + "\n");
  log_skipped_pages(summary.skipped_pages);
  events.write("end", object);
  if (invocation.json) return;
  if (summary.evaluation) print_line(evaluation_table(*summary.evaluation, bundle.task()));
  print_line(fmt::format("trained {} in {:.0f} s, {}, {:.1f} % of the time waiting for data; the {} is in {}",
                         counted(summary.steps_here, "update"), summary.seconds,
                         rate_text(object["pages_per_second"].get<double>()), 100 * summary.data_wait,
                         bundle.options.lora.enabled() ? "adapter" : "model", output_dir.string()));
  if (summary.device_busy) {
    print_line(fmt::format("the GPU was busy {:.1f} % of that time", 100 * *summary.device_busy));
  }
  print_line(peak_line(plan, measured));
  if (object.contains("ranks")) {
    print_line(ranks_table(object["ranks"], summary.seconds));
    print_line(update_time_line(plan, object["ranks"], summary));
  }
  constexpr double kMuchWait = 0.05;
  if (summary.data_wait > kMuchWait) {
    log_info(fmt::format("to reduce waiting for data: {}more threads (--dataloader-num-workers, {} now)",
                         options.data.cache.empty() ? "--cache DIR, or " : "", loader_options(options.memory).workers));
  }
}

// Reads and tokenises every page, which takes a while if there are many.
RunPages read_pages_to_train(const Invocation& invocation, const RunOptions& options, const ModelBundle& bundle) {
  PageBar bar("pages read", invocation.json, true);
  return open_run_pages(bundle, options.model, options.data, options.eval_data,
                        [&bar](std::size_t done, std::size_t all) { bar.draw(done, all); });
}

// Opens the data after decoding every page's image, unless the user disables that or a cache does it. Pages that a
// resumed run has skipped are not read again.
RunData open_data_to_train(const Invocation& invocation, const RunOptions& options, ModelBundle& bundle,
                           const RunPages& pages, const std::optional<fs::path>& resume) {
  PageBar bar("images decoded (--no-decode-images skips this)", invocation.json, true);
  // The run is not planned yet, but must stay within its budget.
  const bool on_cpu = options.device.device == "cpu";
  const std::size_t budget = on_cpu ? resolve_budget(options.memory) : options.memory.host_budget_bytes;
  return open_run_data(bundle, options.data, pages,
                       {.decode_images = !options.no_decode_images,
                        .most_decoding_bytes = budget == 0 ? 0 : budget - std::min(budget - 1, resident_bytes()),
                        .skipped = resume ? read_trainer_state(*resume).skipped_pages : std::vector<SkippedPage>(),
                        .class_weights = options.model.class_weights,
                        .on_progress = [&bar](std::size_t done, std::size_t all) { bar.draw(done, all); }});
}

// Runs everything from reading the pages on; only --events is handled before it.
void train_with(const Invocation& invocation, RunOptions& options, ModelBundle& bundle, const Device& device,
                const std::optional<fs::path>& resume, RunEvents& events) {
  const fs::path output_dir = options.train.output_dir;
  options.data.work = work_folder(output_dir);
  const RunPages pages = read_pages_to_train(invocation, options, bundle);
  const Findings said = resolve_labels(bundle, options.model, *pages.train);
  log_findings(said);
  check_weights(bundle);
  take_teacher(options, bundle);
  metric_name(bundle, options.train.metric_for_best_model);  // refuses a name that the task lacks
  RunData data = open_data_to_train(invocation, options, bundle, pages, resume);
  data.findings.merge(said);
  refuse_other_inputs(invocation, options, bundle,
                      {.data = data.train.get(), .evaluation = data.evaluation.get(), .resume = resume});
  for (const Dataset* const each : {data.train.get(), data.evaluation.get()}) {
    const bool writes = each != nullptr && invocation.is_first() && !options.events.empty() && options.events != "-";
    if (writes) refuse_replacing_images({{"--events", options.events}}, each->source());
  }
  keep_word_rows(bundle, options.train, data.train.get(), data.evaluation.get(), resume);
  WorstPictures::plan(options, data.evaluation.get());
  if (resume) {
    const TrainerState saved = read_trainer_state(*resume);
    keep_batch(options, saved);
    TrainerState now = saved;  // an early stop does not count if evaluations are compared otherwise now
    if (data.evaluation != nullptr) now.judged_by = judged_by(bundle, *data.evaluation, options.train);
    now.greater_is_better = options.train.greater_is_better;
    if (!judged_alike(saved, now)) now.evaluations_without_gain = 0;
    if (left_nothing(events, options.train, *data.train, *resume, now)) return;
    tell_changed_options(*options.command, *resume);
    keep_micro_batch(options, saved);
  }

  const std::optional<DType> fallback_precision = options.fallback_precision();
  if (!fallback_precision) {
    return train_planned(invocation, options, bundle, data, device, resume, events);
  }
  // The run can only be sure to finish if its fallback fits, too.
  RunOptions fallback = options;
  fallback.train.precision = *fallback_precision;
  const TeacherCache of_its_precision(fallback, bundle, *data.train, *device.backend);
  const TeacherCache teacher(options, bundle, *data.train, *device.backend);
  check_phases({[&] { plan_ahead(invocation, options, bundle, data, teacher, *device.backend); },
                [&] { plan_ahead(invocation, fallback, bundle, data, of_its_precision, *device.backend); }});
  try {
    train_planned(invocation, options, bundle, data, device, resume, events);
  } catch (const ScaleCollapsedError& error) {
    log_warning(
        fmt::format("{} ({}): continuing in {}", error.problem().what, error.problem().found, options.fp16_fallback));
    wait_for_ranks(invocation);  // until the first one has saved
    const std::optional<fs::path> checkpoint = find_resume("latest", output_dir);
    if (checkpoint) fallback.memory.kept_cut = cut_of(read_trainer_state(*checkpoint));
    train_planned(invocation, fallback, bundle, data, device, checkpoint, events);
  }
}

}  // namespace

void make_room_for_run(const fs::path& output_dir, const std::optional<fs::path>& resume) {
  if (goes_on_in(output_dir, resume)) {
    const std::int64_t step = read_trainer_state(*resume).step;
    if (const auto aside = set_later_aside(output_dir, step)) {
      log_warning(fmt::format("{} had gone on after step {}: its later checkpoints and its model are now in {}",
                              output_dir.string(), step, aside->string()));
    }
    return;
  }
  if (const auto aside = set_run_aside(output_dir)) log_warning(set_aside_text(output_dir, *aside));
}

void run_training(Invocation& invocation, RunOptions& options, const BeforeTraining& before) {
  options.runs = true;
  options.resolve();
  watch_signals();
  invocation.json = invocation.json || options.events == "-";
  connect_ranks(invocation, options.ranks, options.ranks.launch.size > 1 ? &interrupt_on_signals() : nullptr);
  const fs::path output_dir = options.train.output_dir;
  std::optional<NewDirectory> directory;  // a refusal leaves none behind
  std::optional<DirectoryLock> lock;
  if (invocation.is_first()) {
    check_output_dir(options);
    directory.emplace(output_dir, "--output-dir");
    lock.emplace(output_dir, "--output-dir");
    recover_run_directory(output_dir);
  }
  wait_for_ranks(invocation);
  if (std::error_code error; !invocation.is_first() && !fs::is_directory(output_dir, error)) {
    throw EnvironmentError({.what = "the output directory, which rank 0 has made, is not found on another rank",
                            .where = "--output-dir",
                            .found = output_dir.string(),
                            .allowed = "a directory that all ranks share",
                            .remedy = "pass one on a file system that every machine mounts"});
  }
  const std::optional<fs::path> resume = find_resume(options.resume_from_checkpoint, output_dir);
  const auto refuse_finished_run = [&] {
    if (invocation.is_first()) check_earlier_run(options, resume);
    wait_for_ranks(invocation);
  };
  if (before) refuse_finished_run();  // do not do long work in vain
  const Device device = open_run_device(invocation, options);
  // The plan is made with rank 0's speeds.
  if (invocation.is_first()) {
    options.memory.speeds = machine_speeds(device, options.train.precision, options.memory.budget_bytes);
  }
  const nlohmann::json done_before = before ? before(device, resume) : nlohmann::json();
  ModelBundle bundle = open_model(options.model.model, options.model.tokenizer, options.model.base_model);
  refuse_replacing({{"--output-dir", output_dir}}, {{"the adapter's base model", bundle.base}});
  options.resolve_padding(bundle.facts());
  set_task_and_labels(bundle, options.model);
  if (invocation.is_first()) tell_idle_options(options, bundle, false);
  if (resume) refuse_other_family(bundle, *resume);
  choose_trained_parts(bundle, options.parts);
  if (!before) refuse_finished_run();
  const fs::path file = options.events == "-" || !invocation.is_first() ? fs::path() : fs::path(options.events);
  std::vector<NamedPath> inputs = options.inputs();
  inputs.push_back({"--resume-from-checkpoint", resume.value_or(fs::path())});
  refuse_replacing({{"--events", file}}, inputs, output_dir);
  if (!file.empty() && is_of_run(output_dir, file)) {
    throw UsageError({.what = "the run writes this file itself",
                      .where = "--events",
                      .found = file.string(),
                      .allowed = fmt::format("another file, such as {}", (output_dir / "events.jsonl").string()),
                      .remedy = "pass another file"});
  }
  RunEvents events(invocation.json, file);
  try {
    if (!done_before.is_null()) events.write("prune", done_before);
    train_with(invocation, options, bundle, device, resume, events);
  } catch (const Error& error) {
    events.write_error(error);
    throw;
  }
}

void add_train(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "train", "Fine-tune inside a memory budget");
  auto options = std::make_shared<RunOptions>();
  add_train_options(command, *options);
  command->get_option("--output-dir")->required();
  command->footer(
      "All memory of the run is planned and allocated before the first update. If it does not fit the\n"
      "budget, the command says so at once (exit code 4) and names the smallest budget that works.\n"
      "Loss and gradient norm are checked after every update. The first update with a NaN or infinity is\n"
      "run again op by op: the message names the op, the tensor and the pages, and plimsoll replay\n"
      "OUTPUT-DIR/nonfinite-step-N shows it again.\n"
      "SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGXCPU write a checkpoint of the last finished update within a\n"
      "second and end with exit code 128 + the signal's number (130, 143, 129, 152);\n"
      "--resume-from-checkpoint latest continues. SIGUSR1 writes one too, and the run continues, repeating\n"
      "an evaluation that was in progress.");
  command->callback(
      [&invocation, options] { invocation.action = [&invocation, options] { run_training(invocation, *options); }; });
}

}  // namespace plimsoll
