// What a trainer does about an update whose numbers are not finite, a page that cannot be read, and a signal.
#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/work_folder.h"
#include "train/batch_file.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Whoever skips wants to live through a bad batch, not through a model that is lost.
constexpr std::int64_t kMostSkippedInARow = 20;

std::string signal_name(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGXCPU:
      return "SIGXCPU";
    default:
      return fmt::format("signal {}", signal);
  }
}

}  // namespace

// The update changed nothing where its gradients were not finite, so running it again meets the same numbers.
fs::path Trainer::write_record(StepRecord& record, double loss) {
  const std::string name = fmt::format("nonfinite-step-{}", state_.step + 1);
  const fs::path final_path = options_.output_dir / name;
  const fs::path aside = make_work_directory(options_.output_dir, name);
  fs::create_directories(aside / kRecordedModel);
  record.loss = loss;
  record.gradient_norm = gradient_norm_;
  record.padded = options_.pad_to > 0;
  record.choices = session_.choices();
  write_checksums(aside / kRecordedModel,
                  save_model(aside / kRecordedModel, bundle_, original_,
                             [this](const std::string& parameter) { return session_.parameter(parameter); }));
  loader_.reset();
  restart_loader();
  for (;;) {
    const Batch& batch = *loader_->next();
    const MicroBatchInfo& info = batch.info();
    record.scalars = scalars(batch);
    record.micro_batches_in_update = info.micro_batches;
    MicroBatchRecord micro{.file = fmt::format("batch-{}.safetensors", info.micro_batch),
                           .first_sample = batch.tensor(input::kRowKeys).data<std::int32_t>()[0]};
    for (const SampleReference& reference : batch.references().first(static_cast<std::size_t>(batch.samples()))) {
      micro.pages.push_back(place(data_.train->source().read(reference.page)));
    }
    write_batch_file(aside / micro.file, batch, bundle_.facts());
    record.micro_batches.push_back(std::move(micro));
    const std::optional<StepFault> found = CheckedRun(bind(batch)).run(scaler_.on());
    if (!record.fault) record.fault = found;
    if (found || info.micro_batch + 1 == info.micro_batches) break;
  }
  write_step_record(aside, record, session_.plan(), bundle_.options);
  sync_directory(aside);
  replace_directory(aside, final_path);
  remove_work_directory(options_.output_dir, name);
  return final_path;
}

fs::path Trainer::record_fault(double loss, StepRecord& record) {
  std::string problem;
  try {
    return write_record(record, loss);
  } catch (const EnvironmentError& error) {
    problem = fmt::format("{}, {}", error.problem().what, error.problem().found);
  } catch (const DataError& error) {  // a page that cannot be read a second time
    problem = fmt::format("{}, {}", error.problem().what, error.problem().where);
  } catch (const fs::filesystem_error& error) {
    problem = error.what();
  }
  // A full disk must not hide what there is to say.
  log_warning(fmt::format("update {} failed and cannot be recorded: {}", state_.step + 1, problem));
  discard_work_directory(options_.output_dir, fmt::format("nonfinite-step-{}", state_.step + 1));
  return {};
}

void Trainer::after_fault(double loss) {
  skipped_ = true;
  if (fault_) gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
  ++skipped_in_a_row_;
  const bool ends = !options_.skip_nonfinite || skipped_in_a_row_ >= kMostSkippedInARow;
  StepRecord record;
  record.fault = fault_;
  fs::path directory;
  const bool first = !recorded_;
  if (first || ends) directory = record_fault(loss, record);
  recorded_ = true;
  const std::optional<StepFault>& fault = record.fault;
  // Nothing of the update has reached the parameters, and they are good.
  const bool early = session_.plan().levers.update == UpdateMode::kInBackward && fault && !fault->forward;
  const bool intact = fault && fault->kind != StepFault::Kind::kHeld && !fault->updated && !early;
  std::string pages;
  if (!record.micro_batches.empty()) {
    for (const std::string& page : record.micro_batches.back().pages) pages += (pages.empty() ? "" : "; ") + page;
  }
  const std::string where = fmt::format("update {}{}{}", state_.step + 1, pages.empty() ? "" : ", ", pages);
  const std::string found = fmt::format(
      "loss {}, gradient norm {}; {}", loss, gradient_norm_,
      fault ? describe(*fault) : std::string("running the update again node by node gave only finite numbers"));
  if (!ends && (!first || intact)) {
    if (first) {
      log_warning(fmt::format("{}: the loss or the gradients are NaN or infinite: {}; the update is skipped{}", where,
                              found,
                              directory.empty() ? "" : fmt::format(", see plimsoll replay {}", directory.string())));
    }
    if (scaler_.on()) {
      scaler_.update(false);
      state_.scaler = scaler_.state();
    } else {
      ++state_.scaler.skipped;
    }
    return;
  }
  if (intact && state_.step > 0) save(false);
  const std::vector<std::int64_t> good = list_checkpoints(options_.output_dir);
  std::string remedy =
      directory.empty() ? "" : fmt::format("plimsoll replay {} shows the step again; ", directory.string());
  if (fault && fault->kind == StepFault::Kind::kHeld) {
    remedy += fmt::format("start from finite weights; '{}' has NaN or infinite values", fault->tensor);
  } else {
    remedy += options_.skip_nonfinite
                  ? "lower --learning-rate, or raise --warmup-ratio"
                  : "lower --learning-rate, raise --warmup-ratio, or pass --on-nonfinite skip if a page is the cause";
  }
  if (!good.empty()) {
    remedy +=
        fmt::format("; the last good checkpoint is {}", checkpoint_path(options_.output_dir, good.back()).string());
  }
  Problem problem{
      .what = options_.skip_nonfinite
                  ? fmt::format("the loss or the gradients are NaN or infinite, and skipping {} does not help",
                                skipped_in_a_row_ > 1 ? counted(skipped_in_a_row_, "update") + " in a row"
                                                      : std::string("the update"))
                  : "the loss or the gradients are no longer finite",
      .where = where,
      .found = found,
      .allowed = "finite numbers",
      .remedy = remedy};
  if (fault && fault->kind == StepFault::Kind::kIndex) {
    problem.what = "an index points outside its table";
    problem.found = describe(*fault);
    problem.allowed = fmt::format("0 to {}", fault->table_rows - 1);
    problem.remedy = "this should never happen: please report it with the model's config.json and these pages";
    throw InternalError(std::move(problem));
  }
  throw DivergedError(std::move(problem));
}

