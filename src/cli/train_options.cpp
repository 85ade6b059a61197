// The options of a training run: what `train` and `plan` take besides those of every command that reads a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "cli/run_options.h"
#include "cli/usage.h"
#include "tasks/tasks.h"

namespace plimsoll {
namespace {

constexpr double kBelowOne = 1 - 1e-9;

// Returns the metrics of every task, each also as "eval_…".
std::vector<std::string> metric_names() {
  std::set<std::string> names = {"loss"};
  for (const Task* task : all_tasks()) {
    for (const char* problem : {"", "regression"}) {
      for (const std::string& name : task->deciding_metrics({.problem_type = problem})) names.insert(name);
    }
  }
  std::vector<std::string> all(names.begin(), names.end());
  for (const std::string& name : names) all.push_back("eval_" + name);
  return all;
}

// Returns "token-classification: f1, precision, recall; …".
std::string metrics_by_task() {
  std::string text;
  for (const Task* task : all_tasks()) {
    std::vector<std::string> metrics = task->deciding_metrics({}),
                             of_numbers = task->deciding_metrics({.problem_type = "regression"});
    for (std::vector<std::string>* each : {&metrics, &of_numbers}) std::erase(*each, "loss");
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", task->name(), fmt::join(metrics, ", "));
    if (metrics != of_numbers) text += fmt::format(", or {}", fmt::join(of_numbers, ", "));
  }
  return text;
}

void strategy(Option* option, std::vector<std::string> names) {
  one_of(option, std::move(names))->type_name("WHEN")->capture_default_str();
}

}  // namespace

void add_log_options(Command* command, RunOptions& o) {
  TrainOptions& t = o.train;
  command->heading("Checkpoints, evaluation, logs");
  strategy(command->add_option("--logging-strategy", o.logging_strategy,
                               "When to log: steps (every --logging-steps), epoch, or no (once, at the end)"),
           {"no", "steps", "epoch"});
  number(command->add_option("--logging-steps", t.logging_steps,
                             "Log every N updates, with their mean loss (0: once, at the end; below 1: a fraction of "
                             "all updates)"),
         0)
      ->capture_default_str();
  command->add_flag("--logging-first-step", t.logging_first_step, "Log the first update too");
  strategy(
      command->add_option("--save-strategy", o.save_strategy,
                          "When to save a checkpoint: steps (every --save-steps), epoch, best (after an evaluation "
                          "that is the best so far), or no"),
      {"no", "steps", "epoch", "best"});
  number(command->add_option("--save-steps", t.save_steps,
                             "Save a checkpoint every N updates (0: none; below 1: a fraction of all updates)"),
         0)
      ->capture_default_str();
  command->add_flag("--save-only-model", t.save_only_model,
                    "Save checkpoints without the optimizer's state: smaller, but a run cannot be resumed from them. A "
                    "checkpoint saved on a signal is complete all the same");
  whole_number(
      command->add_option("--save-total-limit", t.save_total_limit, "Keep at most this many checkpoints (0: all)"), 0)
      ->capture_default_str();
  strategy(command->add_option("--eval-strategy", o.eval_strategy,
                               "When to evaluate: steps (every --eval-steps), epoch, or no (default: steps with "
                               "--eval-steps, else epoch)"),
           {"no", "steps", "epoch"});
  number(command->add_option("--eval-steps", t.eval_steps,
                             "Evaluate every N updates (0: after each epoch; with --eval-strategy steps as "
                             "--logging-steps; below 1: a fraction of all updates)"),
         0)
      ->capture_default_str();
  number(command->add_option("--eval-delay", t.eval_delay,
                             "No evaluation before this many updates, or epochs with --eval-strategy epoch"),
         0)
      ->capture_default_str();
  command->add_flag("--eval-on-start", t.eval_on_start, "Evaluate before the first update too");
  whole_number(command->add_option("--early-stopping-patience", t.early_stopping_patience,
                                   "End the run after N evaluations in a row without a better metric (0: never)"),
               0)
      ->capture_default_str();
  number(command->add_option("--early-stopping-threshold", t.early_stopping_threshold,
                             "How much better the metric must be to count as better, for --early-stopping-patience"),
         0)
      ->capture_default_str();
  command
      ->add_option("--greater-is-better", o.greater_is_better,
                   "True or False: whether a larger --metric-for-best-model is better (default: as for that metric)")
      ->type_name("BOOL");
  command
      ->add_option("--events", o.events,
                   "Write events to this file, one JSON object per line (docs/json.md); - for standard output, as "
                   "--json does")
      ->type_name("FILE");
  command
      ->add_option("--report-to", o.report_to,
                   "tensorboard (event files in --logging-dir) and jsonl (events.jsonl in --output-dir), separated by "
                   "commas; all; or none")
      ->type_name("LIST")
      ->capture_default_str();
  command
      ->add_option("--logging-dir", o.logging_dir,
                   "Directory of TensorBoard's event files (default: tensorboard, in --output-dir)")
      ->type_name("DIR");
  command->add_flag("--load-best-model-at-end", t.load_best_model_at_end,
                    "Save the model of the best evaluation, not of the last update");
  one_of(command->add_option("--metric-for-best-model", t.metric_for_best_model,
                             fmt::format("The metric that decides which model is best: loss, or one of the task's ({}; "
                                         "default: the first)",
                                         metrics_by_task())),
         metric_names())
      ->type_name("NAME");
  command
      ->add_option("--resume-from-checkpoint", o.resume_from_checkpoint,
                   "latest (or True), or a checkpoint-N directory: continue bit for bit; latest with no checkpoint "
                   "starts from the beginning")
      ->type_name("WHICH");
  command->heading("NaN and infinities");
  one_of(command->add_option("--on-nonfinite", o.on_nonfinite,
                             "When loss or gradients are NaN or infinite: stop the run, or skip the update"),
         {"stop", "skip"})
      ->type_name("WHAT")
      ->capture_default_str();
  command->add_flag(
      "--detect-anomaly", t.detect_anomaly,
      "Check every op's output for NaN and infinities, and every index before it is used; slow, for debugging");
  add_bad_page_options(command, o);
  command->heading("Checkpoints, evaluation, logs");
  command->add_flag("--log-order", t.log_order,
                    "Write order.jsonl: the pages and windows (and questions) of every update");
}

void add_training_options(Command* command, RunOptions& o) {
  TrainOptions& t = o.train;
  command->heading("Training");
  add_evaluation_data_option(command, o, "Pages for evaluation during training, in the format of --data");
  add_label_option(command, o);
  number(command->add_option("--num-train-epochs", t.num_train_epochs, "Number of passes over the data"), 0, 1e6, true)
      ->capture_default_str();
  whole_number(command->add_option("--seed", t.seed, "Random seed of new weights, page order, dropout and --augment"),
               0)
      ->capture_default_str();
  add_learning_options(command, o);
}

void add_learning_options(Command* command, RunOptions& o) {
  TrainOptions& t = o.train;
  command->heading("Training");
  number(command->add_option("--learning-rate", t.learning_rate, "Peak learning rate"), 0)->capture_default_str();
  number(command->add_option("--layerwise-lr-decay", t.rates.layer_decay,
                             "The learning rate of each encoder layer is that of the layer after it times this factor; "
                             "the head, and a norm after the last layer, have the full rate"),
         0, 1, true)
      ->capture_default_str();
  command
      ->add_option("--lr-pattern", o.rates,
                   "Peak learning rates of single parameters, PATTERN=RATE with patterns as in --freeze: "
                   "'classifier.*=1e-3'. May be given several times, or as a list with commas; the last that matches "
                   "counts")
      ->type_name("RATES")
      ->repeatable();
  whole_number(
      command->add_option("--max-steps", t.max_steps, "Number of updates; above 0 it overrides --num-train-epochs"), -1,
      1'000'000'000)
      ->capture_default_str();
  number(command->add_option("--warmup-ratio", t.warmup_ratio, "Fraction of updates used for warm-up"), 0, 1)
      ->capture_default_str();
  number(command->add_option(
             "--warmup-steps", o.warmup_steps,
             "Updates used for warm-up, or below 1 a fraction of all updates; above 0 it overrides --warmup-ratio"),
         0, 1e9)
      ->capture_default_str();
  add_precision_options(command, o.precision);
  one_of(command->add_option("--fp16-fallback", o.fp16_fallback,
                             "Precision to continue in if no loss scale works for --fp16: none, bf16 or fp32"),
         {"none", "bf16", "fp32"})
      ->type_name("NAME")
      ->capture_default_str();
  one_of(command->add_option("--optim", o.optimizer,
                             "adamw_torch; adamw_8bit (moments in 8 bits); or adafactor (almost no optimizer state)"),
         {"adamw_torch", "adamw_8bit", "adafactor"})
      // Names of implementations, for the same optimizers.
      ->transform([](const std::string& name) -> std::string {
        for (const char* same : {"adamw_torch_fused", "paged_adamw_32bit", "paged_adamw"}) {
          if (name == same) return "adamw_torch";
        }
        return name == "adamw_bnb_8bit" || name == "paged_adamw_8bit" ? "adamw_8bit" : name;
      })
      ->type_name("NAME")
      ->capture_default_str();
  number(command->add_option("--weight-decay", t.weight_decay, "Weight decay, not applied to biases and layer norms"),
         0)
      ->capture_default_str();
  number(command->add_option("--label-smoothing-factor", o.model.loss.label_smoothing,
                             "Fraction of a label's weight that is spread over all labels"),
         0, kBelowOne)
      ->capture_default_str();
  number(command->add_option("--focal-gamma", o.model.loss.focal_gamma,
                             "Focal loss: where the model gives the label the probability p, the loss weighs (1 - "
                             "p)^gamma, so that easy words and pages count less (0: all weigh the same)"),
         0, 20)
      ->capture_default_str();
  number(command->add_option("--temperature", o.model.loss.temperature,
                             "pair-similarity: cosine similarities are divided by this in the loss; the lower it is, "
                             "the more the hardest pages count"),
         0.01, 10)
      ->capture_default_str();
  command
      ->add_option("--class-weights", o.class_weights,
                   "Weights of labels in the loss: balanced (the rarer in --data, the more), or NAME=WEIGHT, separated "
                   "by commas, or a JSON object; the others weigh 1. The loss is divided by the sum of the weights, as "
                   "torch.nn.CrossEntropyLoss does. May be given several times")
      ->type_name("WEIGHTS")
      ->repeatable();
  number(command->add_option("--max-grad-norm", t.max_grad_norm, "Clip gradients to this global norm (0: no clipping)"),
         0)
      ->capture_default_str();
  one_of(command->add_option("--lr-scheduler-type", o.scheduler,
                             fmt::format("{}, as in transformers", fmt::join(schedule_names(), ", "))),
         schedule_names())
      ->type_name("TYPE")
      ->capture_default_str();
  command
      ->add_option("--lr-scheduler-kwargs", o.scheduler_arguments,
                   R"(The schedule's arguments by their names in transformers: '{"num_cycles": 2}')")
      ->type_name("JSON");
  command->add_flag("--augment", o.augment,
                    "Change each training page at random in each epoch: rotation, scale, crop, brightness, blur; boxes "
                    "move along. Training images are then not cached");
  number(command->add_option("--adam-beta1", t.adam_beta1, "Decay of AdamW's first moments"), 0, kBelowOne)
      ->capture_default_str();
  number(command->add_option("--adam-beta2", t.adam_beta2, "Decay of AdamW's second moments"), 0, kBelowOne)
      ->capture_default_str();
  number(command->add_option("--adam-epsilon", t.adam_epsilon, "AdamW's epsilon, added to the root of second moments"),
         0)
      ->capture_default_str();
  whole_number(command->add_option("--data-seed", o.data_seed, "Random seed of the page order (-1: --seed)"), -1)
      ->capture_default_str();
  one_of(command->add_option("--train-sampling-strategy", o.sampling,
                             "Order of pages: random, sequential (as in the data), or group_by_length (random groups, "
                             "sorted by length)"),
         {"random", "sequential", "group_by_length"})
      ->type_name("ORDER")
      ->capture_default_str();
  command->add_flag("--dataloader-drop-last", o.drop_last,
                    "Leave out the last pages of an epoch if they do not fill a --per-device-train-batch-size");
}

void add_bad_page_options(Command* command, RunOptions& o) {
  command->heading("Pages that cannot be read");
  command->add_flag(
      "--no-decode-images", o.no_decode_images,
      "Skip decoding every page's image before the first update: the run starts sooner, and finds broken images later");
  one_of(command->add_option("--on-bad-page", o.on_bad_page,
                             "If a page becomes unreadable during the run: skip it from then on and name it, or stop "
                             "(save, and end with exit code 3)"),
         {"skip", "stop"})
      ->type_name("WHAT")
      ->capture_default_str();
}

void add_train_options(Command* command, RunOptions& o) {
  o.command = command;
  add_model_options(command, o);
  add_data_options(command, o);
  command->heading("Output");
  command
      ->add_option("--output-dir", o.train.output_dir,
                   "Checkpoints (checkpoint-N), the final model, metrics.jsonl, plan.json, summary.json, args.json")
      ->type_name("DIR");
  command->add_flag(
      "--overwrite-output-dir", o.overwrite_output_dir,
      "If --output-dir holds a finished run, move it to earlier-N in it and start a new run (default: refuse)");
  add_memory_options(command, o);
  add_batch_options(command, o);
  add_offload_option(command, o);
  add_rank_options(command, o.ranks);
  add_training_options(command, o);
  add_parts_options(command, o);
  add_distillation_options(command, o);
  add_log_options(command, o);
}

}  // namespace plimsoll
