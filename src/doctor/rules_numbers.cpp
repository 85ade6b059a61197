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
                          "loss is infinite",
                          "'rewards/chosen': nan",
                          "'logps/chosen': nan",
                          "'rewards/chosen': 'nan'",
                          "'reward': nan",
                          "'kl': nan"};
constexpr std::string_view kFirstNaN =
    "plimsoll train --bf16 checks every step, names the first tensor that is not finite, its layer and pages, and "
    "stops (exit code 6)";

// Returns `rules`, and the rules which say that a loss is NaN.
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
       .cause =
           "Half precision overflowed: fp16 instead of bf16\n"
           "The learning rate is too high, there is no warm-up, or gradients are not clipped\n"
           "A batch has no labelled token (the loss is 0 / 0), or the loss takes log, sqrt or a division of 0\n"
           "The input is bad: NaN or infinity in the data, a box without area, a checkpoint that was saved after a NaN",
       .confirm = "find the first step where the loss is not finite, and repeat that batch in F32: still NaN means "
                  "data or learning rate, finite means overflow",
       .fix = "bf16=True (or F32) instead of fp16=True\n"
              "a lower learning rate with warm-up (1e-5 to 5e-5 where a transformer is fine-tuned), max_grad_norm=1\n"
              "leave out samples whose labels are all -100, and repair those whose input is not finite\n"
              "go back to a checkpoint from before, for the weights since are lost",
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
                "Labels or inputs are wrong in the batches where the rise begins: not normalised, outliers",
       .confirm = "the same steps with a tenth of the learning rate: the loss falls",
       .fix = "a tenth of the learning rate (1e-5 to 5e-5 where a transformer is fine-tuned), warmup_ratio=0.1\n"
              "max_grad_norm=1\n"
              "bf16=True instead of fp16=True\n"
              "go back to a checkpoint from before the rise",
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
      {.name = "mask-not-bool",
       .when = {"only supports boolean masks", "expected mask dtype to be bool", "mask tensor*must be bool",
                "expected a bool tensor", "expected self.dtype to be bool",
                "subtraction, the `-` operator, with a bool", "`-` operator, with two bool tensors",
                "where expected condition to be a boolean tensor"},
       .refines = {"label-dtype"},
       .what = "a mask is of another type than this PyTorch takes",
       .cause =
           "Code of PyTorch 1.1 or before makes masks with .byte() (uint8), or as numbers; newer versions want bool\n"
           "A bool mask is subtracted (1 - mask), which newer versions refuse",
       .confirm = "mask.dtype just before that line; torch.__version__",
       .fix = ".bool() in place of .byte(), ~mask in place of 1 - mask\n"
              "a newer version of the package whose line it is, or the PyTorch that it was written for"},
      {.name = "nan-assert",
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
       .cause = "The data: NaN or infinity in the input, inputs that are not normalised, a batch whose labels are all "
                "-100 (the loss is 0 / 0)\n"
                "The weights: a checkpoint that was saved after a NaN, layers that were never set, or a model that "
                "does not bear fp16\n"
                "The learning rate is far too high: gradients explode before the first line is printed\n"
                "fp16 overflows before the first line is printed, or the loss takes log, sqrt or a division of 0",
       .confirm = "one forward of the first batch in F32 before any update: torch.isfinite of each input, each weight, "
                  "the loss; (labels != -100).sum() > 0",
       .fix =
           "leave out or repair what is not finite, and samples without a label; begin from weights that are finite\n"
           "bf16 or F32 instead of fp16 (the base model's own type)\n"
           "a lower learning rate with warm-up; logging_steps=1 shows whether the first step already fails",
       .command =
           "plimsoll check --model DIR --data pages.jsonl names pages, boxes and labels that cannot be; plimsoll "
           "train names the first tensor that is not finite",
       .tellings = {{.when = {"'loss': 0.0*'grad_norm': nan", "'grad_norm': nan*'loss': 0.0",
                              "loss: 0.0*grad_norm: nan", "loss=0.0*grad_norm=nan", "'loss': '0'*'grad_norm': 'nan'"},
                     .what =
                         "the norm of the gradients was NaN from the first line on; the loss that is printed as 0.0 "
                         "is not the loss"}}},
      {.name = "response-template",
       .when = kNotFinite,
       .anywhere = {{"could not find response key", "could not find instruction key"}},
       .quotes_losses = true,
       .heals = true,
       .refines = with_nan({"nan-evaluation"}),
       .what =
           "no answer is left to train on: the response template is not found in the samples, and the loss is 0 / 0",
       .cause = "The template is tokenized otherwise in its context than alone (a line break or blank before it, "
                "SentencePiece), so that its ids are in no sample\n"
                "The texts are cut before the answer begins: max_length is too small, or the prompt too long\n"
                "The template is another one than the data's or the chat template's",
       .confirm =
           "tokenizer.decode of a sample's input_ids against the template; (labels != -100).sum() of each sample",
       .fix = "pass the template as ids, taken from its context: tokenizer.encode('\\n### Response:', "
              "add_special_tokens=False)[2:]\n"
              "a larger max_length, or leave long prompts out\n"
              "the template that the data has; in newer trl completion_only_loss or assistant_only_loss in SFTConfig"},
      {.name = "distribution-nan",
       .when = {"of distribution*to satisfy the constraint*but found invalid values",
                "the parameter probs has invalid values", "the parameter loc has invalid values"},
       .what = "a policy or distribution got parameters that are NaN or outside their range",
       .cause = "The network's outputs became NaN: a learning rate that is too high, no clipping of gradients, half "
                "precision\n"
                "Observations or rewards hold NaN, infinity or huge numbers\n"
                "log of zero, or a standard deviation that went to zero",
       .confirm =
           "torch.isfinite of the inputs and of the parameters at that step; torch.autograd.set_detect_anomaly(True)",
       .fix = "a lower learning rate, max_grad_norm\n"
              "normalise or clip observations and rewards; numpy.nan_to_num where the source has NaN\n"
              "a lower bound for standard deviations and probabilities"},
      {.name = "linalg-failed",
       .when = {"cusolver_status_", "cusolver error"},
       .what = "a matrix could not be decomposed or inverted",
       .cause = "It holds NaN or infinity, because training diverged before\n"
                "It is singular or not positive definite: too few samples, constant or equal features\n"
                "Memory of the device is full (cuSOLVER's handle)",
       .confirm = "torch.isfinite(matrix).all(), and torch.linalg.cond(matrix)",
       .fix = "find where NaN begins\n"
              "add a small multiple of the identity, or compute in float64\n"
              "torch.linalg.pinv or lstsq; torch.backends.cuda.preferred_linalg_library('magma')"},
      {.name = "half-overflow",
       .when = {"cannot be converted to type at::half without overflow",
                "cannot be converted to type c10::half without overflow"},
       .what = "a number is too large for half precision: 65,504 is the largest",
       .cause = "A mask is filled with -1e9, float('-inf') of another type, or torch.finfo(torch.float32).min, and the "
                "scores are F16\n"
                "The model's code was written for F32 or bf16, and runs under fp16 autocast or was loaded in F16\n"
                "min_dtype was taken of another tensor's type than the mask's",
       .confirm = "the line that fills: scores.dtype, and the number",
       .fix = "masked_fill(mask, torch.finfo(scores.dtype).min)\n"
              "bf16 or F32 instead of fp16\n"
              "a newer version of the library; attn_implementation='eager' or 'sdpa' in transformers",
       .command = "plimsoll train --bf16"},
      {.name = "perplexity-overflow",
       .when = {"overflowerror: math range error"},
       .what = "math.exp of a loss is too large for a number: the loss has diverged",
       .cause =
           "The loss is above 709: training diverged (learning rate, no warm-up, no clipping), or it never began to "
           "fall\n"
           "The loss is a sum over tokens or batches, not a mean",
       .confirm = "the last losses before it, against ln(vocabulary): about 11 for 50,000 tokens",
       .fix = "a lower learning rate with warm-up, gradient clipping\n"
              "the mean over tokens before exp\n"
              "try: math.exp(loss) except OverflowError: float('inf'), so that the evaluation ends"},
      {.name = "response-key",
       .when = {"runtimeerror: could not find response key", "runtimeerror: could not find instruction key"},
       .what = "the response template does not occur in a sample, so there is no answer to train on",
       .cause = "The template is tokenized otherwise in its context than alone (a line break or blank before it, "
                "SentencePiece), so that its ids are in no sample\n"
                "The text was cut before the answer begins: max_length is too small, or the prompt too long\n"
                "The template is another one than the data's or the chat template's",
       .confirm = "tokenizer.decode of the ids in the message against the template",
       .fix = "pass the template as ids, taken from its context: tokenizer.encode('\\n### Response:', "
              "add_special_tokens=False)[2:]\n"
              "a larger max_length, or leave long prompts out\n"
              "the template that the data has; in newer trl completion_only_loss or assistant_only_loss in SFTConfig"},
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
                "Samples of the evaluation hold NaN, or labels of another data set\n"
                "The weights or the running statistics of batch normalisation became NaN in training just before",
       .confirm = "evaluate in F32, batch by batch; (labels != -100).sum() of each",
       .fix = "leave out samples without labels\n"
              "fp16_full_eval=False, or bf16\n"
              "repair the samples that the batch-by-batch evaluation finds",
       .command = "plimsoll eval ends with exit code 6 at a NaN, and names the first tensor"},
      {.name = "anomaly",
       .when = {"returned nan values in its"},
       .refines = with_nan({}),
       .what = "backward of one operation produced NaN (anomaly detection)",
       .cause = "sqrt, log, division, a power or a norm at 0; the traceback above the error shows the forward line\n"
                "A masked row of attention, or of a softmax, that is -inf throughout\n"
                "Forward had overflowed before: half precision, a learning rate that is too high, NaN in the input",
       .confirm = "print that operation's input: zeros or infinities?",
       .fix = "add an epsilon inside the sqrt, log or division (clamp(min=1e-6))\n"
              "do not mask whole rows\n"
              "bf16 or F32, a lower learning rate, if forward's own values are not finite"},
      {.name = "non-finite-gradients",
       .when = {"total norm*is non-finite", "gradient*is non-finite", "non-finite gradient", "gradients are nan",
                "gradients contain nan"},
       .heals = true,
       .refines = with_nan({}),
       .what = "the gradients are not finite",
       .cause = "Half precision overflowed: with GradScaler a few such steps are usual\n"
                "The learning rate is too high\n"
                "A batch has no labels, or its input holds NaN",
       .confirm = "torch.autograd.set_detect_anomaly(True) for one step",
       .fix = "bf16 instead of fp16; scaler.unscale_(optimizer) before clipping\n"
              "a lower learning rate with warm-up\n"
              "leave out batches whose loss is not finite",
       .command = "plimsoll train --bf16 --max-grad-norm 1"},
      {.name = "nan-metrics",
       .level = Level::kConsequence,
       .when = {"input contains nan", "input x contains nan", "input contains infinity"},
       .what = "scikit-learn was given numbers that are not finite",
       .cause = "The model's output is NaN in compute_metrics, because training diverged or overflowed before\n"
                "The data itself has holes: empty cells, a division by 0 in the features",
       .confirm = "np.isnan(predictions).any(), np.isnan(labels).any(); is the loss NaN, or 0.0 with grad_norm nan?",
       .fix = "train again from a checkpoint from before, in bf16 or F32 with a lower learning rate and warm-up\n"
              "df.dropna(), np.nan_to_num, or an imputer for the data",
       .command = "plimsoll train checks every step and stops at the first NaN (exit code 6)"},
      {.name = "loss-scale-minimum",
       // DeepSpeed stays at 1; apex halves until nothing is left.
       .when = {"loss scale already at minimum", "minimum loss scale reached", "cannot decrease scale anymore",
                "loss scale reached minimum", "half precision overflows whatever the loss is scaled by",
                "attempted loss scale: 1, reducing to 1$", "attempted loss scale: 1.0, reducing to 1.0$",
                "attempted loss scale: 1, reducing to 1,", "attempted loss scale: 1.0, reducing to 1.0,",
                "reducing loss scale to 0.0$", "reducing loss scale to *e-", "loss scale is 0",
                "loss scale is too small", "loss scaling factor has been lowered to", kScaleHasFallen},
       .refines = with_nan({"loss-scale-skips", "plimsoll-error"}),
       .what = "every update is skipped: half precision overflows whatever the loss is scaled by",
       .cause =
           "The loss scale has fallen to its minimum and gradients still overflow, so that no weight is ever updated: "
           "the model does not fit half precision (activations beyond 65504, as models trained in bfloat16 have), "
           "which no scaling of the loss changes\n"
           "The loss itself is NaN: NaN in the weights or the input, or a learning rate that made it diverge",
       .confirm = "one forward in F32 on the same batch: finite?",
       .fix = "bf16 or F32\n"
              "a lower learning rate with warm-up, gradient clipping\n"
              "start again from the last checkpoint that is finite",
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
       .cause = "The weights that train are F16 (model.half(), torch_dtype=torch.float16, adapters on a model loaded "
                "so), and fp16=True is on besides: mixed precision wants F32 weights",
       .confirm = "{p.dtype for p in model.parameters() if p.requires_grad}",
       .fix = "load in F32 and keep fp16=True\n"
              "with adapters: for p in model.parameters(): if p.requires_grad: p.data = p.data.float()\n"
              "bf16=True with torch_dtype=torch.bfloat16, on Ampere or newer",
       .command = "plimsoll train --fp16 keeps F32 weights by itself"},
      {.name = "unscale-twice",
       .when = {"unscale_() has already been called", "unscale_() is being called after step()"},
       .what = "GradScaler.unscale_ was called twice for one step",
       .cause = "Clipping inside an accumulation loop, or both you and the Trainer clip",
       .confirm = "count the calls of unscale_ between two update()",
       .fix = "unscale, clip, step and update once for each optimizer step, after the last micro-batch",
       .command = "plimsoll train --fp16 --max-grad-norm 1 --gradient-accumulation-steps N"},
      {.name = "scaler-no-inf-checks",
       .when = {"no inf checks were recorded for this optimizer", "no inf checks were recorded prior to update"},
       .what = "GradScaler saw no gradients before step",
       .cause =
           "backward was not called on the scaled loss, or not before this step\n"
           "All gradients are None: everything is frozen, or the loss is detached from what trains\n"
           "The optimizer holds other parameters than the model's: made before it was moved, wrapped or given adapters",
       .confirm = "any(p.grad is not None for p in model.parameters()) after backward",
       .fix = "scaler.scale(loss).backward() before scaler.step(optimizer)\n"
              "unfreeze what shall train\n"
              "make the optimizer from the parameters that train, after the model was moved"},
      {.name = "scheduler-order",
       .level = Level::kNote,
       .when = {"detected call of `lr_scheduler.step()` before `optimizer.step()`"},
       .usual = true,
       .what = "the schedule stepped before the optimizer did",
       .cause = "The calls are in the wrong order, or GradScaler skipped the first update: then it is harmless",
       .confirm = "look at the loop",
       .fix = "optimizer.step() before scheduler.step()"},
      {.name = "backward-twice",
       .when = {"backward through the graph a second time", "saved intermediate values of the graph are freed",
                "saved tensors after they have already been freed"},
       .what = "backward ran twice through the same graph",
       .cause =
           "A loss or hidden state from an earlier step is part of this one: summed without .item(), not detached\n"
           "backward is called twice on one forward: two losses that share a graph (a GAN, several tasks), a loop over "
           "one output\n"
           "A tensor that depends on weights is computed once before the loop and used in every step",
       .confirm = "which tensor made before this step does the loss depend on?",
       .fix = "loss = loss1 + loss2, and backward once; or retain_graph=True on all but the last\n"
              ".detach() what is carried from step to step; total += loss.item()\n"
              "compute what depends on the weights inside the loop"},
      {.name = "checkpoint-recompute",
       .when = {"recomputed values for the following tensors have different metadata",
                "a different number of tensors was saved during the original forward and recomputation",
                "trying to save more tensors during recomputation than"},
       .what = "gradient checkpointing computed something else the second time than in forward",
       .cause = "What a block computes changed between the two passes: a cache of keys and values (use_cache) that is "
                "longer now, autocast or dtypes that differ, dropout or routing that is drawn anew, ZeRO-3 or FSDP "
                "parameters that were gathered differently",
       .confirm = "the shapes in the message; it passes without gradient checkpointing",
       .fix = "model.config.use_cache = False\n"
              "gradient_checkpointing_kwargs={'use_reentrant': True}, or the other way round\n"
              "the same autocast and mode in both passes; no random branches inside a block\n"
              "newer transformers, accelerate and peft of one age",
       .command = "plimsoll train --budget SIZE recomputes what was computed, bit for bit"},
      {.name = "inplace",
       .when = {"modified by an inplace operation",
                "a leaf variable that requires grad is being used in an in-place operation",
                "a view of a leaf variable that requires grad"},
       .what = "a tensor that backward needs was changed in place",
       .cause = "+=, relu_, masked_fill_ or an assignment to a slice changes a tensor after it was used\n"
                "An optimizer step, or another change of the weights, stands between a forward and its backward (GANs, "
                "several losses)\n"
                "DistributedDataParallel called twice before one backward broadcasts its buffers in place\n"
                "An assignment to a parameter itself (a leaf) outside torch.no_grad()",
       .confirm = "torch.autograd.set_detect_anomaly(True) names the forward line",
       .fix = "x = x + y instead of x += y, ReLU(inplace=False), clone() before assigning\n"
              "all backwards before the first optimizer.step()\n"
              "broadcast_buffers=False in DistributedDataParallel\n"
              "with torch.no_grad(): around changes of weights"},
      {.name = "loss-not-scalar",
       .when = {"grad can be implicitly created only for scalar outputs"},
       .what = "backward was called on a loss that is no single number",
       .cause =
           "The loss was not reduced: reduction='none', a loss for each sample or token, or the logits themselves\n"
           "DataParallel gives one loss for each GPU\n"
           "Several losses were stacked, or a tensor was added that has more than one element",
       .confirm = "print(loss.shape) just before backward",
       .fix = "loss.mean() or loss.sum() before backward\n"
              "loss = loss.mean() under DataParallel, or CUDA_VISIBLE_DEVICES=0, or torchrun\n"
              "loss.backward(gradient=…), where a vector is meant"},
      {.name = "no-gradient",
       .when = {"does not require grad and does not have a grad_fn"},
       .what = "the loss does not depend on anything that trains",
       .cause = "All parameters are frozen, or the adapters are: loaded without is_trainable=True, or not active\n"
                "Gradient checkpointing with frozen embeddings (adapters) loses the graph\n"
                "Forward ran under no_grad or inference_mode, or the loss was made from detached values (.item(), "
                "argmax, NumPy, a new tensor)",
       .confirm = "loss.requires_grad; [n for n, p in model.named_parameters() if p.requires_grad]",
       .fix = "with adapters and checkpointing: model.enable_input_require_grads(), or "
              "gradient_checkpointing_kwargs={'use_reentrant': False}\n"
              "PeftModel.from_pretrained(…, is_trainable=True); requires_grad_(True) on what shall train\n"
              "compute the loss from the model's own output, outside no_grad, without .item() or torch.tensor(…)",
       .command = "plimsoll train --lora-rank 8 or --freeze PATTERN recomputes correctly",
       .tellings = {{.when = {"none of the inputs have requires_grad"},
                     .what = "the loss does not depend on anything that trains: gradient checkpointing got inputs that "
                             "need no gradients",
                     .cause = "Gradient checkpointing with frozen",
                     .fix = "with adapters and checkpointing"}}},
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
       .cause =
           "A model in F16 or BF16 runs on the CPU: torch_dtype was set, and the model was not moved, or no GPU is "
           "visible\n"
           "The operation has no kernel for that type in this PyTorch, on the GPU either (quantile, eig, some losses)",
       .confirm = "next(model.parameters()).device and .dtype",
       .fix = "model.to('cuda') (see that torch.cuda.is_available()), or model.float() on the CPU\n"
              "x.float() around that operation\n"
              "a newer PyTorch, which has more kernels",
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
                "expected tensor for argument #1 'indices'", "expected dtype int64 for index"},
       .refines = {"dtype-mismatch", "half-on-cpu"},
       .what = "labels or indices are not whole numbers of 64 bits",
       .cause = "Labels or ids became floats: a column with empty cells, NumPy's or pandas' division, torch.tensor of "
                "floats\n"
                "They are whole numbers of fewer bits (int32, 'Int'): NumPy's default on Windows, torch.int32, .int()\n"
                "The arguments are swapped, or features were passed where token ids belong (an embedding takes ids)\n"
                "The loss takes class numbers, and got one-hot rows or probabilities",
       .confirm = "print {k: v.dtype for k, v in batch.items()}",
       .fix = "labels.long(), or torch.tensor(labels, dtype=torch.long), and the same for input_ids\n"
              "loss_fn(logits, labels) in this order; inputs_embeds instead of input_ids for vectors\n"
              "labels.argmax(-1) for one-hot rows; BCEWithLogitsLoss or MSELoss where floats are meant",
       .command = "plimsoll check --model DIR --data pages.jsonl",
       .tellings = {{.when = {"for 'int'", "for 'short'", "for 'byte'", "for 'char'", "found int$", "found int ",
                              "got int$", "type int ", "got torch.cuda.inttensor", "got torch.inttensor"},
                     .cause = "They are whole numbers"}}},
      {.name = "dtype-double",
       .when = {"but got scalar type double", "expected float but got double", "but found double",
                "expected scalar type float but found double", "expected double but got float",
                "but got torch.doubletensor", "torch.doubletensor) and weight type", "same dtype, but got double and",
                "same dtype, but got float and double", "got: double !=", "got: float != double",
                "input type (double) and", "input type (torch.cuda.doubletensor) and",
                "input type (torch.doubletensor) and"},
       .refines = {"dtype-mismatch", "device-mismatch"},
       .what = "an operation got floats of 64 bits beside floats of 32 bits",
       .cause = "The data are NumPy arrays or Python floats: their floats have 64 bits unless told otherwise, and "
                "torch.from_numpy keeps them\n"
                "The model or a parameter was made .double(), and its input was not\n"
                "A class weight, a target or a constant in the loss has 64 bits",
       .confirm = "print {k: v.dtype for k, v in batch.items()} and {p.dtype for p in model.parameters()}",
       .fix = "x.float(), or array.astype(numpy.float32), where the batch is made\n"
              "model.double() where 64 bits are meant\n"
              "torch.get_default_dtype(): no set_default_dtype(torch.float64)"},
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
       .cause = "The model is in half precision and its input (pixel_values above all) in F32, or the reverse\n"
                "A part of the model kept another type: adapters, a new head, norms or lm_head that were cast to F32 "
                "(prepare_model_for_kbit_training), a buffer\n"
                "Forward runs without autocast: generation, evaluation or a loop of your own, on a model that was "
                "trained with it\n"
                "The two tensors come from different sources: a target, a mask, a cache or a constant",
       .confirm = "print {k: v.dtype for k, v in batch.items()} and {p.dtype for p in model.parameters()}",
       .fix =
           "x.to(model.dtype) on the inputs; or keep the model in F32 and train under autocast (fp16=True, bf16=True)\n"
           "with torch.autocast('cuda', dtype=torch.bfloat16): around forward and generate\n"
           "cast the odd part: head.to(model.dtype), or all of model.to(torch.bfloat16)\n"
           "bnb_4bit_compute_dtype equal to the type of training, for 4 bits",
       .command = "plimsoll train --bf16 or --fp16 keeps types apart by itself",
       // The first is the input's type, the second the weights'.
       .tellings = {{.when = {"got half and float", "got bfloat16 and float", "got: c10::half != float",
                              "got: c10::bfloat16 != float", "input type (c10::half) and bias type (float)",
                              "input type (c10::bfloat16) and bias type (float)",
                              "halftensor) and weight type (torch.cuda.floattensor)",
                              "cudabfloat16type) and weight type (torch.cuda.floattensor)"},
                     .what = "an operation got an input in half precision, and weights in F32",
                     .cause = "A part of the model kept another type",
                     .fix = "with torch.autocast"},
                    {.when = {"got float and half", "got float and bfloat16", "got: float != c10::half",
                              "got: float != c10::bfloat16", "input type (float) and bias type (c10::half)",
                              "input type (float) and bias type (c10::bfloat16)",
                              "floattensor) and weight type (torch.cuda.halftensor)",
                              "floattensor) and weight type (cudabfloat16type)",
                              "floattensor) and weight type (torch.halftensor)"},
                     .what = "an operation got an input in F32, and weights in half precision",
                     .cause = "The model is in half precision",
                     .fix = "x.to(model.dtype)"}}},
      {.name = "bf16-unsupported",
       .when = {"does not support bfloat16", "setup doesn't support bf16", "bf16 mixed precision requires",
                "--tf32 requires ampere", "bfloat16 is only supported on gpus", "bf16/gpu", "bfloat16 is not supported",
                "bf16 is not supported", "current device does not support bfloat16", "device does not support bf16"},
       .what = "this GPU has no bfloat16",
       .cause = "The GPU is older than Ampere (compute capability 8.0): T4, V100 and older have no bfloat16\n"
                "PyTorch sees no GPU at all: a CPU build, no driver, a job without one\n"
                "PyTorch is older than 1.10, or its CUDA than 11.0",
       .confirm = "torch.cuda.is_available(); torch.cuda.get_device_capability(); torch.version.cuda",
       .fix = "fp16=True instead of bf16=True, with F32 weights\n"
              "make the GPU visible, if torch.cuda.is_available() is False\n"
              "tf32=False, bf16=False; a newer PyTorch",
       .command = "plimsoll train --bf16 runs on any processor"},
      {.name = "fp16-without-gpu",
       .level = Level::kConsequence,
       .when = {"fp16 mixed precision*requires a gpu", "fp16 mixed precision*can only be used on",
                "fp16 half precision evaluation*can only be used on", "fp16=true*requires a gpu",
                "fp16 mixed precision requires", "can only be used on cuda devices", "with fp16 requires a gpu"},
       .what = "fp16 was asked for where there is no GPU",
       .cause = "PyTorch sees no GPU: a notebook or job without one, or CUDA_VISIBLE_DEVICES that hides it\n"
                "PyTorch is a CPU build, or the driver does not work\n"
                "The machine has none (a Mac): this fp16 needs CUDA",
       .confirm = "torch.cuda.is_available(); torch.version.cuda; nvidia-smi",
       .fix = "choose a runtime or job with a GPU\n"
              "install PyTorch for CUDA, or repair the driver: plimsoll doctor\n"
              "fp16=False (and fp16_full_eval=False)",
       .command = "plimsoll train --fp16 or --bf16 run on the processor"},
  };
}

}  // namespace plimsoll::doctor