void Trainer::drop_update() {
  session_.finish_transfers();
  pages_ = pages_before_;
  wait_seconds_ = wait_seconds_before_;
  loader_is_stale_ = true;
}

void Trainer::pass_over_update() {
  skipped_ = true;
  gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
  ++state_.scaler.skipped;
  if (scaler_.on()) scaler_ = GradScaler(state_.scaler);
}

void Trainer::obey(Interrupt& interrupt) {
  save(false);
  const int signal = interrupt.end_signal();
  if (signal == 0) return interrupt.clear_save();
  throw InterruptedError({.what = fmt::format("interrupted by {} after update {} of {}", signal_name(signal),
                                              state_.step, state_.total_steps),
                          .where = checkpoint_path(options_.output_dir, state_.step).string(),
                          .remedy = "continue with --resume-from-checkpoint latest"},
                         signal);
}

void Trainer::skip_page(const BadPageError& error, bool evaluation) {
  const SkippedPage page{.evaluation = evaluation, .page = error.page(), .problem = error.problem()};
  ++bad_pages_in_a_row_;
  const PageSource& source = (evaluation ? data_.evaluation : data_.train)->source();
  const bool none_left = indices_of(state_.skipped_pages, evaluation).size() + 1 >= source.size();
  const bool gone = bad_pages_in_a_row_ >= kMostBadPagesInARow || none_left;
  if (!options_.stop_on_bad_page && !gone) {
    log_warning(fmt::format("a page can no longer be read and is skipped from now on: {}", describe(page)));
    state_.skipped_pages.push_back(page);
    saved_step_ = -1;  // what was saved before does not know of it
    if (!evaluation) sampler_.leave_out(page.page);
    return;
  }
  // Those of a folder that is gone are tried again when the run goes on.
  if (gone)
    state_.skipped_pages.resize(state_.skipped_pages.size() - static_cast<std::size_t>(bad_pages_in_a_row_ - 1));
  save(false);
  Problem problem = error.problem();
  problem.what = none_left && bad_pages_in_a_row_ > 1 ? "no readable page is left: " + problem.what
                 : gone && bad_pages_in_a_row_ > 1
                     ? fmt::format("{} in a row cannot be read: {}", counted(bad_pages_in_a_row_, "page"), problem.what)
                     : "a page can no longer be read: " + problem.what;
  problem.remedy = fmt::format("{}{}repair it, then continue with --resume-from-checkpoint latest, from update {}{}",
                               problem.remedy, problem.remedy.empty() ? "" : "; ", state_.step,
                               gone ? "" : "; or pass --on-bad-page skip to continue without such pages");
  throw DataError(std::move(problem));
}

PredictControl Trainer::evaluation_control(const Interrupt& interrupt) {
  std::vector<std::uint32_t> skipped = indices_of(state_.skipped_pages, true);
  const std::vector<std::uint32_t>& unread = data_.evaluation->options().skipped;
  skipped.insert(skipped.end(), unread.begin(), unread.end());
  return {.skipped = std::move(skipped),
          .on_bad_page = [this](const BadPageError& error) { skip_page(error, true); },
          .interrupt = &interrupt};
}

void Trainer::evaluate_best(TrainSummary& summary, Interrupt& interrupt) {
  interrupt.set_saved(true);
  // All that there is to save is saved: nothing is to be done for a page but to name it.
  PredictControl control = evaluation_control(interrupt);
  control.on_bad_page = [this](const BadPageError& error) {
    state_.skipped_pages.push_back({.evaluation = true, .page = error.page(), .problem = error.problem()});
    log_warning(
        fmt::format("a page can no longer be read and is not evaluated: {}", describe(state_.skipped_pages.back())));
  };
  summary.evaluation = evaluate(session_, bundle_, *data_.evaluation, loader_options_, control);
  if (!summary.evaluation->interrupted) return;
  throw InterruptedError(
      {.what = fmt::format("interrupted by {} after the best model was saved, before its final evaluation",
                           signal_name(interrupt.end_signal())),
       .where = options_.output_dir.string(),
       .remedy = fmt::format("nothing is lost; plimsoll eval --model {} evaluates it", options_.output_dir.string())},
      interrupt.end_signal());
}

}  // namespace plimsoll
