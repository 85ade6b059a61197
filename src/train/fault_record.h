// Runs an update whose numbers are not finite once more, node by node, and writes its inputs and what was found to
// OUTPUT_DIR/nonfinite-step-N (train/step_record.h).
#pragma once

#include <filesystem>
#include <optional>

#include "train/run_memory.h"
#include "train/step_record.h"
#include "train/updates.h"

namespace plimsoll {

struct RecordedFault {
  StepRecord record;                // if it cannot be written, what was found so far
  std::filesystem::path directory;  // empty: it cannot be written, and the log says why
};

class FaultRecorder {
 public:
  // All arguments must outlive this object.
  FaultRecorder(const Session& session, const ModelBundle& bundle, const Dataset& pages, const TrainOptions& options,
                const RunMemory& memory, Updates& updates)
      : session_(session), bundle_(bundle), pages_(pages), options_(options), memory_(memory), updates_(updates) {}

  // `result` is that of update scalars.step. The update changed nothing if its gradients were not finite, so running it
  // again gives the same numbers. With ranks, the fault is found but nothing is written; all ranks call it.
  RecordedFault record(const UpdateResult& result, const StepScalars& scalars);

 private:
  std::filesystem::path write(const UpdateResult& result, const StepScalars& scalars, StepRecord& record);

  const Session& session_;
  const ModelBundle& bundle_;
  const Dataset& pages_;
  const TrainOptions& options_;
  const RunMemory& memory_;
  Updates& updates_;
};

}  // namespace plimsoll
