// Trainer: a planned run, from its first update or from a checkpoint, to its last.
//
//   Trainer trainer(session, bundle, {.train = &pages, .evaluation = &held_out}, options, loader, threads, observer);
//   TrainSummary summary = trainer.run(resume, interrupt);
//
// The step loop allocates nothing; whatever a step needs was planned. A checkpoint holds all that the rest of the run
// depends on, so that a resumed run ends with the same bits as one that was never stopped.
//
// A page that cannot be read any more is left out of its update and of all later ones: the update begins anew without
// it, so that what a run does depends on the pages that it left out and on nothing else.
#pragma once

#include <memory>
#include <optional>

#include "base/interrupt.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "fit/session.h"
#include "train/batch_binding.h"
#include "train/checkpoint.h"
#include "train/disk_need.h"
#include "train/evaluation.h"
#include "train/growth_watch.h"
#include "train/metrics_log.h"
#include "train/options.h"
#include "train/step_record.h"

namespace plimsoll {

struct StepReport {
  std::int64_t step = 0, total_steps = 0;  // updates done
  double epoch = 0;
  double loss = 0;           // mean over labelled tokens of the update
  double mean_loss = 0;      // of the updates since the last line of metrics.jsonl: what its next one says
  double learning_rate = 0;  // that the update used
  double gradient_norm = 0;  // before clipping
  double pages_per_second = 0;
  double data_wait = 0;  // share of the updates' time in which they waited for the loader
  double seconds_left = 0;
  std::size_t resident_bytes = 0;
  std::size_t budget_bytes = 0;  // of resident memory
  bool on_device = false;        // which has memory beside the resident
  double loss_scale = 1;         // of --fp16
  std::int64_t skipped_updates = 0;
};

// What a run tells while it goes. Called on the training thread; the step report without allocating.
class TrainObserver {
 public:
  TrainObserver() = default;
  TrainObserver(const TrainObserver&) = delete;
  TrainObserver& operator=(const TrainObserver&) = delete;
  virtual ~TrainObserver() = default;
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluation(const StepReport&, const Evaluation&) {}
  virtual void on_checkpoint(const std::filesystem::path&) {}
};

struct TrainData {
  const Dataset* train = nullptr;
  const Dataset* evaluation = nullptr;  // nullptr: no evaluation
};

struct TrainSummary {
  std::int64_t steps = 0;       // updates of the whole run
  std::int64_t steps_here = 0;  // of this process
  std::int64_t pages_here = 0;
  double seconds = 0;
  double data_wait = 0;               // as in StepReport
  std::optional<double> device_busy;  // share of the updates' time in which a device of its own worked on them
  std::optional<double> last_loss;         // of the last update that was made; nothing where none was
  std::int64_t skipped_updates = 0;        // over the whole run
  std::vector<SkippedPage> skipped_pages;  // the same
  std::optional<Evaluation> evaluation;    // of the model that was saved
  std::optional<double> best_metric;
  std::int64_t best_step = 0;
};

// Updates of a run over this many updates an epoch.
std::int64_t total_steps(const TrainOptions& options, std::int64_t updates_per_epoch);

class Trainer {
 public:
  Trainer(const Session& session, const ModelBundle& bundle, const TrainData& data, const TrainOptions& options,
          const LoaderOptions& loader, int threads, TrainObserver& observer);

  // Fills parameters and optimizer state (from `resume`, or fresh), trains, saves. When `interrupt` is pending, an
  // evaluation or an update that has changed no parameter yet is dropped, and a checkpoint of the last whole update is
  // written; then InterruptedError, or the run goes on with what it dropped. When loss or gradients are not finite, the
  // first such update is run again node by node and recorded (train/step_record.h); then DivergedError, or with
  // `skip_nonfinite` the next update. With a gradient scaler such updates are skipped, until the scale collapses: then
  // a checkpoint is written and ScaleCollapsedError thrown.
  TrainSummary run(const std::optional<std::filesystem::path>& resume, Interrupt& interrupt);

 private:
  enum class UpdateEnd : std::uint8_t { kWhole, kDropped, kWithoutPages };

