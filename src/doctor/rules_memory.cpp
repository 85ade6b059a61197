// The device's memory ran out: where in a run, and why.
#include "doctor/rule.h"

namespace plimsoll::doctor {
namespace {

// XLA: JAX, PyTorch/XLA and TensorFlow, on TPUs and GPUs.
const AnyOf kXla = {"ran out of memory in memory space",
                    "resource_exhausted: attempting to reserve",
                    "resource_exhausted: attempting to allocate",
                    "resource exhausted: attempting to reserve",
                    "resource exhausted: attempting to allocate",
                    "attempting to reserve*that was not possible",
                    "attempting to allocate*that was not possible",
                    "exceeded hbm capacity by",
                    "resource_exhausted: error loading program",
                    "resource_exhausted: error allocating device buffer",
                    "resource_exhausted: failed to allocate request",
                    "resource_exhausted: out of memory while trying to allocate",
                    "resource_exhausted: out of memory allocating",
                    "resource exhausted: out of memory while trying to allocate",
                    "out of memory while trying to allocate*bytes",
                    "resource exhausted: from /job:",
                    "resource_exhausted: from /job:",
                    "xlaruntimeerror: resource_exhausted",
                    "jaxruntimeerror: resource_exhausted"};

AnyOf with_xla(AnyOf patterns) {
  patterns.insert(patterns.end(), kXla.begin(), kXla.end());
  return patterns;
}

const AnyOf kOutOfMemory = with_xla({"cuda driver error: out of memory",
                                     "cudamalloc failed: out of memory",
                                     "nvml_success ==",
                                     "oom when allocating tensor",
                                     "cuda out of memory",
                                     "outofmemoryerror:",
                                     "cuda error: out of memory",
                                     "cuda runtime error (2)",
                                     "hip out of memory",
                                     "hip error: out of memory",
                                     "xpu out of memory",
                                     "npu out of memory",
                                     "would exceed allowed memory. (out of memory)",
                                     "cuda_error_out_of_memory",
                                     "cudaerrormemoryallocation",
                                     "mps backend out of memory",
                                     "triton error [cuda]: out of memory",
                                     "cuda failure 'out of memory'",
                                     "cuda failure 2 'out of memory'",
                                     "resource_exhausted: out of memory",
                                     "resource exhausted: out of memory",
                                     "hiperroroutofmemory",
                                     "hipblas_status_alloc_failed",
                                     "cublas_status_alloc_failed"});

bool is_larger_than_device(const OomNumbers& n, const LogFacts&) { return wants_more_than_all(n); }
bool is_held_by_others(const OomNumbers& n, const LogFacts&) { return others_hold_much(n); }
// Gaps count if the device is mostly this process's; otherwise the memory that others hold is the problem.
bool is_fragmented_by_itself(const OomNumbers& n, const LogFacts&) {
  return is_fragmented(n) && !(n.others && n.reserved && *n.others > *n.reserved);
}
bool is_fragmented_with_room(const OomNumbers& n, const LogFacts& f) {
  return is_fragmented_by_itself(n, f) && !n.filled_by_tensors();
}
bool is_fragmented_and_full(const OomNumbers& n, const LogFacts& f) {
  return is_fragmented_by_itself(n, f) && n.filled_by_tensors();
}

bool memory_grows(const OomNumbers&, const LogFacts& facts) { return facts.trend.grows; }
bool is_held_by_hidden(const OomNumbers& n, const LogFacts& facts) {
  return facts.has_hidden_process() && (!n.tells() || others_hold_much(n));
}

constexpr std::string_view kPlan =
    "plimsoll plan --model DIR --data pages.jsonl --budget SIZE says before the first step what fits, and what to "
    "change where it does not";

}  // namespace

std::vector<Rule> memory_rules() {
  // If several match, the first in this table wins: what the numbers prove comes before what the traceback suggests.
  return {
      {.name = "oom-larger-than-device",
       .when = kOutOfMemory,
       .holds = is_larger_than_device,
       .reads_numbers = true,
       .refines = {"oom", "oom-forward", "oom-attention", "oom-backward", "oom-no-numbers"},
       .what = "one tensor is larger than the whole device",
       .cause = "Attention's scores, or all pairs of something, over a very long sequence: they grow with the square "
                "of the length\n"
                "The batch, images or sequences are much larger than meant: not resized, not truncated, no limit on "
                "the length\n"
                "A shape is wrong: (N, 1) broadcast against (N), dimensions swapped, class ids or a vocabulary as "
                "one-hot rows",
       .confirm = "print the shapes just before the line at the traceback's end; multiply them by 4 bytes (2 in half "
                  "precision)",
       .fix = "truncate the sequences (max_length=512), resize the images, or make the batch smaller\n"
              "attn_implementation='sdpa' or 'flash_attention_2', or compute in pieces, so that the tensor is never "
              "made whole\n"
              "correct the line whose shape is wrong; no allocator setting can help",
       .command = "plimsoll plan --explain shows the largest tensors before the run"},
      {.name = "oom-growth",
       .when = kOutOfMemory,
       .holds = memory_grows,
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers", "oom-forward", "oom-attention", "oom-backward", "oom-loss",
                   "oom-fragmentation", "oom-evaluation", "oom-optimizer-step"},
       .what = "memory grew from line to line of the log until the device was full: something keeps tensors",
       .cause = "Tensors that still hold their graph are collected: losses added up without .item(), outputs in a "
                "list, hidden states carried from step to step\n"
                "An evaluation between epochs keeps its outputs, or is not under torch.no_grad()\n"
                "Sequences or images, and with them batches, become larger over the run\n"
                "Models, trainers or optimizers of earlier trials in the same process (folds, a search, a notebook's "
                "cells) are still referenced",
       .confirm = "torch.cuda.memory_allocated() after each epoch: it rises; then a snapshot and plimsoll doctor "
                  "--snapshot FILE names the line that keeps them",
       .fix = "total += loss.item(); .detach().cpu() what is kept; torch.no_grad() around evaluation\n"
              "del outputs, loss at the end of a step; a fixed maximum length\n"
              "between trials del model, optimizer, trainer, then gc.collect() and torch.cuda.empty_cache(); or a "
              "process for each",
       .command = "plimsoll train has one arena of fixed size, and follows the process's memory over the run"},
      {.name = "oom-zombie",
       .when = kOutOfMemory,
       .holds = is_held_by_hidden,
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers", "oom-weights", "oom-forward", "oom-attention", "oom-backward", "oom-loss",
                   "oom-other-processes"},
       .what = "the device is full, held by a process that nvidia-smi does not list",
       .cause = "A run that was killed left processes behind (data loader workers, other ranks)\n"
                "The process is in another container or belongs to another user",
       .confirm = "sudo fuser -v /dev/nvidia*; ps aux | grep python",
       .fix = "kill what fuser lists: sudo fuser -k /dev/nvidia0, if all of it is yours\n"
              "another GPU with CUDA_VISIBLE_DEVICES; else nvidia-smi --gpu-reset, or a reboot",
       .command = "plimsoll doctor says who holds the device"},
      {.name = "oom-other-processes",
       .when = kOutOfMemory,
       .holds = is_held_by_others,
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers", "oom-weights", "oom-forward", "oom-attention", "oom-backward", "oom-loss"},
       .what = "the device is full, and much of it is held by other processes",
       .cause =
           "Another run, a notebook whose kernel still lives, or an inference server holds the memory that is missing\n"
           "A dead run's leftover worker or rank still holds it\n"
           "The other ranks of this run use the same GPU: torch.cuda.set_device(local_rank) or map_location is missing",
       .confirm = "nvidia-smi, or `plimsoll doctor`, lists who holds what; sudo fuser -v /dev/nvidia* finds "
                  "processes that nvidia-smi does not list",
       .fix = "end the other processes (restart notebook kernels), or choose another GPU with CUDA_VISIBLE_DEVICES\n"
              "torch.cuda.set_device(local_rank) and torch.load(…, map_location='cpu') in every rank, if the processes "
              "are ranks of this run\n"
              "where another must stay: a smaller batch, or a smaller share for it (vLLM: gpu_memory_utilization)",
       .command = "plimsoll doctor; then plimsoll plan --device-memory with what is really free"},
      {.name = "oom-fragmentation",
       .when = kOutOfMemory,
       // A tensor that grows by concatenation asks for a larger piece each time, which is not the allocator's fault.
       .without = {"nested_concat", "torch_pad_and_concatenate", "preds_host", "all_preds", "all_logits",
                   "dynamiccache", "cache_utils.py", "past_key_value[", "past_key_values[", "past_key_value.",
                   "past_key_values.", "in generate"},
       .holds = is_fragmented_with_room,
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers", "oom-forward", "oom-attention", "oom-backward", "oom-loss",
                   "oom-optimizer-step"},
       .what = "the device has enough free memory, but in pieces that are too small",
       .cause = "Batches of changing length leave gaps between the allocator's blocks (fragmentation): more is "
                "reserved but unallocated than was asked for\n"
                "The run needs nearly all of the device besides, so that the gaps count",
       .confirm = "torch.cuda.memory_summary(): \"inactive split\" is large; or dump a snapshot and run plimsoll "
                  "doctor --snapshot FILE",
       .fix = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1 or later; earlier max_split_size_mb:128)\n"
              "pad to few lengths: pad_to_multiple_of=64, or padding='max_length'\n"
              "a slightly smaller batch or maximum length; torch.cuda.empty_cache() before evaluation",
       .command = "plimsoll train has one arena with fixed offsets, where nothing can be fragmented"},
      {.name = "oom-full",
       .when = kOutOfMemory,
       .without = {"nested_concat", "torch_pad_and_concatenate", "preds_host", "all_preds", "all_logits",
                   "dynamiccache", "cache_utils.py", "past_key_value[", "past_key_values[", "past_key_value.",
                   "past_key_values.", "in generate"},
       .holds = is_fragmented_and_full,
       .reads_numbers = true,
       .saves_memory = true,
       .refines = {"oom", "oom-no-numbers", "oom-forward", "oom-attention", "oom-backward", "oom-loss",
                   "oom-optimizer-step"},
       .what = "the run is too large for the device; and some of what is left lies in pieces that are too small",
       .cause = "This process's tensors alone fill over three quarters of the device: batch, length or model are too "
                "large for it\n"
                "Batches of changing length leave gaps between the allocator's blocks (fragmentation), which hold "
                "more than was asked for",
       .confirm = "half the batch passes; torch.cuda.memory_summary(): \"inactive split\" is large",
       .fix = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against the gaps (PyTorch 2.1 or later; earlier "
              "max_split_size_mb:128): a help beside the others, seldom enough alone",
       .command = kPlan},
      {.name = "oom-auto-batch-size",
       .when = {"no executable batch size found"},
       .reads_numbers = true,
       .saves_memory = true,
       .refines = {"oom"},
       .what = "the batch size was halved down to zero, and nothing fitted",
       .cause = "Weights, gradients and the optimizer's state alone do not fit\n"
                "Another process, or an earlier model in this notebook, holds the device\n"
                "An earlier failure's tensors were never freed, so that each smaller batch failed for them",
       .confirm = "run with batch size 1 in a fresh process, and look at where it fails",
       .command = kPlan},
      {.name = "oom-optimizer-step",
       .when = kOutOfMemory,
       .with = {{"/optim/", "\\optim\\", "optimizer.step(", "exp_avg", "_init_group", "scaler.step(",
                 "in optimizer_step"}},
       .without = {"in load_state_dict", "in _load_optimizer", "in _load_optimizer_and_scheduler"},
       .reads_numbers = true,
       .saves_memory = true,
       .refines = {"oom", "oom-backward", "oom-no-numbers"},
       .what = "the device is full at the optimizer's step",
       .cause = "AdamW makes its two moments (8 bytes a parameter) at its first step, after forward and backward had "
                "fitted\n"
                "The batch takes so much that little is left for them: a smaller one fits\n"
                "Multi-tensor (foreach) updates take copies besides",
       .confirm =
           "it fails at step 1, after a whole backward; 8 bytes x the number of parameters is about what is missing",
       .fix = "an 8-bit optimizer: optim='adamw_8bit' (package bitsandbytes), or optim='adafactor'\n"
              "foreach=False, or fused=True, with torch's own AdamW",
       .command =
           "plimsoll train --optim adamw_8bit --budget SIZE; the plan holds the optimizer's state before step 1"},
      {.name = "oom-evaluation",
       .when = kOutOfMemory,
       .with = {{"in evaluate",
                 "in trainer.evaluate",
                 ".evaluation_loop(",
                 "evaluation_loop",
                 "prediction_step",
                 "prediction_loop",
                 "nested_concat",
                 "torch_pad_and_concatenate",
                 "pad_across_processes",
                 "in predict",
                 "in validate",
                 "in validation_step",
                 "in eval_epoch",
                 "in eval_step",
                 "in test_step",
                 "in run_evaluation",
                 "all_preds",
                 "preds_host",
                 "compute_metrics",
                 "eval_loop",
                 "trainer.evaluate(",
                 "_evaluate("}},
       .reads_numbers = true,
       .refines = {"oom", "oom-forward", "oom-attention", "oom-no-numbers", "oom-loss"},
       .what = "the device is full during evaluation",
       .cause = "The outputs of every evaluated batch are kept on the device until the end, as the Trainer does with "
                "logits\n"
                "The evaluation's batch, sequences or images are larger than training's, beside training's state\n"
                "The loop runs without torch.no_grad(), so that every batch keeps its graph\n"
                "What training has cached or keeps (gradients, optimizer state) leaves little",
       .confirm = "memory grows with every evaluated batch (nvidia-smi -l 1); the first evaluation fails, training "
                  "steps do not",
       .fix = "a smaller per_device_eval_batch_size; torch.no_grad() and .cpu() in a loop of your own\n"
              "eval_accumulation_steps=1, and preprocess_logits_for_metrics that returns argmax\n"
              "prediction_loss_only=True where no metric is needed\n"
              "torch.cuda.empty_cache() before evaluation; zero_grad(set_to_none=True)",
       .command = "plimsoll eval streams: it keeps counts, not logits; plimsoll train --eval-data plans evaluation "
                  "with training"},
      {.name = "oom-resume",
       .when = kOutOfMemory,
       .with = {{"_load_optimizer", "in load_checkpoint", "load_optimizer_state", "optimizer.load_state_dict",
                 "in load_training_state", "torch.load(", "_load_from_checkpoint", "in load_state_dict"}},
       .without = {"in from_pretrained", "_load_pretrained_model"},
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers", "oom-weights"},
       .what = "the device is full while a checkpoint is loaded",
       .cause = "torch.load puts every tensor back on the GPU that it was saved from, beside the model that is already "
                "there: for a moment two copies of weights and optimizer state\n"
                "Every rank loads the checkpoint onto GPU 0, for map_location is missing\n"
                "The run before was near the limit, or another process holds a part of the device now",
       .confirm = "the traceback stands in torch.load or load_state_dict, before the first step",
       .fix =
           "torch.load(path, map_location='cpu', mmap=True), load, then delete the loaded dictionary before training\n"
           "end what else holds the device (nvidia-smi)\n"
           "a smaller batch, if the first step after it fails, too",
       .command = "plimsoll train --resume-from-checkpoint fits whenever the run itself fitted"},
      {.name = "oom-save",
       .when = kOutOfMemory,
       .with = {{"save_checkpoint",       "in save_model",       "in save_pretrained",     "torch.save(",
                 "_save_optimizer",       "get_state_dict",      "consolidate_state_dict", "full_state_dict",
                 "gather_16bit",          "in state_dict",       ".state_dict()",          "_pre_state_dict_hook",
                 "_post_state_dict_hook", "_unshard_fsdp_state", "safe_save_model",        "failed to clone() tensor",
                 "in _save_checkpoint",   "_summon_full_params", "in _optim_state_dict",   "in full_optim_state_dict"}},
       .without = {"in load_state_dict", "in _load_optimizer", "in load_checkpoint"},
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers", "oom-forward", "oom-weights"},
       .what = "the device is full while a checkpoint is saved",
       .cause =
           "Saving gathers parameters or optimizer state on the device (FSDP's full state dict, ZeRO-3, tensor "
           "parallel) beside those in use\n"
           "Weights are copied or merged on the device: EMA, a clone of the state dict, adapters merged into the model",
       .confirm = "training steps pass, the failure comes at save_steps",
       .fix = "save sharded (SHARDED_STATE_DICT), or offload to the CPU: FullStateDictConfig(offload_to_cpu=True, "
              "rank0_only=True)\n"
              "copy to the CPU first: {k: v.cpu() for k, v in model.state_dict().items()}\n"
              "torch.cuda.empty_cache() before the save",
       .command = "plimsoll train writes checkpoints from its arena: saving takes no device memory of its own"},
      {.name = "oom-weights",
       .when = kOutOfMemory,
       .with = {{"in from_pretrained", "_load_state_dict_into", "in _apply", "in convert", "model.to(", "model.cuda(",
                 "model = model.to", "_move_model_to_device", "set_module_tensor_to_device", "caching_allocator_warmup",
                 "load_checkpoint_in_model", "_load_pretrained_model", ".half().cuda()"}},
       .without = {"in training_step", "loss.backward(", "in backward", "in evaluate", "in trainer.evaluate",
                   ".evaluation_loop(", "in forward", ".forward(", ".training_step("},
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers"},
       .what = "the weights alone do not fit the device",
       .cause = "The model is too large for the device in this type: 4 bytes a parameter in F32, 2 in half precision, "
                "about 0.6 in 4 bits\n"
                "The device is partly held: another process, all ranks on GPU 0, an earlier copy of the model in this "
                "notebook\n"
                "Loading holds two copies for a moment: the model and its state dict",
       .confirm = "parameters x 4 bytes (2 in half precision) against the device's free memory; training AdamW needs "
                  "16 bytes a parameter",
       .fix = "end what else holds the device (nvidia-smi), or restart the notebook's kernel\n"
              "load in half precision (torch_dtype=torch.bfloat16), or in 4 bits with adapters to train\n"
              "FSDP or ZeRO-3 over several GPUs to train; device_map='auto' to predict\n"
              "a larger device, or a smaller model",
       .command = "plimsoll plan --device-memory SIZE; --load-in-8bit and --load-in-4bit hold frozen weights small"},
      {.name = "oom-generate",
       .when = kOutOfMemory,
       // A notebook's frames list every forward's arguments, past_key_values among them.
       .with = {{"in generate", "past_key_value[", "past_key_values[", "past_key_value.", "past_key_values.",
                 "dynamiccache", "cache_utils.py"}},
       .without = {"in training_step", ".training_step(", "loss.backward(", "in batched_forward_pass",
                   ".batched_forward_pass("},
       .reads_numbers = true,
       .refines = {"oom", "oom-forward", "oom-attention", "oom-no-numbers"},
       .what = "the device is full while text is generated",
       .cause = "The cache of keys and values grows with every token, sequence and beam\n"
                "Prompts are long, or many are generated for at once\n"
                "Training's gradients and optimizer state are on the device besides (generation during training or "
                "evaluation)",
       .confirm = "memory grows as generation goes on; it fits with max_new_tokens small",
       .fix = "a smaller batch for generation, fewer beams or sequences a prompt, a smaller max_new_tokens\n"
              "cut the prompts (max_length), torch.no_grad(), half precision\n"
              "cache_implementation='offloaded', where it must be long"},
      {.name = "oom-ddp",
       .when = kOutOfMemory,
       .with = {{"_ddp_init_helper", "dist.reducer", "_broadcast_coalesced", "_sync_module_states",
                 "parallel/distributed.py*in __init__"}},
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers"},
       .what = "the device is full when DistributedDataParallel makes its buckets",
       .cause = "DDP holds a second copy of the gradients in its buckets; or every rank has put its model on GPU 0",
       .confirm = "nvidia-smi: are all ranks on GPU 0? Then torch.cuda.set_device(local_rank) is missing",
       .fix = "torch.cuda.set_device(local_rank) before anything else; gradient_as_bucket_view=True"},
      {.name = "oom-loss",
       .when = kOutOfMemory,
       .with = {{"in cross_entropy", "crossentropyloss", "logits.float()", "log_softmax", "loss_function("}},
       .reads_numbers = true,
       .saves_memory = true,
       .refines = {"oom", "oom-forward", "oom-no-numbers"},
       .what = "the device is full when the loss is computed",
       .cause = "The logits (batch x length x classes in F32) and their softmax are the largest tensors where there "
                "are many classes or a vocabulary\n"
                "The batch or the sequences are too large for the device",
       .confirm = "batch x length x classes x 4 bytes is near what was wanted",
       .fix = "a loss that never makes all logits: use_liger_kernel=True in TrainingArguments, or cross-entropy in "
              "pieces\n"
              "the loss on labelled tokens only",
       .command = kPlan},
      {.name = "oom-policy",
       .when = kOutOfMemory,
       .with = {{"in batched_forward_pass", ".batched_forward_pass(", "in _get_per_token_logps",
                 "_get_per_token_logps(", "modeling_value_head.py", "in logprobs_from_logits",
                 "logprobs_from_logits("}},
       .without = {"in backward", "run_backward", "loss.backward(", ".backward(loss", "in generate", "optimizer.step("},
       .reads_numbers = true,
       .refines = {"oom", "oom-forward", "oom-no-numbers", "oom-loss", "oom-generate", "oom-attention"},
       .what = "the device is full in the policy's forward pass over prompts and responses, whose logits span the "
               "vocabulary",
       .cause =
           "Reinforcement learning (PPO, GRPO) scores each generated text again: batch x length x vocabulary numbers, "
           "in F32 where a value head or the log-probabilities convert them (logits.float()), once more for the "
           "reference model\n"
           "Prompts and responses are long, or many are scored at once\n"
           "The policy, the reference model and the optimizer's state already fill most of the device",
       .confirm =
           "batch x length x vocabulary x 4 bytes is near what was wanted; the traceback stands in the step, not "
           "in generate",
       .fix = "a smaller mini_batch_size and batch_size (PPOConfig), or per_device_train_batch_size, with "
              "gradient_accumulation_steps\n"
              "shorter prompts and responses (max_new_tokens, max_completion_length)\n"
              "adapters (peft) on an 8-bit or 4-bit base model, which serves as reference model, too\n"
              "gradient_checkpointing=True, an 8-bit optimizer, a smaller model or a larger GPU",
       .command = kPlan},
      {.name = "oom-attention",
       .when = kOutOfMemory,
       .with = {{"attention_scores", "baddbmm", "scaled_dot_product", "attn_weights", "eager_attention_forward",
                 "attention_probs", "cogview_attention", "_attn("}},
       .without = {"in backward", "run_backward", "loss.backward("},
       .reads_numbers = true,
       .saves_memory = true,
       .refines = {"oom", "oom-forward", "oom-no-numbers"},
       .what = "the device is full in attention",
       .cause = "Attention's scores take batch x heads x length x length numbers, several times over: they grow "
                "with the square of the length",
       .confirm = "the traceback ends in the attention layer; half the length frees three quarters of it",
       .command = "plimsoll train keeps no attention scores, and picks the micro-batch that fits: --budget SIZE"},
      {.name = "oom-backward",
       .when = kOutOfMemory,
       .with = {{"in backward", "run_backward", ".backward("}},
       .reads_numbers = true,
       .saves_memory = true,
       .refines = {"oom", "oom-forward", "oom-no-numbers"},
       .what = "the device is full in backward",
       .cause = "All activations of the batch are still alive when the gradients come: the peak of a step without a "
                "large optimizer\n"
                "The longest sequences or largest images of the data came just then\n"
                "Something keeps tensors from earlier steps, if it comes after many of them",
       .confirm = "it fails in the first step, or when a long sequence comes by; half the batch passes",
       .command = "plimsoll train --budget SIZE keeps the effective batch and picks the micro-batch and what to "
                  "compute again"},
      {.name = "oom-forward",
       .when = kOutOfMemory,
       .with = {{"in forward", ".forward(", "_call_impl", "in training_step", "in compute_loss"}},
       .reads_numbers = true,
       .saves_memory = true,
       .refines = {"oom", "oom-no-numbers"},
       .what = "the device is full in forward: activations",
       .cause =
           "Forward keeps the activations of every layer for backward: they grow with batch x length, beside weights, "
           "gradients and the optimizer's state\n"
           "If it comes after many steps: the longest sequence or largest image came then, or something keeps tensors "
           "(losses summed without .item())\n"
           "If it comes in the first step with a small batch: the weights, or another process, already fill the device",
       .confirm =
           "half the batch, or shorter sequences, pass; torch.cuda.memory_allocated() after each step does not rise",
       .command = "plimsoll train --budget SIZE: the longest page is known before the first step"},
      {.name = "vllm-memory",
       .when = {"no available memory for the cache blocks", "is less than desired gpu memory utilization",
                "is larger than the maximum number of tokens that can be stored in kv cache",
                "gib kv cache is needed, which is larger than the available kv cache"},
       .refines = {"oom", "oom-no-numbers"},
       .what = "vLLM does not find the GPU memory that it was told to take",
       .cause = "Training, or another process, holds the same GPU: vLLM takes 90 % of it unless told otherwise\n"
                "The model's weights leave no room for the cache of keys and values at this max_model_len\n"
                "An earlier engine in this process or notebook was not freed",
       .confirm = "nvidia-smi before the start; the figures in the message",
       .fix = "a smaller max_model_len (vllm_max_model_length in trl): the message may estimate the largest\n"
              "gpu_memory_utilization larger where the GPU is vLLM's alone, smaller (vllm_gpu_memory_utilization=0.3) "
              "where training shares it\n"
              "end what else holds the GPU; restart the notebook\n"
              "tensor_parallel_size over more GPUs, a quantised or smaller model",
       .tellings = {{.when = {"is larger than the maximum number of tokens that can be stored in kv cache",
                              "gib kv cache is needed, which is larger than the available kv cache"},
                     .what = "the GPU has no room for vLLM's cache of keys and values at this max_model_len",
                     .cause = "The model's weights leave no room",
                     .fix = "a smaller max_model_len"}}},
      {.name = "oom-pinned",
       .when = {"pin memory thread*error", "cudahostalloc", "cuda error*pin_memory", "in pin_memory",
                "host memory*pinned*fail"},
       .anywhere = {{"out of memory", "invalid argument", "operation not supported", "resource"}},
       .refines = {"oom", "oom-no-numbers"},
       .what = "the host's pinned memory ran out",
       .cause =
           "pin_memory=True locks pages of host memory; a container's limit, WSL or a small machine allows few\n"
           "The GPU itself is full: the pinning thread needs a CUDA context, of GPU 0 unless it is told otherwise\n"
           "An earlier kernel's failure that shows only here",
       .confirm = "nvidia-smi: has the GPU free memory? Then it is the host's; the same run with pin_memory=False",
       .fix = "dataloader_pin_memory=False, fewer workers, a smaller prefetch_factor\n"
              "ulimit -l unlimited, or a larger limit of the container\n"
              "end what else holds the GPU; torch.cuda.set_device(local_rank) before the loader is made",
       .command = "plimsoll train has a plan for host memory too"},
      {.name = "oom-cublas",
       .when = {"cublas_status_alloc_failed", "hipblas_status_alloc_failed"},
       .saves_memory = true,
       .refines = {"oom", "oom-no-numbers", "oom-forward", "oom-backward", "oom-attention", "oom-loss",
                   "oom-evaluation"},
       .what = "cuBLAS could not be started: the GPU's memory is full, or a bad index has broken the GPU's "
               "context before",
       .cause = "PyTorch's allocator has taken the GPU's memory, and cuBLAS's own workspace, made at the first "
                "matrix product, no longer fits\n"
                "An index out of range, which CUDA reports late: a token id beyond the vocabulary (tokens added "
                "without resize_token_embeddings), a position, a token type or a label",
       .confirm = "half the batch passes, or nvidia-smi shows the GPU nearly full: memory. Otherwise run one batch "
                  "on the CPU: \"index out of range in self\" means a bad index",
       .fix = "for an index: model.resize_token_embeddings(len(tokenizer)), truncation=True, labels below "
              "num_labels",
       .command = kPlan},
      {.name = "oom-mps",
       .when = {"mps backend out of memory", "invalid buffer size: ", "total bytes of ndarray > 2**32"},
       .reads_numbers = true,
       .refines = {"oom", "oom-forward", "oom-backward", "oom-weights", "oom-attention", "oom-loss"},
       .what = "the memory that macOS grants to the GPU is used up",
       .cause = "MPS shares the machine's memory and stops at a watermark; the batch, or what other programs hold, is "
                "too large",
       .confirm = "Activity Monitor shows memory pressure; half the batch passes",
       .fix = "a smaller batch, close other programs; PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the watermark and may "
              "make the whole machine swap",
       .command = kPlan},
      {.name = "oom-xla",
       .when = kXla,
       .without = {"larger than max", "quota exceeded", "in memory space vmem"},
       .reads_numbers = true,
       .refines = {"oom", "oom-no-numbers", "oom-forward", "oom-backward", "oom-weights", "oom-attention", "oom-loss",
                   "oom-optimizer-step", "oom-evaluation", "oom-generate"},
       .what = "the accelerator's memory is full: XLA could not place the program or its buffers",
       .cause =
           "Weights, gradients, the optimizer's state and activations of the compiled step together need more than "
           "the device has: batch, sequences or model are too large for it\n"
           "Weights or the optimizer's state are replicated on every device in place of sharded, or the old state "
           "is kept beside the new one because the step does not donate it\n"
           "Padding: a TPU pads the last two dimensions of a tensor to multiples of 8 and 128, so that narrow "
           "shapes take many times their size\n"
           "On a GPU another process, TensorFlow or PyTorch shares the device: JAX takes three quarters of it at its "
           "start",
       .confirm = "the message's list of largest allocations and their shapes; half the batch compiles and runs",
       .fix =
           "a smaller batch for each device, with gradients accumulated over several\n"
           "jax.checkpoint (remat) around each layer, or gradient checkpointing in PyTorch/XLA; bfloat16\n"
           "donate_argnums for the training state; shard weights and optimizer state over the devices (NamedSharding, "
           "FSDP)\n"
           "shorter sequences; shapes whose last dimension is a multiple of 128\n"
           "on a GPU: XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION, where another program "
           "shares it"},
      {.name = "xla-vmem",
       .when = {"ran out of memory in memory space vmem", "exceeded vmem capacity by", "exceeded scoped vmem limit"},
       .refines = {"oom", "oom-xla", "oom-no-numbers"},
       .what = "one kernel needs more of the TPU's on-chip memory (vmem) than there is",
       .cause =
           "A Pallas kernel's blocks are too large, or the compiler fused more than fits; a smaller batch does not "
           "always help\n"
           "This libtpu chooses blocks that an older or newer one does not",
       .confirm = "the largest vmem allocation that the message lists",
       .fix = "smaller blocks in the Pallas kernel (block_q, block_k)\n"
              "LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit_kib=…\n"
              "shorter sequences; another version of jax and libtpu"},
      {.name = "oom-no-numbers",
       .when = {"cuda driver error: out of memory", "cudamalloc failed: out of memory",
                "nvml_success ==", "cuda error: out of memory", "cuda runtime error (2)", "cuda_error_out_of_memory",
                "cudaerrormemoryallocation", "hip error: out of memory", "hiperroroutofmemory"},
       .without = {"thcstorage", "thctensor"},  // PyTorch's own tensors, before 1.11
       .refines = {"oom"},
       .what = "CUDA itself found no memory, outside PyTorch's allocator",
       .cause = "Another process holds the device, which was full before this one began (its context alone takes some "
                "hundred MiB)\n"
                "Other ranks, workers or a forgotten notebook of yours use the same GPU 0\n"
                "A library (NCCL, cuDNN, a captured graph) asked for memory when PyTorch had all: the run itself is "
                "too large",
       .confirm = "nvidia-smi before the start: is the device nearly full?",
       .fix = "end what holds the device (nvidia-smi; sudo fuser -v /dev/nvidia*), or choose another with "
              "CUDA_VISIBLE_DEVICES\n"
              "torch.cuda.set_device(local_rank) before anything else, in runs of several ranks\n"
              "a smaller batch",
       .command = "plimsoll doctor says who holds the device"},
      {.name = "oom",
       .when = kOutOfMemory,
       .reads_numbers = true,
       .saves_memory = true,
       .what = "the device's memory is full",
       .cause = "Weights, gradients, the optimizer's state and activations together need more than the device has: "
                "batch, sequences or model are too large for it\n"
                "Another process, or an earlier model in this notebook, holds a part of the device\n"
                "Something keeps tensors from step to step, if it comes after many of them",
       .confirm = "the traceback's frames say where it happened (forward, backward, the optimizer's step, evaluation); "
                  "nvidia-smi says who else is there",
       .command = kPlan},
      {.name = "host-large-allocation",
       .when = {kEndsInAllocation},
       .refines = {"ended-silently"},
       .what = "the host's memory ran out: the last words are of a large allocation, and then the program was ended",
       .cause = "Colab, Kaggle and their like end a program that needs more memory than the machine has, and show ^C "
                "though nobody pressed it: a data set, images or a checkpoint were read into memory as a whole\n"
                "Somebody stopped it: then the allocation was large, and no failure",
       .confirm = "the bytes in the message against free -h (the RAM display of the notebook) while it runs",
       .fix = "read less at a time: smaller images or parts, memory-mapped files, streaming=True, fewer workers\n"
              "torch.load(…, mmap=True, map_location='cpu'), low_cpu_mem_usage=True and safetensors where weights are "
              "loaded\n"
              "a runtime with more memory (High-RAM)",
       .command = "plimsoll train --budget SIZE keeps within that much memory"},
      {.name = "ended-silently",
       .level = Level::kConsequence,
       .when = {kEndsInInterrupt},
       .refines = {"sequence-warning"},
       .what = "the program was ended with ^C before it trained, and it left no error",
       .cause = "On Colab, Kaggle and their like nobody need have pressed it: they end a program so when the host's "
                "memory is used up, as a rule while weights or data are loaded\n"
                "Somebody stopped it (Ctrl-C, the stop button): because it hung, perhaps",
       .confirm = "the RAM display of the notebook while it runs; whether anybody pressed it",
       .fix = "low_cpu_mem_usage=True, torch_dtype=torch.float16 and safetensors where weights are loaded; a smaller "
              "model, or one sharded into small files\n"
              "a runtime with more memory (High-RAM)\n"
              "py-spy dump --pid PID, where it hangs"},
  };
}

}  // namespace plimsoll::doctor
