// What a failed step writes to the disk, nonfinite-step-N/: everything that is needed to run it again.
//
//   step.json            scalars, plan, pages, and what was found
//   batch-M.safetensors  each micro-batch up to the one in which it was found, as `plimsoll grad` reads it
//   model/               the parameters as the step read them
//
// replay_step() runs it once more, on this machine or another.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/philox.h"
#include "bundle/model_bundle.h"
#include "fit/session.h"
#include "runtime/checked_run.h"
#include "train/batch_binding.h"

namespace plimsoll {

// What an update gets besides its batches.
struct StepScalars {
  std::int64_t step = 0;  // update N of the run, from 1
  std::int64_t optimizer_step = 1;
  std::uint64_t seed = 0;
  PhiloxKey dropout_key{};
  double learning_rate = 0;
  double max_grad_norm = 0;
  double scale = 1;     // of --fp16's loss
  double labelled = 0;  // tokens of the whole update, or the sum of their class weights
  // The same without weights, and the rows of the update: for losses against a teacher, whose steps are not recorded.
  double labels = 0, rows = 0;
};

struct MicroBatchRecord {
  std::string file;
  std::int32_t first_sample = 0;     // within the effective batch
  std::vector<std::string> pages{};  // "train.jsonl:17, page 'a12'"
};

struct StepRecord {
  StepScalars scalars;
  double loss = 0, gradient_norm = 0;  // as the step gave them
  bool padded = false;                 // --pad-to-max-length
  std::int64_t micro_batches_in_update = 1;
  std::vector<MicroBatchRecord> micro_batches;  // up to the one in which the fault was found
  std::optional<StepFault> fault;               // nothing: the fault did not occur again
  Choices choices;                              // of algorithms
};

// Returns the program of a step that runs its last micro-batch, or the others.
ProgramKind step_program(const Session& session, bool last);
// Sets a micro-batch's scalars.
void bind_scalars(const BatchBinding& binding, const StepScalars& scalars, bool first);

nlohmann::json to_json(const StepFault& fault);

inline constexpr const char* kRecordedModel = "model";

// Writes `directory`/step.json. The caller writes the batches and the model.
void write_step_record(const std::filesystem::path& directory, const StepRecord& record, const RunPlan& plan,
                       const ModelBundle& bundle);

struct Replay {
  StepRecord record;               // as written
  std::optional<StepFault> fault;  // as found now; nothing: every number is finite
  bool same = false;               // both are the same in every number
};
// Runs the step of a directory node by node. Throws DataError for a directory that is not a record or is incomplete.
Replay replay_step(const std::filesystem::path& directory, Backend& backend);

}  // namespace plimsoll