  void begin_afresh();
  void begin_from(const std::filesystem::path& checkpoint);
  void open_logs(bool resumed);
  void restart_loader();
  UpdateEnd run_update(const Interrupt& interrupt, double& loss);
  std::string pages_of(const Batch& batch) const;
  StepScalars scalars(const Batch& batch) const;
  const Program& bind(const Batch& batch);
  // While a device computes: gives it the next batch, if that is there and for the same program.
  void copy_ahead(ProgramKind kind);
  // trainer_faults.cpp: an update that went wrong. Runs it again and records it; its directory.
  std::filesystem::path record_fault(double loss, StepRecord& record);
  std::filesystem::path write_record(StepRecord& record, double loss);
  // Throws, or leaves the update out.
  void after_fault(double loss);
  // An update that was given up before it changed a parameter.
  void drop_update();
  // An update whose pages are all left out.
  void pass_over_update();
  // Saves; then throws InterruptedError, or returns where the run is to go on.
  void obey(Interrupt& interrupt);
  // Leaves a page out from now on, or saves and throws.
  void skip_page(const BadPageError& error, bool evaluation);
  PredictControl evaluation_control(const Interrupt& interrupt);
  // Updates that have changed the parameters: what schedule and bias correction go by.
  std::int64_t real_updates() const { return state_.step - state_.scaler.skipped; }
  // After a whole update: skipped or not.
  void update_scale(const Batch& batch);
  void after_update(double loss);
  void log_order(const Batch& batch, bool first, bool last);
  void evaluate_now(TrainSummary& summary, const Interrupt& interrupt);
  // The model that was saved, where that is not the last one.
  void evaluate_best(TrainSummary& summary, Interrupt& interrupt);
  void save(bool force);
  StepReport report(double loss) const;
  double data_wait() const { return step_seconds_ > 0 ? wait_seconds_ / step_seconds_ : 0; }
  std::optional<double> device_busy() const;
  bool updates_now(std::int64_t every) const { return every > 0 && state_.step % every == 0; }
  // False where it was dropped.
  bool run_program(const Program& program, ProgramKind kind, const Interrupt& interrupt);
  [[noreturn]] void throw_unfinished(const EnvironmentError& error) const;
  [[noreturn]] void throw_unwritten(const std::string& what, const EnvironmentError& error) const;
  WrittenBytes written_bytes() const;
  std::string continue_remedy() const;  // from the last good checkpoint; behind other words
  StateAccess states() const;

  const Session& session_;
  const ModelBundle& bundle_;
  TrainData data_;
  TrainOptions options_;
  LoaderOptions loader_options_;
  TrainObserver& observer_;
  Sampler sampler_;
  TrainerState state_;
  GradScaler scaler_;
  std::shared_ptr<const WeightsFile> resumed_;  // the whole model that the run was resumed from
  ParameterSource original_;                    // of what is frozen
  std::vector<std::string> state_names_;        // of the optimizer
  std::unique_ptr<BatchSequence> sequence_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::optional<BatchBinding>> bindings_;  // by ProgramKind
  bool loader_is_stale_ = false;                       // it stands within an update that begins anew
  const Batch* copied_ = nullptr;                      // lies in its program's inputs already
  std::unique_ptr<JsonLinesLog> metrics_, order_;
  std::string order_line_;
  std::int64_t saved_step_ = -1;
  double gradient_norm_ = 0;
  bool skipped_ = false;            // the last update
  bool faulty_ = false;             // loss or gradients of the update are not finite, or `fault_` was seen
  std::optional<StepFault> fault_;  // seen by --detect-anomaly
  std::vector<std::optional<CheckedRun>> checked_;  // by ProgramKind, for --detect-anomaly
  bool recorded_ = false;                           // the run's first faulty update
  std::int64_t skipped_in_a_row_ = 0;
  GrowthWatch growth_;
  MemoryGroups groups_;
  double growth_seconds_ = 0;   // when memory was last looked at
  int bad_pages_in_a_row_ = 0;  // without a whole update or evaluation between them
  std::int64_t pages_ = 0;
  std::int64_t pages_before_ = 0;  // the update that is under way
  double wait_seconds_before_ = 0;
  double step_seconds_ = 0;  // spent in updates, evaluation and saving left out
  double wait_seconds_ = 0;  // of these, waiting for the loader
};

}  // namespace plimsoll
