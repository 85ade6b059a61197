// What follows from an update whose loss or gradients are not finite: the run ends, or skips the update. A run skips if
// it is told to (--on-nonfinite skip), if the parameters are intact, and not too often in a row: whoever skips wants to
// live through a bad batch, not through a model that is lost.
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

// True if nothing of the update has reached the parameters, and they are good. Updates in backward do not wait for the
// norm of all gradients.
bool leaves_parameters_intact(const std::optional<StepFault>& fault, UpdateMode update);

// A faulty update as messages say it.
struct FaultFacts {
  std::int64_t step = 0;  // of the update
  std::string pages{};    // "train.jsonl:17, page 'a12'; …"; empty if they are not known
  double loss = 0, gradient_norm = 0;
  std::optional<StepFault> fault{};
  std::filesystem::path directory{};  // of its record; empty: none
  bool skips = false;                 // --on-nonfinite skip
  std::int64_t skipped_in_a_row = 0;  // this update included
};
// "update 7, train.jsonl:17, page 'a12': the loss or the gradients are NaN or infinite: …; the update is skipped, …"
std::string skipped_text(const FaultFacts& facts);
// Throws the error that ends the run: InternalError for an index outside its table, DivergedError for anything else.
// `last_good`: the newest checkpoint; empty: none.
[[noreturn]] void throw_fault(const FaultFacts& facts, const std::filesystem::path& last_good);

// The faulty updates of a run.
class UpdateFaults {
 public:
  // `recorder` and `options` must outlive this object. Update modes are those of the plan.
  UpdateFaults(const TrainOptions& options, UpdateMode update, FaultRecorder& recorder)
      : options_(options), update_(update), recorder_(recorder) {}

  struct Verdict {
    FaultFacts facts;
    bool ends = false;    // the run
    bool intact = false;  // the parameters
  };
  // Records the first faulty update, and the one that ends the run; says in the log that the first one is skipped.
  Verdict judge(const UpdateResult& result, const StepScalars& scalars);
  // An update was finite, or its gradients overflowed as --fp16's scaler expects.
  void forget_row() { in_a_row_ = 0; }

 private:
  const TrainOptions& options_;
  UpdateMode update_;
  FaultRecorder& recorder_;
  bool recorded_ = false;  // the first one
  std::int64_t in_a_row_ = 0;
};

}  // namespace plimsoll
