// Arithmetic: not a number, scalers, types, and autograd's complaints.
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

const AnyOf kNotFinite = {"loss: nan",
                          "'loss': nan",
                          "\"loss\": nan",
                          "loss=nan",
                          "loss nan",
                          "loss is nan",
                          "'loss': 'nan'",
                          "loss: inf",
                          "loss=inf",
                          "loss = nan",
                          "nan loss",
                          "'grad_norm': nan",
                          "'grad_norm': 'nan'",
                          "grad_norm: nan",
                          "grad_norm=nan",
                          "loss became nan",
                          "non-finite loss",
                          "'eval_loss': nan",
                          "'loss': inf",
                          "loss is not finite",
                          "nan or inf found",
                          "loss : nan",
                          "\"grad_norm\": nan",
                          "grad norm: nan",
                          "loss became infinite or nan",
                          "loss is inf",
                          "loss became inf",
                          "loss diverged",
                          "invalid loss, terminating",
                          "loss is infinite"};
constexpr std::string_view kFirstNaN =
    "plimsoll train --bf16 checks every step, names the first tensor that is not finite, its layer and pages, and "
    "stops (exit code 6)";

// `rules`, and those that say that a loss is NaN.
std::vector<std::string_view> with_nan(std::vector<std::string_view> rules) {
  rules.insert(rules.end(), {"nan-loss", "nan-diverged", "nan-overflow", "nan-at-start"});
  return rules;
}

}  // namespace

