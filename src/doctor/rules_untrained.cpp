// Runs that print no error and train nothing (doctor/untrained.h), or diverge (doctor/diverged.h).
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

// Peft, Lightning, the Trainer and scripts print these if everything is frozen.
const std::vector<AnyOf> kNothingTrains = {
    {"trainable params: 0 ", "trainable params: 0$", "trainable params: 0,", "trainable params: 0/", "trainable%: 0.0$",
     "trainable%: 0$", "trainable%: 0.0000$", "trainable parameters: 0$", "trainable parameters: 0 ",
     "trainable parameters: 0/", "trainable parameters = 0$", "trainable parameters = 0 ", "trainable parameters = 0/",
     "^0 *trainable params$", "no trainable parameters", "no parameters require grad", "all parameters are frozen",
     "0 trainable parameters$", "has no parameters that require"}};

}  // namespace

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
      {.name = "gradients-unlinked",
       .level = Level::kConsequence,
       .when = {kGradientsAreZero},
       .anywhere = {{"none of the inputs have requires_grad", "gradients will be none"}},
       .lasting = true,
       .refines = {"gradients-zero", "checkpoint-frozen-input"},
       .what =
           "nothing is trained: the norm of the gradients is 0, for gradient checkpointing gets inputs that need no "
           "gradients",
       .cause = "The log says so: reentrant gradient checkpointing passes no gradients on if none of a block's inputs "
                "needs them, and with adapters or a frozen base model the embeddings' output needs none\n"
                "Everything in the blocks that are checkpointed is frozen\n"
                "Forward runs under torch.no_grad(), or detaches its output",
       .confirm = "[n for n, p in model.named_parameters() if p.requires_grad and p.grad is None] after backward; the "
                  "same steps without gradient checkpointing: the norm is not 0",
       .fix = "gradient_checkpointing_kwargs={'use_reentrant': False}\n"
              "model.enable_input_require_grads() before the adapters are added\n"
              "gradient_checkpointing=False, where memory allows",
       .command = "plimsoll train --lora-rank 8 or --freeze PATTERN recomputes correctly"},
      {.name = "gradients-frozen",
       .level = Level::kConsequence,
       .when = {kGradientsAreZero},
       .anywhere = kNothingTrains,
       .lasting = true,
       .refines = {"gradients-zero"},
       .what = "nothing is trained: no parameter is trainable",
       .cause =
           "The log says so: every parameter is frozen (requires_grad=False)\n"
           "Adapters were loaded for inference: PeftModel.from_pretrained without is_trainable=True\n"
           "Code that freezes the base model also freezes the head or the adapters, because their names match or it "
           "runs after they were added",
       .confirm = "sum(p.numel() for p in model.parameters() if p.requires_grad); model.print_trainable_parameters()",
       .fix = "PeftModel.from_pretrained(model, DIR, is_trainable=True), or get_peft_model(model, config)\n"
              "freeze before the head and the adapters are added, or by their exact names\n"
              "requires_grad_(True) on what shall train, before the optimizer is made",
       .command = "plimsoll train --freeze PATTERN says how many parameters train"},
      {.name = "gradients-unlabelled",
       .level = Level::kConsequence,
       .when = {kGradientsAreZero, kLossIsZero},
       .anywhere = {{"could not find response key", "could not find instruction key", "all labels are -100",
                     "labels are all -100", "no valid labels", "all -100"}},
       .lasting = true,
       .refines = {"gradients-zero", "loss-zero"},
       .what = "nothing is trained: according to the log no label counts",
       .cause = "The log says so: all labels of the samples are -100, which the loss leaves out\n"
                "The answer's template is tokenized otherwise in its context than alone, or is another one than the "
                "data's\n"
                "The texts are cut before the answer begins",
       .confirm = "(labels != -100).sum() of each sample; tokenizer.decode of one sample's input_ids",
       .fix = "the template that the data has, as ids taken from its context\n"
              "a larger max_length, or leave long prompts out\n"
              "labels for one token of each word at least"},
      {.name = "loss-diverged",
       .level = Level::kConsequence,
       .when = {kLossDiverges},
       .lasting = true,
       .what = "training diverged: the loss rose far above where it began, and did not come down again",
       .cause = "The learning rate is too high, there is no warm-up, or gradients are not clipped\n"
                "fp16: gradients or the optimizer's second moments lose their small values; or the scale of the loss "
                "is not removed before gradients are clipped\n"
                "Labels or inputs are wrong where the rise begins: outliers, targets that are not normalised\n"
                "The optimizer's state does not belong to the weights: it was resumed from another run, or its "
                "learning rate was set anew",
       .confirm = "the same steps with a tenth of the learning rate: the loss falls",
       .fix = "a tenth of the learning rate (1e-5 to 5e-5 where a transformer is fine-tuned), warmup_ratio=0.1\n"
              "max_grad_norm=1\n"
              "bf16=True (or F32) instead of fp16=True\n"
              "go back to a checkpoint from before the rise, and look at the batches where it begins",
       .command = "plimsoll train warms up, clips gradients, and stops at the first loss that is not finite"},
  };
}

}  // namespace plimsoll::doctor
