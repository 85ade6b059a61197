// Models, checkpoints, compilation; and Plimsoll's own refusals.
#include "doctor/rule.h"

namespace plimsoll::doctor {

std::vector<Rule> model_rules() {
  return {
      {.name = "shared-tensors",
       .when = {"some tensors share memory", "trying to save a non contiguous tensor",
                "were not properly saved*shared tensors"},
       .what = "safetensors does not save tensors that share memory",
       .cause = "Tied weights (embedding and output) or views were passed as a plain dictionary",
       .confirm = "the message names the tensors",
       .fix = "model.save_pretrained, or safetensors.torch.save_model(model, path); .contiguous().clone() for views"},
      {.name = "resume-mismatch",
       .when = {"parameter group that doesn't match the size of optimizer's group",
                "different number of parameter groups", "the checkpoint's optimizer state does not fit",
                "the checkpoint holds the state of another optimizer"},
       .refines = {"plimsoll-error"},
       .what = "the checkpoint's optimizer state is of another set of parameters",
       .cause = "Layers were frozen, added or split into other groups since, or another optimizer is used",
       .confirm = "compare the count of trained parameters now and then",
       .fix =
           "the same options as the run that wrote it; or begin afresh from its weights, without the optimizer's state",
       .command = "plimsoll train --resume-from-checkpoint checks this before the first step"},
      {.name = "no-checkpoint",
       .when = {"can't find a valid checkpoint at", "no valid checkpoint found in output directory"},
       .what = "there is no checkpoint to resume from",
       .cause = "The directory is another one, or saving never came about",
       .confirm = "ls OUTPUT/checkpoint-*",
       .fix = "name the checkpoint's own directory; start without resume_from_checkpoint"},
      {.name = "compile-failed",
       .when = {"backendcompilerfailed", "torch._dynamo.exc", "torch._inductor.exc",
                "cannot find a working triton installation", "inductorerror", "triton.compiler.errors",
                "failed to find c compiler"},
       .refines = {"module-missing"},
       .what = "torch.compile failed",
       .cause = "Triton or a C compiler is missing (Windows, slim containers), or the model holds something that "
                "cannot be compiled",
       .confirm = "it passes without torch.compile (torch_compile=False)",
       .fix = "leave torch.compile out; or apt-get install gcc python3-dev, pip install triton",
       .command = "plimsoll is compiled already"},
      {.name = "no-parameters",
       .when = {"optimizer got an empty parameter list"},
       .what = "the optimizer was given nothing to train",
       .cause = "Everything is frozen, or a generator of parameters was used up before",
       .confirm = "sum(p.requires_grad for p in model.parameters())",
       .fix = "unfreeze a part; list(model.parameters())",
       .command = "plimsoll train --freeze PATTERN says what is left to train"},
      {.name = "tokenizers-fork",
       .level = Level::kNote,
       .when = {"process just got forked, after parallelism has already been used"},
       .what = "the tokenizer was used before worker processes were forked",
       .cause = "Harmless by itself; the tokenizer goes on with one thread",
       .confirm = "the warning goes away with num_workers=0",
       .fix = "TOKENIZERS_PARALLELISM=false"},
  };
}

std::vector<Rule> own_rules() {
  return {
      {.name = "plimsoll-budget",
       .when = {"the run does not fit the memory budget", "the machine does not give the memory that the plan needs"},
       .refines = {"plimsoll-error"},
       .what = "Plimsoll refused the run: it does not fit the budget",
       .cause = "The smallest plan needs more than --budget allows; nothing was allocated",
       .confirm = "the itemised plan in the message",
       .fix = "what the message lists under \"to do\", cheapest first",
       .command = "plimsoll plan --sweep shows what more memory would bring"},
      {.name = "plimsoll-diverged",
       .when = {"the loss or the gradients are no longer finite"},
       .refines = {"plimsoll-error", "nan-loss"},
       .what = "Plimsoll stopped because the loss or the gradients are no longer finite",
       .cause = "The learning rate is too high, or half precision overflowed; the message names the first tensor, its "
                "layer and its pages",
       .confirm = "the same update in F32, or with a tenth of the learning rate",
       .fix = "--learning-rate smaller, --warmup-ratio 0.1, --bf16 instead of --fp16; the last checkpoint is finite",
       .command = "plimsoll train --resume-from-checkpoint DIR --learning-rate …"},
      {.name = "plimsoll-internal",
       .when = {"this is a bug in plimsoll"},
       .refines = {"plimsoll-error"},
       .what = "a bug in Plimsoll",
       .cause = "An invariant of the program does not hold",
       .confirm = "the same command fails again",
       .fix = "report it with the command and this log"},
      {.name = "plimsoll-error",
       .when = {"^to do:*"},
       .anywhere = {{"^error: "}},
       .what = "Plimsoll refused or stopped, and says why itself",
       .cause = "The line that begins with \"error:\" says what, the lines below it where, what was found and what is "
                "allowed",
       .confirm = "exit codes: 2 options, 3 data, 4 budget, 5 machine, 6 diverged",
       .fix = "what stands after \"to do:\""},
  };
}

}  // namespace plimsoll::doctor
