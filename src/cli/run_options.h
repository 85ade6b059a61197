// The options that plan, train, eval and predict share, registered in groups.
#pragma once

#include <string>

#include "bundle/model_bundle.h"
#include "cli/batch_options.h"
#include "cli/devices.h"
#include "cli/outputs.h"
#include "cli/rank_options.h"
#include "request/labels.h"
#include "request/memory.h"
#include "request/reading.h"
#include "request/teacher.h"
#include "request/trained_parts.h"
#include "tasks/task.h"
#include "train/options.h"

namespace plimsoll {

struct PrecisionOptions {
  bool bf16 = false, fp16 = false;

  // Throws UsageError if both are asked for.
  DType resolve() const;
};
// Adds --bf16 and --fp16.
void add_precision_options(Command* command, PrecisionOptions& options);

struct RunOptions {
  ModelRequest model;
  DataRequest data;
  PagePaths eval_data;
  MemoryRequest memory;
  PartsRequest parts;
  TeacherRequest teacher;
  TrainOptions train;
  DeviceOptions device;

  // As typed, until `resolve` reads them.
  std::vector<std::string> data_files, eval_data_files, pages_files;
  std::string box_format = "pixel";
  std::string budget, host_budget;
  std::string scheduler = "linear", scheduler_arguments{};
  double warmup_steps = 0;
  std::string optimizer = "adamw_torch";
  std::vector<std::string> class_weights{};
  std::string logging_strategy = "steps", save_strategy = "steps", eval_strategy{};
  std::string sampling = "random";
  std::int64_t data_seed = -1;  // -1: not given
  bool drop_last = false;
  std::string greater_is_better{};
  std::vector<std::string> rates{};
  std::string events{};  // empty: none; "-": standard output
  std::string report_to = "none";
  std::filesystem::path logging_dir{};  // empty: tensorboard, in the output directory
  std::vector<std::string> freeze;
  std::string lora_targets, lora_excluded, lora_layers, saved_modules;
  std::vector<std::string> rank_patterns, alpha_patterns;
  std::string teacher_bits = "8";
  bool load_in_8bit = false, load_in_4bit = false, float_activations = false;
  PrecisionOptions precision;
  std::string fp16_fallback = "none";
  std::string on_nonfinite = "stop";
  std::string on_bad_page = "skip";
  bool no_decode_images = false;
  BatchOptions batch;
  RankRequest ranks;
  bool trains = false;  // the command has options of a batch to train on
  bool runs = false;    // the command computes, perhaps as one of several processes
  std::string resume_from_checkpoint;
  bool overwrite_output_dir = false;
  bool pad_to_max_length = false;
  std::string update_mode = "auto";
  std::string recompute = "auto";
  std::string grad_cache = "auto";
  std::string offload;
  bool gradient_checkpointing = false;
  bool augment = false;

  const Command* command = nullptr;  // the command that parsed them, if it trains or plans

  // Returns whether an option was typed, or is in the config file.
  bool given(const std::string& option) const { return command != nullptr && command->count(option) > 0; }
  // Turns the typed texts into values, and refuses those that contradict each other; throws UsageError.
  void resolve();
  // Sets how many processes share an update, and so its pages.
  void set_ranks(int size);
  // Does the same as resolve, only for the options of what trains.
  void resolve_parts();
  // Returns the precision in which a run in fp16 continues if no loss scale works; nothing: it ends.
  std::optional<DType> fallback_precision() const;
  // Returns every path that the command reads, with the option that named it.
  std::vector<NamedPath> inputs() const;
  bool reports_to_tensorboard() const;
  std::filesystem::path logging_directory() const;
  // Resolves --pad-to-max-length, once the model is known.
  void resolve_padding(const EncoderFacts& facts);

 private:
  void resolve_data();
  void resolve_strategies();  // when the run logs, evaluates and saves
  void resolve_reports();     // what the run reports to besides the terminal
  void resolve_memory();
  void resolve_training();
};

// Opens the device that a run computes on, connected with those of the other ranks, and sets the budgets that depend on
// it.
Device open_run_device(const Invocation& invocation, RunOptions& options);
// Does the same if the device is already open.
void resolve_on_device(RunOptions& options, Backend& backend);

// Refuses the directory of an interrupted run, which has only checkpoints.
void refuse_unfinished_run(const std::string& model);

// Opens the model of a command that only evaluates; refuses it unless all its weights are present and fit.
ModelBundle open_evaluated_model(const RunOptions& options);
// Reports windows that are shorter or longer than those of the run that trained the model, unless an option sets their
// length; results then differ. `does` is what the command does, "evaluates".
void tell_trained_windows(const RunOptions& options, const ModelBundle& bundle, const char* does);

// Each begins its own heading in --help. `presets` is false if a model without trained weights makes no sense.
void add_model_options(Command* command, RunOptions& options, bool presets = true);
// Adds --task and --problem-type.
void add_task_options(Command* command, std::string& task, std::string& problem_type);
void add_label_option(Command* command, RunOptions& options);
void add_data_options(Command* command, RunOptions& options);
// Adds only those that say how pages are read and cut, without the pages themselves.
void add_reading_options(Command* command, RunOptions& options);
void add_evaluation_data_option(Command* command, RunOptions& options, const std::string& description);
void add_memory_options(Command* command, RunOptions& options);
// Adds how many pages a command that only evaluates processes at once: 8 by default.
void add_evaluation_size_option(Command* command, RunOptions& options);
// Adds --bf16, --load-in-8bit and --load-in-4bit for such a command, whose weights are all frozen.
void add_quantization_options(Command* command, RunOptions& options);
// Returns the type that frozen weights are held in; F32: unchanged. Throws UsageError if both are requested.
DType coded_weights(const RunOptions& options);
// Adds the options for what predicted lines have besides what was found.
void add_prediction_options(Command* command, PredictionOptions& options);
void add_batch_options(Command* command, RunOptions& options);
void add_offload_option(Command* command, RunOptions& options);
// Does the same for weights that do not train.
void add_weights_offload_option(Command* command, RunOptions& options);
void add_training_options(Command* command, RunOptions& options);
// Adds those that say how to learn, but not how long or on what.
void add_learning_options(Command* command, RunOptions& options);
// Adds when a training run logs, evaluates and saves, and what it does about failures.
void add_log_options(Command* command, RunOptions& options);
// Adds what a training run does about pages that cannot be read.
void add_bad_page_options(Command* command, RunOptions& options);
// Adds --freeze and low-rank adapters.
void add_parts_options(Command* command, RunOptions& options);
// Adds only those that change how long a step takes.
void add_bench_parts_options(Command* command, RunOptions& options);
// Adds --distil-from and its losses.
void add_distillation_options(Command* command, RunOptions& options);
// Adds only the losses.
void add_distillation_loss_options(Command* command, RunOptions& options);
// Opens the teacher, once the labels are known. Throws like open_teacher.
void take_teacher(RunOptions& options, const ModelBundle& bundle);
// Adds all options of a training run, for `train` and `plan`.
void add_train_options(Command* command, RunOptions& options);

}  // namespace plimsoll
