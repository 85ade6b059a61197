// Runs that print no error and train nothing (doctor/untrained.h).
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> untrained_rules() {
  return {
      {.name = "updates-skipped",
       .level = Level::kConsequence,
       .when = {kUpdatesAreSkipped},
       .lasting = true,
       .refines = {"loss-scale-minimum", "loss-scale-skips", "nan-loss", "nan-diverged", "nan-overflow", "nan-at-start",
                   "scheduler-order"},
       .what = "nothing is trained: every update is skipped, for half precision overflows at the smallest loss scale",
       .cause =
           "The model does not fit half precision: activations or gradients go beyond 65504, as in models that were "
           "trained in bfloat16 (T5, Gemma), which no scaling of the loss changes\n"
           "The loss itself is NaN or infinite: NaN in the weights or the input, or a learning rate that made it "
           "diverge\n"
           "The loss is summed and not averaged, or its scale has a minimum that is too high (min_loss_scale)",
       .confirm = "one forward and backward in F32 on the same batch: finite?",
       .fix = "bf16=True instead of fp16=True (DeepSpeed: \"bf16\": {\"enabled\": true}), or F32\n"
              "a lower learning rate with warm-up, gradient clipping\n"
              "start again from weights that are finite: no update was made since the first skip",
       .command = "plimsoll train --bf16, or --fp16 --fp16-fallback"},
      {.name = "rate-zero",
       .level = Level::kConsequence,
       .when = {kRateIsZero},
       .lasting = true,
       .what = "nothing is trained: the learning rate is 0 on every line",
       .cause =
           "The schedule is at its end: a run that was resumed beyond its last step, num_training_steps that is too "
           "small, a schedule that is stepped once a batch and was made for epochs\n"
           "The warm-up never gets anywhere: more warm-up steps than steps, or warmup_max_lr of 0 in DeepSpeed's "
           "configuration\n"
           "The rate was set to 0, or the optimizer was never stepped, so that the schedule waits",
       .confirm =
           "optimizer.param_groups[0]['lr']; scheduler.get_last_lr() at the first steps; the number of steps that "
           "the schedule was made for",
       .fix = "make the schedule for the number of updates that are really made: len(loader) // accumulation * epochs\n"
              "a warm-up of a tenth of them at most; \"auto\" for the rates in DeepSpeed's configuration\n"
              "a learning rate above 0; when resuming, more epochs than the checkpoint already has",
       .command = "plimsoll train makes the schedule for its own number of updates"},
      {.name = "gradients-zero",
       .level = Level::kConsequence,
       .when = {kGradientsAreZero},
       .lasting = true,
       .what = "nothing is trained: the norm of the gradients is 0 on every line",
       .cause = "No label counts: all are -100 (a template or mask that hides the answers, texts cut before them)\n"
                "The loss does not depend on what trains: adapters that are not active, frozen layers, .detach() or "
                "no_grad() on the way, gradient checkpointing whose inputs need no gradients\n"
                "With rewards (GRPO, PPO) all answers of a group got the same one, so that no answer is better\n"
                "Gradients are zeroed between backward and the step, or lie in partitions that are not counted "
                "(DeepSpeed)",
       .confirm = "(labels != -100).sum() of a batch; [n for n, p in model.named_parameters() if p.requires_grad and "
                  "p.grad is not None and p.grad.abs().sum() > 0] after backward",
       .fix = "labels that count in every sample: decode one sample's input_ids where labels != -100\n"
              "model.enable_input_require_grads() with adapters and gradient checkpointing; "
              "model.print_trainable_parameters()\n"
              "rewards that differ within a group: more generations, a finer reward"},
      {.name = "loss-zero",
       .level = Level::kConsequence,
       .when = {kLossIsZero},
       .lasting = true,
       .what = "the loss is 0 from some line on: most likely NaN, in whose place the Trainer prints 0",
       .cause = "The loss is NaN or infinite, which the Trainer leaves out of its sum (logging_nan_inf_filter): fp16 "
                "overflowed, or the learning rate is too high\n"
                "No label counts: all are -100, so that the loss is 0 or 0 / 0\n"
                "The batch gives the answer away: the labels are part of the input, or all samples are one class",
       .confirm = "logging_nan_inf_filter=False shows what the loss is; (labels != -100).sum() of a batch",
       .fix = "bf16=True (or F32) instead of fp16=True; a lower learning rate with warm-up\n"
              "labels that count in every sample\n"
              "begin again from a checkpoint from before: the weights may be NaN since",
       .command = "plimsoll train --bf16 checks every step and stops at the first NaN (exit code 6)"},
  };
}

}  // namespace plimsoll::doctor