std::vector<Rule> number_rules() {
  return {
      {.name = "nan-loss",
       .level = Level::kConsequence,
       .when = kNotFinite,
       .quotes_losses = true,
       .heals = true,
       .what = "the loss or the gradients became NaN or infinite",
       .cause = "Half precision overflowed: fp16 instead of bf16\n"
                "The learning rate is too high, or there is no warm-up\n"
                "A batch has no labelled token: the loss is 0 / 0\n"
                "The input is bad: NaN in pixels, a box without area, a checkpoint that was saved after a NaN",
       .confirm = "find the first step where the loss is not finite, and repeat that batch in F32: still NaN means "
                  "data or learning rate, finite means overflow",
       .fix = "bf16=True (or F32) instead of fp16=True\n"
              "a learning rate of 1e-5 to 5e-5, warmup_ratio=0.1, max_grad_norm=1\n"
              "leave out windows whose labels are all -100; go back to a checkpoint from before, for the "
              "weights since are lost",
       .command = kFirstNaN},
      {.name = "nan-diverged",
       .level = Level::kConsequence,
       .when = kNotFinite,
       .run_up = RunUp::kRose,
       .quotes_losses = true,
       .heals = true,
       .refines = {"nan-loss"},
       .what = "training diverged: the loss or the gradients grew from line to line until they became NaN",
       .cause = "The learning rate is too high, there is no warm-up, or gradients are not clipped\n"
                "Half precision (fp16) overflows again and again\n"
                "Labels are wrong in the batches where the rise begins",
       .confirm = "the same steps with a tenth of the learning rate: the loss falls",
       .fix = "a learning rate of 1e-5 to 5e-5, warmup_ratio=0.1, max_grad_norm=1\n"
              "bf16=True instead of fp16=True; go back to a checkpoint from before the rise",
       .command = kFirstNaN},
      {.name = "nan-overflow",
       .level = Level::kConsequence,
       .when = kNotFinite,
       .anywhere = {{"fp16=true",
                     "--fp16 true",
                     "--fp16$",
                     "--fp16 --",
                     "fp16: true",
                     "\"fp16\": true",
                     "'fp16': true",
                     "16-bits training: true",
                     "using 16bit",
                     "precision=16",
                     "precision: 16",
                     "16-mixed",
                     "mixed_precision=fp16",
                     "mixed_precision='fp16'",
                     "mixed_precision: fp16",
                     "mixed precision: fp16",
                     "mixed_precision fp16",
                     "gradscaler(",
                     "dtype=torch.float16",
                     "dtype=float16"}},
       .without_anywhere = {"fp16=false", "bf16=true", "16-bits training: false"},
       .run_up = RunUp::kSteady,
       .quotes_losses = true,
       .heals = true,
       .refines = {"nan-loss"},
       .what = "half precision overflowed: the loss was stable, then became NaN",
       .cause = "fp16 ends at 65504, and an activation or a gradient went beyond it\n"
                "The labels of one batch are all -100 (the loss is 0 / 0), or its input holds NaN\n"
                "The learning rate is too high",
       .confirm = "repeat that batch in F32: finite means overflow, still NaN means data or weights",
       .fix = "bf16=True instead of fp16=True (Ampere or newer), or F32\n"
              "a lower learning rate, max_grad_norm=1; go back to a checkpoint from before",
       .command = kFirstNaN},
      {.name = "nan-assert",
       .level = Level::kCause,
       .when = {"device-side assert triggered", "cudaerrorassert", "hiperrorassert"},
       .anywhere = {kNotFinite},
       .without_anywhere = {"assertion*failed"},
       .quotes_losses = true,
       .refines = with_nan({"device-assert", "assert-long"}),
       .what = "the loss became NaN, and then a CUDA kernel that got NaN failed its assertion",
       .cause = "The learning rate is too high, there is no warm-up, or gradients are not clipped\n"
                "Half precision (fp16) overflowed\n"
                "The data: NaN in the input, boxes without area, a target out of range",
       .confirm = "the same steps with a tenth of the learning rate: the loss falls, and nothing is asserted",
       .fix = "a lower learning rate with warm-up, max_grad_norm=1; bf16=True instead of fp16=True\n"
              "stop at the first loss that is not finite, and look at that batch",
       .command = kFirstNaN},
      {.name = "nan-at-start",
       .level = Level::kConsequence,
       .when = kNotFinite,
       .run_up = RunUp::kNone,
       .quotes_losses = true,
       .heals = true,
       .refines = {"nan-loss"},
       .what = "the loss was NaN from the first line that was printed",
       .cause = "The data: NaN in pixels, boxes without area, a batch whose labels are all -100 (the loss is 0 / "
                "0)\n"
                "The weights: a checkpoint that was saved after a NaN, or weights that were never set\n"
                "The learning rate is far too high: gradients explode before the first line is printed\n"
                "fp16 overflows before the first line is printed",
       .confirm = "one forward of the first batch in F32 before any update: torch.isfinite of each input, each weight, "
                  "the loss; (labels != -100).sum() > 0",
       .fix = "leave out or repair what is not finite; begin from weights that are; logging_steps=1 shows whether the "
              "first step already fails: if not, bf16 and a lower learning rate with warm-up",
       .command =
           "plimsoll check --model DIR --data pages.jsonl names pages, boxes and labels that cannot be; plimsoll "
           "train names the first tensor that is not finite"},
      {.name = "nan-evaluation",
       .level = Level::kConsequence,
       .when = {"'eval_loss': nan", "\"eval_loss\": nan", "'eval_loss': 'nan'", "eval_loss: nan", "eval_loss = nan",
                "val_loss: nan", "val_loss=nan", "validation loss: nan"},
       .without_anywhere = {"'loss': nan", "'loss': 0.0,", "'loss': 0.000000", "'loss': 'nan'", "train_loss: nan",
                            "train_loss=nan", "'grad_norm': nan", "'grad_norm': 'nan'", "training loss: nan",
                            "loss is nan"},
       .heals = true,
       .refines = with_nan({}),
       .what = "the loss is NaN in evaluation only",
       .cause = "A batch of the evaluation has no labelled token: the loss is 0 / 0\n"
                "Evaluation runs in half precision and overflows (fp16_full_eval=True, a model in half precision)\n"
                "Pages of the evaluation hold NaN, or labels of another data set",
       .confirm = "evaluate in F32, batch by batch; (labels != -100).sum() of each",
       .fix = "leave out pages without labels, or give them label O; fp16_full_eval=False",
       .command = "plimsoll eval ends with exit code 6 at a NaN, and names the first tensor"},
      {.name = "anomaly",
       .when = {"returned nan values in its"},
       .refines = with_nan({}),
       .what = "backward of one operation produced NaN (anomaly detection)",
       .cause = "sqrt, log, division or a norm at 0, or a masked row of attention that is -inf throughout; the "
                "traceback above the error shows the forward line",
       .confirm = "print that operation's input: zeros or infinities?",
       .fix = "add an epsilon inside the sqrt, log or division; do not mask whole rows"},
      {.name = "non-finite-gradients",
       .when = {"total norm*is non-finite", "gradient*is non-finite", "non-finite gradient", "gradients are nan",
                "gradients contain nan"},
       .heals = true,
       .refines = with_nan({}),
       .what = "the gradients are not finite",
       .cause = "Half precision overflowed\n"
                "The learning rate is too high\n"
                "The batch has no labels",
       .confirm = "torch.autograd.set_detect_anomaly(True) for one step",
       .fix =
           "GradScaler (fp16) or bf16; scaler.unscale_(optimizer) before clipping; a lower learning rate with warm-up",
       .command = "plimsoll train --bf16 --max-grad-norm 1"},
      {.name = "nan-metrics",
       .level = Level::kConsequence,
       .when = {"input contains nan", "input x contains nan", "input contains infinity"},
       .what = "scikit-learn was given numbers that are not finite",
       .cause = "In compute_metrics: the model's output is NaN, because training diverged (fp16 overflow, learning "
                "rate) before; elsewhere: the data itself has holes",
       .confirm = "np.isnan(predictions).any(), np.isnan(labels).any(); is the loss NaN, or 0.0 with grad_norm nan?",
       .fix = "go back to a checkpoint from before and train in bf16 or F32 with a lower learning rate and warm-up; or "
              "leave out the rows with holes",
       .command = "plimsoll train checks every step and stops at the first NaN (exit code 6)"},
      {.name = "loss-scale-minimum",
       // DeepSpeed stays at 1; apex halves until nothing is left.
       .when = {"loss scale already at minimum", "minimum loss scale reached", "cannot decrease scale anymore",
                "loss scale reached minimum", "half precision overflows whatever the loss is scaled by",
                "attempted loss scale: 1, reducing to 1$", "attempted loss scale: 1.0, reducing to 1.0$",
                "attempted loss scale: 1, reducing to 1,", "attempted loss scale: 1.0, reducing to 1.0,",
                "reducing loss scale to 0.0$", "reducing loss scale to *e-", "loss scale is 0",
                "loss scale is too small", "loss scaling factor has been lowered to"},
       .refines = with_nan({"loss-scale-skips", "plimsoll-error"}),
       .what = "every update is skipped: half precision overflows whatever the loss is scaled by",
       .cause =
           "The loss scale has fallen to its minimum and gradients still overflow, so that no weight is ever updated: "
           "the model does not fit half precision (activations beyond 65504, as models trained in bfloat16 have), "
           "which no scaling of the loss changes\n"
           "The loss itself is NaN: NaN in the weights or the input, or a learning rate that made it diverge",
       .confirm = "one forward in F32 on the same batch: finite?",
       .fix = "bf16 or F32; a lower learning rate with warm-up; start again from the last checkpoint that is finite",
       .command = "plimsoll train --bf16, or --fp16 --fp16-fallback"},
      {.name = "loss-scale-skips",
       .level = Level::kNote,
       .when = {"gradient overflow", "overflow! rank*skipping step", "reducing loss scale",
                "reducing dynamic loss scale", "attempted loss scale", "skipped steps"},
       .usual = true,
       .what = "updates were skipped because gradients overflowed in half precision",
       .cause =
           "A few at the start are how the scale is found; if they go on, the numbers are too large for half precision",
       .confirm = "count them: more than one in a thousand steps after the start is too many",
       .fix = "bf16; a lower learning rate; see that the schedule is stepped only when the optimizer was",
       .command = "plimsoll train --fp16 counts skipped updates and shows them; the schedule follows real ones"},
      {.name = "unscale-fp16",
       .when = {"attempting to unscale fp16 gradients"},
       .what = "GradScaler found gradients in half precision",
       .cause = "The weights themselves are F16 (model.half(), torch_dtype=torch.float16) and fp16=True is on besides: "
                "mixed precision wants F32 weights",
       .confirm = "{p.dtype for p in model.parameters() if p.requires_grad}",
       .fix = "load in F32 (or cast the trained parameters, adapters included, to F32) and keep fp16=True",
       .command = "plimsoll train --fp16 keeps F32 weights by itself"},
      {.name = "unscale-twice",
       .when = {"unscale_() has already been called", "unscale_() is being called after step()"},
       .what = "GradScaler.unscale_ was called twice for one step",
       .cause = "Clipping inside an accumulation loop, or both you and the Trainer clip",
       .confirm = "count the calls of unscale_ between two update()",
       .fix = "unscale, clip, step and update once for each optimizer step, after the last micro-batch",
       .command = "plimsoll train --fp16 --max-grad-norm 1 --gradient-accumulation-steps N"},
      {.name = "scaler-no-inf-checks",
       .when = {"no inf checks were recorded for this optimizer"},
       .what = "GradScaler saw no gradients before step",
       .cause = "backward was not called on the scaled loss, all gradients are None (everything frozen, or detached), "
                "or parameters belong to another optimizer",
       .confirm = "any(p.grad is not None for p in model.parameters()) after backward",
       .fix = "scaler.scale(loss).backward(); make the optimizer from the parameters that train, after the model was "
              "moved"},
      {.name = "scheduler-order",
       .level = Level::kNote,
       .when = {"detected call of `lr_scheduler.step()` before `optimizer.step()`"},
       .what = "the schedule stepped before the optimizer did",
       .cause = "The calls are in the wrong order, or GradScaler skipped the first update: then it is harmless",
       .confirm = "look at the loop",
       .fix = "optimizer.step() before scheduler.step()"},
      {.name = "backward-twice",
       .when = {"backward through the graph a second time", "saved intermediate values of the graph are freed",
                "saved tensors after they have already been freed"},
       .what = "backward ran twice through the same graph",
       .cause = "A loss or hidden state from an earlier step is part of this one (summed without .item(), not "
                "detached), or backward stands inside a loop over one forward",
       .confirm = "which tensor made before this step does the loss depend on?",
       .fix = ".detach() what is carried from step to step, total += loss.item(); add losses and call backward once"},
      {.name = "checkpoint-recompute",
       .when = {"recomputed values for the following tensors have different metadata",
                "a different number of tensors was saved during the original forward and recomputation"},
       .what = "gradient checkpointing computed something else the second time than in forward",
       .cause = "What a block computes changed between the two passes: a cache of keys and values (use_cache) that is "
                "longer now, autocast or dtypes that differ, dropout or routing that is drawn anew, ZeRO-3 or FSDP "
                "parameters that were gathered differently",
       .confirm = "the shapes in the message; it passes without gradient checkpointing",
       .fix = "model.config.use_cache = False\n"
              "gradient_checkpointing_kwargs={'use_reentrant': True}, or the other way round\n"
              "newer transformers, accelerate and peft of one age",
       .command = "plimsoll train --budget SIZE recomputes what was computed, bit for bit"},
      {.name = "inplace",
       .when = {"modified by an inplace operation",
                "a leaf variable that requires grad is being used in an in-place operation",
                "a view of a leaf variable that requires grad"},
       .what = "a tensor that backward needs was changed in place",
       .cause = "+=, relu_, masked_fill_ or an assignment to a slice after the tensor was used; or an optimizer step "
                "between two backwards",
       .confirm = "torch.autograd.set_detect_anomaly(True) names the forward line",
       .fix = "write x = x + y instead of x += y; clone() before assigning"},
      {.name = "no-gradient",
       .when = {"does not require grad and does not have a grad_fn"},
       .what = "the loss does not depend on anything that trains",
       .cause = "All parameters are frozen\n"
                "Gradient checkpointing with frozen embeddings (adapters) loses the graph\n"
                "Forward ran under no_grad, or the loss was detached (.item(), argmax)",
       .confirm = "loss.requires_grad; [n for n, p in model.named_parameters() if p.requires_grad]",
       .fix = "with adapters and checkpointing: model.enable_input_require_grads(), or "
              "gradient_checkpointing_kwargs={'use_reentrant': False}\n"
              "unfreeze what shall train",
       .command = "plimsoll train --lora-rank 8 or --freeze PATTERN recomputes correctly"},
      {.name = "checkpoint-frozen-input",
       .level = Level::kNote,
       .when = {"none of the inputs have requires_grad=true"},
       .what = "gradient checkpointing got inputs that need no gradients",
       .cause =
           "The embeddings are frozen, or this is evaluation: then it is harmless; with reentrant checkpointing in "
           "training the layers inside get no gradients",
       .confirm = "[n for n, p in model.named_parameters() if p.requires_grad and p.grad is None] after backward",
       .fix = "gradient_checkpointing_kwargs={'use_reentrant': False}, or model.enable_input_require_grads()",
       .command = "plimsoll train --lora-rank 8 or --freeze PATTERN recomputes correctly"},
      {.name = "half-on-cpu",
       .when = {"not implemented for 'half'", "not implemented for 'bfloat16'", "not implemented for 'float8"},
       .without = {"nll_loss"},
       .what = "an operation does not exist for half precision on this device",
       .cause = "A model in F16 or BF16 runs on the CPU (torch_dtype was set, but the model was not moved), or this "
                "PyTorch lacks the kernel",
       .confirm = "next(model.parameters()).device and .dtype",
       .fix = "model.float() on the CPU, or model.to('cuda'); newer PyTorch has more kernels",
       .command = "plimsoll train --bf16 runs on the CPU"},
      {.name = "loss-classes",
       .when = {"expected floating point type for target with class probabilities"},
       .refines = {"dtype-mismatch", "label-dtype"},
       .what = "the loss got scores and class numbers of the same shape",
       .cause =
           "Predicted class numbers were passed in place of logits: argmax was taken before the loss\n"
           "Logits lost their dimension of classes (squeeze, an index), or labels are one-hot rows of whole numbers",
       .confirm = "logits.shape is (N, classes) and labels.shape (N) just before the loss",
       .fix =
           "pass the logits themselves; or labels.argmax(-1) if they are one-hot, or labels.float() for probabilities"},
      {.name = "label-dtype",
       .when = {"expected scalar type long but found", "nll_loss*not implemented for",
                "expected object of scalar type long but got", "cross_entropy*not implemented for",
                "tensors used as indices must be long",
                "argument #1 'indices' to have one of the following scalar types: long",
                "expected tensor for argument #1 'indices'"},
       .refines = {"dtype-mismatch", "half-on-cpu"},
       .what = "labels or indices are not whole numbers of 64 bits",
       .cause = "A collator made floats (or int32) of labels, input_ids or bbox: NumPy's default on Windows is int32, "
                "of lists with None it is float",
       .confirm = "print {k: v.dtype for k, v in batch.items()}",
       .fix = "torch.tensor(labels, dtype=torch.long), and the same for input_ids and bbox",
       .command = "plimsoll check --data pages.jsonl"},
      {.name = "dtype-double",
       .when = {"but got scalar type double", "expected float but got double", "but found double",
                "expected scalar type float but found double", "and weight type (torch.floattensor) should",
                "expected double but got float", "but got torch.doubletensor", "torch.doubletensor) and weight type"},
       .refines = {"dtype-mismatch", "device-mismatch"},
       .what = "an operation got floats of 64 bits beside floats of 32 bits",
       .cause =
           "The data are NumPy arrays: their floats have 64 bits unless told otherwise, and torch.from_numpy keeps "
           "them\n"
           "The model was made .double(), and its input was not",
       .confirm = "print {k: v.dtype for k, v in batch.items()} and {p.dtype for p in model.parameters()}",
       .fix = "x.float(), or array.astype(numpy.float32), where the batch is made"},
      {.name = "dtype-mismatch",
       .when = {"expected scalar type", "must have the same dtype", "to have the same dtype",
                "expected object of scalar type", "input type*and bias type*should be the same",
                "input type*and weight type*should be the same", "source and destination dtypes match",
                "dtypes to match", "dtype mismatch", "found dtype*but expected", "expected dtype",
                "data types*must match", "have different dtypes", "result type float can't be cast",
                "is not supported: expected*dtype", "should either all have the same dtype",
                "input type (*floattensor) and weight type", "input type (*halftensor) and weight type",
                "mixed dtype (cpu): expect"},
       .what = "an operation got tensors of different types",
       .cause = "The model is in half precision and the input (pixel_values above all) in F32, or the reverse; a layer "
                "made in forward, a buffer or an adapter kept the other type",
       .confirm = "print {k: v.dtype for k, v in batch.items()} and {p.dtype for p in model.parameters()}",
       .fix = "pixel_values.to(model.dtype); or keep the model in F32 and train under autocast (fp16=True, bf16=True)",
       .command = "plimsoll train --bf16 or --fp16 keeps types apart by itself"},
      {.name = "bf16-unsupported",
       .when = {"does not support bfloat16", "setup doesn't support bf16", "bf16 mixed precision requires",
                "--tf32 requires ampere", "bfloat16 is only supported on gpus", "bf16/gpu", "bfloat16 is not supported",
                "bf16 is not supported", "current device does not support bfloat16", "device does not support bf16"},
       .what = "this GPU has no bfloat16",
       .cause = "bfloat16 needs compute capability 8.0 (Ampere) or newer; T4, V100 and older lack it",
       .confirm = "torch.cuda.is_bf16_supported(); torch.cuda.get_device_capability()",
       .fix = "fp16=True instead of bf16=True, with F32 weights",
       .command = "plimsoll train --bf16 runs on any processor"},
      {.name = "fp16-without-gpu",
       .level = Level::kConsequence,
       .when = {"fp16 mixed precision*requires a gpu", "fp16 mixed precision*can only be used on",
                "fp16 half precision evaluation*can only be used on", "fp16=true*requires a gpu",
                "fp16 mixed precision requires"},
       .what = "fp16 was asked for where there is no GPU",
       .cause = "The Trainer's fp16 needs CUDA, and PyTorch sees none",
       .confirm = "torch.cuda.is_available()",
       .fix = "leave fp16 out, or make the GPU visible: plimsoll doctor",
       .command = "plimsoll train --fp16 or --bf16 run on the processor"},
  };
}

}  // namespace plimsoll::doctor
