// RunSaver: writes a run's checkpoints and its model, and knows which update the newest checkpoint is of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "train/observer.h"
#include "train/options.h"
#include "train/rank_agreement.h"
#include "train/run_memory.h"

namespace plimsoll {

// "; then continue with --resume-from-checkpoint latest, from update 40": Returns what to do after a run has failed, to
// be appended to other text.
std::string continue_remedy(const std::filesystem::path& output_dir);

class RunSaver {
 public:
  // All arguments must outlive this object.
  // With ranks, the first one writes, and each method returns on all ranks when that is done.
  RunSaver(const TrainOptions& options, const ModelBundle& bundle, RunMemory& memory, TrainObserver& observer,
           Communicator* ranks = nullptr)
      : options_(options), bundle_(bundle), memory_(memory), observer_(observer), agreement_(ranks) {}

  // Writes a checkpoint of `state` unless there is one, and removes those beyond the limit. Throws EnvironmentError
  // (disk full, …) that says from which update the run can be continued.
  void save(const TrainerState& state);
  // Does the same for a checkpoint that the options ask for at this update, which has no optimizer state with
  // save_only_model.
  void save_due(const TrainerState& state);
  // Returns true if the newest checkpoint is that of this update, and a run that resumes it loses nothing.
  bool holds(std::int64_t step) const { return saved_step_ == step; }
  // Call it when the run was resumed from the checkpoint of that update.
  void resume_at(std::int64_t step) { saved_step_ = step; }
  // Call it when the run knows something about an evaluation or a page that the newest checkpoint does not.
  void outdate() { saved_step_ = -1; }

  // Writes the model to the output directory. Throws as save() does.
  void save_model();

 private:
  void write(const TrainerState& state);
  void rotate(const TrainerState& state) const;

  const TrainOptions& options_;
  const ModelBundle& bundle_;
  RunMemory& memory_;
  TrainObserver& observer_;
  RankAgreement agreement_;
  std::int64_t saved_step_ = -1;
};

}  // namespace plimsoll
