// Checkpoints: DIR/checkpoint-N holds a whole model directory, the optimizer's state, the run's position, and a
// checksum of each of these files, which are compared when it is loaded. A checkpoint is written in DIR/.plimsoll
// (base/work_folder.h) and appears by one rename, so a directory with its name is always complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"
#include "fit/choices.h"
#include "train/grad_scaler.h"
#include "train/learning_rate.h"
#include "train/skipped_pages.h"

namespace plimsoll {

// A run's position, and what its numbers depend on besides weights and optimizer state.
struct TrainerState {
  std::int64_t step = 0;  // updates done
  std::int64_t total_steps = 0;
  // The numeric key: a run continues bit for bit only if these are the same.
  std::uint64_t seed = 0;
  std::int64_t train_batch_size = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t chunk_samples = 0;  // with GradCache
  int ranks = 1;
  std::string gradient_sync{};  // with several ranks and micro-batches: "update" or "micro-batch"
  std::int64_t examples = 0;    // windows of the training data
  std::int64_t max_length = 0;
  std::string device;                     // "cpu" or "cuda"; empty in old checkpoints
  int threads = 0;                        // of the CPU
  std::string optimizer = "adamw_torch";  // --optim; the only one when checkpoints did not record it
  std::string data;                       // fingerprint of the training windows; empty in old checkpoints
  // Fingerprints of the windows' content (token ids and boxes, labels, the picture files' sizes), and of the weights
  // that an adapter belongs to. Empty in older checkpoints.
  std::string tokens, labels, images, base;
  std::string options;       // learning rate and its options, decay, clipping, as text; empty in old checkpoints
  GradScaler::State scaler;  // of --fp16; its initial state with other precisions
  // Losses summed since the last line of metrics.jsonl, so that the next line is the same after a resume.
  double interval_loss = 0;
  std::int64_t interval_steps = 0;
  // The best evaluation so far.
  std::optional<double> best_metric;
  std::int64_t best_step = 0;
  std::string judged_by{};                    // the metric and the evaluation data; empty in old checkpoints
  std::optional<bool> greater_is_better{};    // as the option said; nothing: the metric's own direction
  std::int64_t evaluations_without_gain = 0;  // in a row, as early stopping counts them
  std::optional<AdaptedRate> adapted_rate;    // of a schedule that adapts to evaluations
  bool evaluation_due = false;                // for this step: a signal came before it had ended
  bool only_model = false;                    // the checkpoint has no optimizer state to continue with
  std::vector<SkippedPage> skipped_pages;     // in the order in which they were found
  Choices choices;  // of algorithms on a device; none in old checkpoints and in runs on the CPU
};

// Optimizer states by name ("<parameter>.exp_avg"), wherever they live. `read` passes a state's bytes in order, in one
// piece or in many; `fill` has them filled in the same way.
struct StateAccess {
  std::function<TensorType(const std::string& name)> type;
  std::function<void(const std::string& name, const std::function<void(std::span<const std::byte>)>&)> read;
  std::function<void(const std::string& name, const std::function<void(std::span<std::byte>)>&)> fill;
  // Called when all parameters are saved, before the first state is read.
  std::function<void()> begin{};
  // With ranks that share a state: returns the element of the whole with which `fill` begins. Empty: the first.
  std::function<std::uint64_t(const std::string& name)> first{};
  // Returns the slots of a parameter's moments (train/moment_rows.h); none: every row has moments. Empty: no parameter
  // has slots.
  std::function<std::vector<std::int32_t>(const std::string& parameter)> slots{};
};

// Writes output_dir/checkpoint-<state.step> and returns its path. Throws EnvironmentError (disk full, …), leaving
// earlier files untouched. `original` is as in save_model.
std::filesystem::path save_checkpoint(const std::filesystem::path& output_dir, const TrainerState& state,
                                      const ModelBundle& bundle, const ParameterSource& original,
                                      const ParameterMemory& parameters, const std::vector<std::string>& state_names,
                                      const StateAccess& states);

// Removes the oldest checkpoints beyond `limit` (0: none is removed), but never that of `keep_step`.
void rotate_checkpoints(const std::filesystem::path& output_dir, std::int64_t limit, std::int64_t keep_step);
// Removes half-written checkpoints of a killed run from the work folder.
void remove_torn_checkpoints(const std::filesystem::path& output_dir);

// Returns the steps of the checkpoints in output_dir, ascending.
std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& output_dir);
std::filesystem::path checkpoint_path(const std::filesystem::path& output_dir, std::int64_t step);

// Throws DataError for a missing, torn or damaged trainer_state.json, or for values in it that make no sense.
TrainerState read_trainer_state(const std::filesystem::path& checkpoint);
// Returns which of a table's rows have moments other than 0 in the checkpoint, ascending; nothing if it has no moments
// of the table, or its file cannot be read, which load_checkpoint then says.
std::optional<std::vector<std::int32_t>> rows_with_moments(const std::filesystem::path& checkpoint,
                                                           const std::string& table, std::int64_t rows);
// Compares all the checkpoint's files with their checksums, then fills parameters and states from them. Throws
// DataError if one is damaged, or does not fit the model.
void load_checkpoint(const std::filesystem::path& checkpoint, const ModelBundle& bundle,
                     const ParameterMemory& parameters, const std::vector<std::string>& state_names,
                     const StateAccess& states);
// Does the same for the parameters alone, for the best model at the end.
void load_checkpoint_parameters(const std::filesystem::path& checkpoint, const ModelBundle& bundle,
                                const ParameterMemory& parameters);

}  // namespace plimsoll
