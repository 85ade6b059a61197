#include "cli/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/usage.h"
#include "tasks/tasks.h"

namespace plimsoll {
namespace {

void add_files_option(Command* command, RunOptions& o) {
  command
      ->add_option("--data", o.data_files,
                   "Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as "
                   "the task requires), or a folder with annotations/ and images/ "
                   "(FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one")
      ->type_name("FILE")
      ->required();
  command
      ->add_option(
          "--pages", o.pages_files,
          "For tasks that read pairs: the pages that the pairs of --data and --eval-data name by their ids (a, "
          "b); without it, pairs contain their pages")
      ->type_name("FILE");
}

}  // namespace

void add_model_options(Command* command, RunOptions& o, bool presets) {
  command->heading("Model");
  command
      ->add_option("--model", o.model.model,
                   presets ? fmt::format("Hugging Face model directory, or a preset, which has random weights: {}",
                                         fmt::join(preset_names(), ", "))
                           : "Hugging Face model directory, or train's --output-dir or a checkpoint-N in it")
      ->type_name("MODEL")
      ->required();
  command->add_option("--tokenizer", o.model.tokenizer, "tokenizer.json or its directory, instead of the model's own")
      ->type_name("PATH");
  command
      ->add_option(
          "--base-model", o.model.base_model,
          "Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)")
      ->type_name("DIR");
}

void add_task_options(Command* command, std::string& task, std::string& problem_type) {
  command
      ->add_option("--task", task,
                   fmt::format("Task to train for: {} (default: the task that the model was trained for; for a "
                               "preset token-classification, or causal-lm if it is a decoder). A task other than the "
                               "model's gives it a new head",
                               fmt::join(task_names(), ", ")))
      ->type_name("TASK");
  one_of(command->add_option(
             "--problem-type", problem_type,
             "What sequence-classification predicts: single_label_classification (one name per page), "
             "multi_label_classification (a list), regression (a number); default: inferred from the data"),
         {"single_label_classification", "multi_label_classification", "regression"})
      ->type_name("TYPE");
}

void add_label_option(Command* command, RunOptions& o) {
  add_task_options(command, o.model.task, o.model.problem_type);
  command
      ->add_option("--labels", o.model.labels,
                   "Label names in order, separated by commas or in a file (default: the model's, else the data's). "
                   "Names other than the model's give it a new head")
      ->type_name("NAMES");
}

void add_data_options(Command* command, RunOptions& o) {
  command->heading("Data");
  add_files_option(command, o);
  add_reading_options(command, o);
}

void add_reading_options(Command* command, RunOptions& o) {
  command->heading("Data");
  command
      ->add_option("--box-format", o.box_format,
                   "Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge)")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_flag("--segment-boxes", o.data.segment_boxes,
                    "FUNSD: each word gets the box of its entity, as in published results");
  whole_number(
      command->add_option("--max-length", o.data.max_length,
                          "Text tokens per window, special tokens included (0: the model's limit, at most 512)"),
      0, 65535)
      ->capture_default_str();
  whole_number(command->add_option(
                   "--stride", o.data.stride,
                   "Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128)"),
               -1, 65535)
      ->capture_default_str();
  command->add_flag("--truncate", o.data.truncate, "Truncate long pages instead of splitting them into windows");
  command
      ->add_option("--cache", o.data.cache,
                   "Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for "
                   "later epochs and runs; rebuilt when data, tokenizer or options change")
      ->type_name("DIR");
}

void add_evaluation_data_option(Command* command, RunOptions& o, const std::string& description) {
  command->add_option("--eval-data", o.eval_data_files, description)->type_name("FILE");
}

void add_memory_options(Command* command, RunOptions& o) {
  command->heading("Memory");
  add_device_option(command, o.device);
  command
      ->add_option("--budget", o.budget,
                   "Memory limit for the whole process, or for the GPU with --device cuda: 3GiB (of 1024^3 bytes, as "
                   "3g), 3GB (of 1000^3), 900MiB (default: 95 % of the free memory)")
      ->type_name("SIZE");
  command
      ->add_option("--host-budget", o.host_budget,
                   "With --device cuda: limit for the machine's own memory (default: 95 % of the free memory)")
      ->type_name("SIZE");
  whole_number(command->add_option("--dataloader-num-workers", o.memory.loader_workers,
                                   "Threads that load pages in the background (-1: chosen by the number of cores)"),
               -1, kMaxWorkers)
      ->capture_default_str();
}

void add_evaluation_size_option(Command* command, RunOptions& o) {
  o.train.train_batch_size = 0;
  whole_number(command->add_option("--per-device-eval-batch-size", o.train.train_batch_size,
                                   "Maximum number of pages processed at once (0: 8 on a GPU; 2 on a CPU, which is no "
                                   "faster with more)"),
               0, 1 << 16)
      ->capture_default_str();
}

void add_prediction_options(Command* command, PredictionOptions& options) {
  command->add_flag("--return-all-scores", options.all_scores,
                    "Also write the probability of every label for each word: `scores`, in the order of `label_names`");
}

void add_batch_options(Command* command, RunOptions& o) {
  o.trains = true;
  command->heading("Batch");
  add_batch_size_options(command, o.batch);
  command->add_flag(
      "--pad-to-max-length", o.pad_to_max_length,
      "Pad every page to --max-length, as many training scripts do: slower, more memory, the same results, but for "
      "the training loss of question-answering, whose softmax counts padding as transformers' does");
  command->heading("Memory and speed");
  one_of(command->add_option("--recompute", o.recompute,
                             "Activations recomputed in backward: auto (as many as the budget requires), none, or "
                             "layers (all but each layer's output)"),
         {"auto", "none", "layers"})
      ->type_name("WHICH")
      ->capture_default_str();
  one_of(command->add_option("--grad-cache", o.grad_cache,
                             "For pairs: embed the pages of an update first, then go backward page by page, so that an "
                             "update of any size fits (GradCache): auto (if it does not fit otherwise), on or off"),
         {"auto", "on", "off"})
      ->type_name("WHICH")
      ->capture_default_str();
  command->add_flag("--gradient-checkpointing", o.gradient_checkpointing, "The same as --recompute layers");
  one_of(command->add_option("--update-mode", o.update_mode,
                             "When parameters are updated: after-backward, in-backward (needs --max-grad-norm 0), "
                             "head-in-parts (the same, and a vocabulary's head part by part), two-passes (backward "
                             "runs twice), or auto"),
         {"auto", "after-backward", "in-backward", "head-in-parts", "two-passes"})
      ->type_name("WHEN")
      ->capture_default_str();
}

void add_weights_offload_option(Command* command, RunOptions& o) {
  command
      ->add_option(
          "--offload", o.offload,
          "Keep weights in a temporary file in this directory, from which each layer's are read before they are "
          "used, if the budget requires it: slower, results do not change. With --device cuda they move to the "
          "machine's memory instead, up to --host-budget, even without this option; none forbids it")
      ->type_name("DIR");
}

void add_offload_option(Command* command, RunOptions& o) {
  command->heading("Memory and speed");
  command
      ->add_option("--offload", o.offload,
                   "Keep optimizer state, activations and weights in a temporary file in this directory if the budget "
                   "requires it: gigabytes move per update, results do not change. With --device cuda they move to the "
                   "machine's memory instead, up to --host-budget, even without this option; none forbids it")
      ->type_name("DIR");
}

void add_precision_options(Command* command, PrecisionOptions& options) {
  command->add_flag("--bf16", options.bf16, "Activations in bfloat16; weights keep full F32 precision");
  command->add_flag("--fp16", options.fp16, "Activations in half precision, with loss scaling");
}

}  // namespace plimsoll
