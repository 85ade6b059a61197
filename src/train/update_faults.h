// Decides what to do about an update whose loss or gradients are not finite: end the run, or skip the update. A run
// skips if --on-nonfinite skip says so, the parameters are intact, and it has not skipped too many in a row: skipping
// is meant to survive a bad batch, not a broken model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "fit/step_graphs.h"
#include "train/fault_record.h"
#include "train/options.h"

namespace plimsoll {

inline constexpr std::int64_t kMostSkippedInARow = 20;

// Returns true if nothing of the update has reached the parameters, and they are finite. Updates in backward do not
// wait for the norm of all gradients.
bool leaves_parameters_intact(const std::optional<StepFault>& fault, UpdateMode update);

// What messages say about a faulty update.
struct FaultFacts {
  std::int64_t step = 0;  // of the update
  std::string pages{};    // "train.jsonl:17, page 'a12'; …"; empty if they are not known
  double loss = 0, gradient_norm = 0;
  std::optional<StepFault> fault{};
  std::filesystem::path directory{};  // of its record; empty: none
  bool skips = false;                 // --on-nonfinite skip
  std::int64_t skipped_in_a_row = 0;  // including this update
};
// Returns "update 7, train.jsonl:17, page 'a12': the loss or the gradients are NaN or infinite: …; the update is
// skipped, …"
std::string skipped_text(const FaultFacts& facts);
// Throws the error that ends the run: InternalError for an index outside its table, DivergedError for anything else.
// `last_good` is the newest checkpoint; empty if there is none.
[[noreturn]] void throw_fault(const FaultFacts& facts, const std::filesystem::path& last_good);

// The faulty updates of a run.
class UpdateFaults {
 public:
  // `recorder` and `options` must outlive this object. `update` is the plan's mode.
  UpdateFaults(const TrainOptions& options, UpdateMode update, FaultRecorder& recorder)
      : options_(options), update_(update), recorder_(recorder) {}

  struct Verdict {
    FaultFacts facts;
    bool ends = false;    // the run ends
    bool intact = false;  // the parameters are intact
  };
  // Records the first faulty update, and the one that ends the run; says in the log that the first one is skipped.
  Verdict judge(const UpdateResult& result, const StepScalars& scalars);
  // Call it when an update was finite, or its gradients overflowed in the way that --fp16's scaler expects.
  void forget_row() { in_a_row_ = 0; }

 private:
  const TrainOptions& options_;
  UpdateMode update_;
  FaultRecorder& recorder_;
  bool recorded_ = false;  // whether the first one is
  std::int64_t in_a_row_ = 0;
};

}  // namespace plimsoll
