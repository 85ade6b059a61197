// Trainer: a planned run, from its first update or from a checkpoint, to its last.
//
//   Trainer trainer(session, bundle, {.train = &pages, .evaluation = &held_out}, options, loader, threads, observer);
//   TrainSummary summary = trainer.run(resume, interrupt);
//
// The step loop allocates nothing; whatever a step needs was planned. A checkpoint holds all that the rest of the run
// depends on, so that a resumed run ends with the same bits as one that was never stopped.
//
// A page that can no longer be read is left out of its update and of all later ones: the update starts again without
// it, so that the run depends on which pages it left out and on nothing else.
//
// The parts: Updates runs an update and returns its UpdateResult. RunSchedule says what is due after it, RunLog logs
// it, RunSaver saves. UpdateFaults and BadPages decide whether the run continues after a failure. resume.h says what a
// run takes from a checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/interrupt.h"
#include "data/sampler.h"
#include "fit/session.h"
#include "train/bad_pages.h"
#include "train/fault_record.h"
#include "train/learning_rate.h"
#include "train/observer.h"
#include "train/options.h"
#include "train/run_log.h"
#include "train/run_memory.h"
#include "train/run_saver.h"
#include "train/run_schedule.h"
#include "train/throughput.h"
#include "train/update_faults.h"
#include "train/updates.h"

namespace plimsoll {

struct TrainData {
  const Dataset* train = nullptr;
  const Dataset* evaluation = nullptr;  // nullptr: no evaluation
};

struct TrainSummary {
  std::int64_t steps = 0;       // updates of the whole run
  std::int64_t steps_here = 0;  // of this process
  std::int64_t pages_here = 0;
  double seconds = 0;
  double data_wait = 0;                    // as in StepReport
  std::optional<double> device_busy;       // share of the updates' time in which a separate device worked on them
  std::optional<double> last_loss;         // of the last completed update; nothing if there was none
  std::int64_t skipped_updates = 0;        // over the whole run
  std::vector<SkippedPage> skipped_pages;  // over the whole run
  std::optional<Evaluation> evaluation;    // of the saved model
  std::optional<double> best_metric;
  std::int64_t best_step = 0;
  bool stopped_early = false;  // by early_stopping_patience
};

class Trainer {
 public:
  Trainer(const Session& session, const ModelBundle& bundle, const TrainData& data, const TrainOptions& options,
          const LoaderOptions& loader, int threads, TrainObserver& observer);

  // Fills parameters and optimizer state (from `resume`, or fresh), trains, saves. When `interrupt` is pending, an
  // evaluation or an update that has changed no parameter yet is dropped, and a checkpoint of the last whole update is
  // written; then InterruptedError is thrown, or the run continues with what it dropped. When loss or gradients are not
  // finite, the first such update is run again node by node and recorded (train/step_record.h); then DivergedError is
  // thrown, or with `skip_nonfinite` the next update follows. With a gradient scaler such updates are skipped, until
  // the scale collapses: then a checkpoint is written and ScaleCollapsedError thrown.
  TrainSummary run(const std::optional<std::filesystem::path>& resume, Interrupt& interrupt);

 private:
  void begin(const std::optional<std::filesystem::path>& resume);
  void update(const Interrupt& interrupt);
  void evaluate_now(const Interrupt& interrupt);
  // Saves; then throws InterruptedError, or returns if the run is to continue.
  void obey(const RankAgreement::Requests& asked, Interrupt& interrupt);
  void finish(Interrupt& interrupt);

  // Returns what the next update gets besides its batches.
  StepScalars scalars() const;
  // Returns the updates that have changed the parameters, on which schedule and bias correction depend.
  std::int64_t real_updates() const { return state_.step - state_.scaler.skipped; }
  // Call it after a whole update. Returns false if its gradients overflowed, so that it changed nothing.
  bool rescale(const UpdateResult& result);
  // Counts the update as skipped, or saves if that helps, and throws.
  void skip_or_end(const UpdateResult& result);
  void count_skipped();
  // Leaves a page out from now on, or saves and throws.
  void leave_out_or_end(const BadPageError& error, bool evaluation);
  // Reports and logs the update; decides what is due.
  void after_update(const UpdateResult& result, bool changed);
  // Passes an evaluation to a schedule that adapts to evaluations.
  void adapt_learning_rate(const Evaluation& evaluation);
  void note_best(const Evaluation& evaluation);
  PredictControl evaluation_control(const Interrupt& interrupt);
  // Evaluates the saved model if that is not the last one.
  void evaluate_best(Interrupt& interrupt);
  StepReport report(double loss) const;

  const Session& session_;
  const ModelBundle& bundle_;
  TrainData data_;
  TrainOptions options_;
  LoaderOptions loader_options_;
  TrainObserver& observer_;
  Sampler sampler_;
  TrainerState state_;
  GradScaler scaler_;
  RunSchedule schedule_;
  RankAgreement agreement_;
  RunMemory memory_;
  RunSaver saver_;
  LearningRate learning_rate_;
  Updates updates_;
  FaultRecorder recorder_;
  UpdateFaults faults_;
  BadPages bad_pages_;
  std::optional<RunLog> log_;  // once the run has begun
  Throughput throughput_;
  double gradient_norm_ = 0;     // of the last update
  bool told_no_metric_ = false;  // that no evaluation has a value of the metric that decides
  TrainSummary summary_;
};

}  // namespace plimsoll
