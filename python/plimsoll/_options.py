"""The options of each command as keywords: the table that `plimsoll --options` prints.

Made by tools/python_options.py; do not edit.
"""

from __future__ import annotations

import os
from typing import Dict, Literal, NamedTuple, Sequence, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
Size = Union[str, int]  # "3GiB", or bytes


class Option(NamedTuple):
    option: str  # as the command line has it
    type: str  # flag, int, float, str, path or size
    several: bool  # takes a list


class CheckOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    model: Path
    """Hugging Face model directory, or a preset, which has random weights: layoutlmv3-tiny, layoutlmv3-small, layoutlmv3-base, layoutlmv3-large, roberta-tiny, roberta-small, roberta-base, roberta-large, layoutlm-tiny, layoutlm-small, layoutlm-base, layoutlm-large, lilt-tiny, lilt-small, lilt-base"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    data: Union[Path, Sequence[Path]]
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task has it), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, with the first and last (0: the model's limit, at most 512) (default: 0)"""
    stride: int
    """Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128) (default: -1)"""
    truncate: bool
    """Truncate long pages instead of splitting them into windows"""
    cache: Path
    """Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for later epochs and runs; rebuilt when data, tokenizer or options change"""
    task: Union[str, Sequence[str]]
    """What is trained: token-classification, sequence-classification, question-answering, relation-extraction (default: what the model was trained for; a preset: the first). Another than the model's gives it a new head"""
    problem_type: Literal["single_label_classification", "multi_label_classification", "regression"]
    """Of classes of pages: single_label_classification (a name a page), multi_label_classification (a list), regression (a number); default: as the data is"""
    labels: Union[str, Sequence[str]]
    """Label names in order, separated by commas or in a file (default: the model's, else the data's). Names other than the model's give it a new head"""
    eval_data: Union[Path, Sequence[Path]]
    """Evaluation pages to check, also for pages that occur in both"""
    decode_images: bool
    """Decode every image, not only its header: finds damaged, blank and BGR images"""
    places: int
    """Number of places to list for each kind of finding (default: 5)"""
    fix: Union[str, Sequence[str]]
    """Write a copy of --data with certain fixes to boxes: swapped corners, boxes from 0 to 1, boxes that are outside the page by a pixel; OUT.changes.jsonl lists every change; - for standard output"""


CHECK: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "data": Option("--data", "path", True),
    "box_format": Option("--box-format", "str", False),
    "segment_boxes": Option("--segment-boxes", "flag", False),
    "max_length": Option("--max-length", "int", False),
    "stride": Option("--stride", "int", False),
    "truncate": Option("--truncate", "flag", False),
    "cache": Option("--cache", "path", False),
    "task": Option("--task", "str", False),
    "problem_type": Option("--problem-type", "str", False),
    "labels": Option("--labels", "str", False),
    "eval_data": Option("--eval-data", "path", True),
    "decode_images": Option("--decode-images", "flag", False),
    "places": Option("--places", "int", False),
    "fix": Option("--fix", "str", False),
}


class TrainOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    model: Path
    """Hugging Face model directory, or a preset, which has random weights: layoutlmv3-tiny, layoutlmv3-small, layoutlmv3-base, layoutlmv3-large, roberta-tiny, roberta-small, roberta-base, roberta-large, layoutlm-tiny, layoutlm-small, layoutlm-base, layoutlm-large, lilt-tiny, lilt-small, lilt-base"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    data: Union[Path, Sequence[Path]]
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task has it), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, with the first and last (0: the model's limit, at most 512) (default: 0)"""
    stride: int
    """Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128) (default: -1)"""
    truncate: bool
    """Truncate long pages instead of splitting them into windows"""
    cache: Path
    """Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for later epochs and runs; rebuilt when data, tokenizer or options change"""
    output_dir: Path
    """Checkpoints (checkpoint-N), the final model, metrics.jsonl, plan.json, summary.json, args.json"""
    overwrite_output_dir: bool
    """If --output-dir holds a finished run, move it to earlier-N in it and start a new run (default: refuse)"""
    device: Union[str, Sequence[str]]
    """Device to compute on: cpu, cuda, or cuda:N for GPU number N (default: cpu, even if there is a GPU)"""
    enforce_eager: bool
    """With --device cuda: launch kernels one by one instead of as CUDA graphs; slower, same numbers. With CUDA_LAUNCH_BLOCKING=1 a debugger stops at the failing kernel"""
    budget: Size
    """Memory limit for the whole process, or for the GPU with --device cuda: 3GiB (of 1024^3 bytes, as 3g), 3GB (of 1000^3), 900MiB (default: 95 % of the free memory)"""
    host_budget: Size
    """With --device cuda: limit for the machine's own memory (default: 95 % of the free memory)"""
    dataloader_num_workers: int
    """Threads that load pages in the background (-1: chosen by the number of cores) (default: -1)"""
    per_device_train_batch_size: int
    """Pages per update, before multiplication by --gradient-accumulation-steps (default: 8)"""
    gradient_accumulation_steps: int
    """Multiplies --per-device-train-batch-size to give the pages per update (default: 1)"""
    train_batch_size: int
    """Total pages per update (the effective batch), instead of the two options above"""
    micro_batch_size: int
    """Pages processed at once. Affects memory and time; losses only in their last bits (0: as many as the budget allows) (default: 0)"""
    pad_to_max_length: bool
    """Pad every page to --max-length, as many training scripts do: slower, more memory, the same results"""
    recompute: Literal["auto", "none", "layers"]
    """Activations recomputed in backward: auto (as many as the budget requires), none, or layers (all but each layer's output) (default: auto)"""
    gradient_checkpointing: bool
    """The same as --recompute layers"""
    update_mode: Literal["auto", "after-backward", "in-backward", "two-passes"]
    """When parameters are updated: after-backward, in-backward (needs --max-grad-norm 0), two-passes (backward runs twice), or auto (default: auto)"""
    offload: Path
    """Keep optimizer state and activations in a temporary file in this directory if the budget requires it: gigabytes are written per update, results do not change. With --device cuda they go to the machine's memory instead, up to --host-budget, without being asked; none forbids that"""
    eval_data: Union[Path, Sequence[Path]]
    """Pages for evaluation during training, in the format of --data"""
    task: Union[str, Sequence[str]]
    """What is trained: token-classification, sequence-classification, question-answering, relation-extraction (default: what the model was trained for; a preset: the first). Another than the model's gives it a new head"""
    problem_type: Literal["single_label_classification", "multi_label_classification", "regression"]
    """Of classes of pages: single_label_classification (a name a page), multi_label_classification (a list), regression (a number); default: as the data is"""
    labels: Union[str, Sequence[str]]
    """Label names in order, separated by commas or in a file (default: the model's, else the data's). Names other than the model's give it a new head"""
    learning_rate: float
    """Peak learning rate (default: 5e-05)"""
    num_train_epochs: float
    """Number of passes over the data (default: 3)"""
    max_steps: int
    """Number of updates; above 0 it overrides --num-train-epochs (default: 0)"""
    warmup_ratio: float
    """Fraction of updates used for warm-up (default: 0)"""
    warmup_steps: float
    """Updates used for warm-up; below 1 their fraction; above 0 it overrides --warmup-ratio (default: 0)"""
    bf16: bool
    """Activations in bfloat16; weights keep full F32 precision"""
    fp16: bool
    """Activations in half precision, with loss scaling"""
    fp16_fallback: Literal["none", "bf16", "fp32"]
    """Precision to continue in if no loss scale works for --fp16: none, bf16 or fp32 (default: none)"""
    optim: Literal["adamw_torch", "adamw_8bit", "adafactor"]
    """adamw_torch; adamw_8bit (moments in 8 bits); or adafactor (almost no optimizer state) (default: adamw_torch)"""
    weight_decay: float
    """Weight decay, not applied to biases and layer norms (default: 0.01)"""
    max_grad_norm: float
    """Clip gradients to this global norm (0: no clipping) (default: 1)"""
    lr_scheduler_type: Literal["linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr", "cosine_warmup_with_min_lr", "warmup_stable_decay", "greedy"]
    """linear, cosine, cosine_with_restarts, polynomial, constant, constant_with_warmup, inverse_sqrt, reduce_lr_on_plateau, cosine_with_min_lr, cosine_warmup_with_min_lr, warmup_stable_decay, greedy, as in transformers (default: linear)"""
    lr_scheduler_kwargs: Union[str, Sequence[str]]
    """The schedule's arguments by their names in transformers: '{"num_cycles": 2}'"""
    augment: bool
    """Change each training page at random in each epoch: rotation, scale, crop, brightness, blur; boxes move along. Training images are then not cached"""
    seed: int
    """Random seed of new weights, page order, dropout and --augment (default: 42)"""
    freeze: Union[str, Sequence[str]]
    """Parameters that are not trained: a pattern for whole Hugging Face names, where * is any text (dots too), ? one character, [0-5] one of a set; such as 'layoutlmv3.embeddings.*' or 'layoutlmv3.encoder.layer.[0-5].*'. May be given several times, or as a list with commas. Frozen parameters have no gradient and no optimizer state"""
    lora_rank: int
    """Train LoRA adapters of this rank and the classification head; everything else is frozen, and --output-dir gets an adapter in PEFT's format (0: no adapters) (default: 0)"""
    lora_alpha: float
    """LoRA's alpha: adapters are scaled by alpha / rank (default: twice the rank)"""
    lora_dropout: float
    """Dropout on the input of adapters (default: 0)"""
    lora_target_modules: Union[str, Sequence[str]]
    """Linear layers that get adapters, separated by commas, by the end of their names: query, key, value, attention.output.dense, intermediate.dense, output.dense (which matches both of a layer's), or patterns as in --freeze (default: all of them)"""
    load_in_8bit: bool
    """Store the encoder's frozen weights in 8 bits, in blocks of 64 (with --lora-rank or --freeze)"""
    load_in_4bit: bool
    """Store them in 4 bits: NormalFloat (nf4), as in QLoRA"""
    logging_steps: int
    """Log every N updates, with their mean loss (0: once, at the end) (default: 10)"""
    save_steps: int
    """Save a checkpoint every N updates (0: none) (default: 500)"""
    save_total_limit: int
    """Keep at most this many checkpoints (0: all) (default: 0)"""
    eval_steps: int
    """Evaluate every N updates (0: after each epoch) (default: 0)"""
    load_best_model_at_end: bool
    """Save the model of the best evaluation, not of the last update"""
    metric_for_best_model: Literal["accuracy", "anls", "exact_match", "f1", "f1_macro", "f1_micro", "f1_with_answer", "f1_without_answer", "loss", "mae", "mse", "precision", "recall", "eval_accuracy", "eval_anls", "eval_exact_match", "eval_f1", "eval_f1_macro", "eval_f1_micro", "eval_f1_with_answer", "eval_f1_without_answer", "eval_loss", "eval_mae", "eval_mse", "eval_precision", "eval_recall"]
    """The metric that decides which model is best: loss, or one of the task's (token-classification: f1, precision, recall; sequence-classification: accuracy, f1_macro, f1_micro, or mse, mae; question-answering: f1, exact_match, anls, f1_with_answer, f1_without_answer; relation-extraction: f1, precision, recall; default: the first)"""
    resume_from_checkpoint: Union[str, Sequence[str]]
    """latest (or True), or a checkpoint-N directory: continue bit for bit; latest with no checkpoint starts from the beginning"""
    on_nonfinite: Literal["stop", "skip"]
    """When loss or gradients are NaN or infinite: stop the run, or skip the update (default: stop)"""
    detect_anomaly: bool
    """Check every op's output for NaN and infinities, and every index before it is used; slow, for debugging"""
    no_decode_images: bool
    """Skip decoding every page's image before the first update: the run starts sooner, and finds broken images later"""
    on_bad_page: Literal["skip", "stop"]
    """If a page becomes unreadable during the run: skip it from then on and name it, or stop (save, and end with exit code 3) (default: skip)"""
    log_order: bool
    """Write order.jsonl: the pages and windows (and questions) of every update"""


TRAIN: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "data": Option("--data", "path", True),
    "box_format": Option("--box-format", "str", False),
    "segment_boxes": Option("--segment-boxes", "flag", False),
    "max_length": Option("--max-length", "int", False),
    "stride": Option("--stride", "int", False),
    "truncate": Option("--truncate", "flag", False),
    "cache": Option("--cache", "path", False),
    "output_dir": Option("--output-dir", "path", False),
    "overwrite_output_dir": Option("--overwrite-output-dir", "flag", False),
    "device": Option("--device", "str", False),
    "enforce_eager": Option("--enforce-eager", "flag", False),
    "budget": Option("--budget", "size", False),
    "host_budget": Option("--host-budget", "size", False),
    "dataloader_num_workers": Option("--dataloader-num-workers", "int", False),
    "per_device_train_batch_size": Option("--per-device-train-batch-size", "int", False),
    "gradient_accumulation_steps": Option("--gradient-accumulation-steps", "int", False),
    "train_batch_size": Option("--train-batch-size", "int", False),
    "micro_batch_size": Option("--micro-batch-size", "int", False),
    "pad_to_max_length": Option("--pad-to-max-length", "flag", False),
    "recompute": Option("--recompute", "str", False),
    "gradient_checkpointing": Option("--gradient-checkpointing", "flag", False),
    "update_mode": Option("--update-mode", "str", False),
    "offload": Option("--offload", "path", False),
    "eval_data": Option("--eval-data", "path", True),
    "task": Option("--task", "str", False),
    "problem_type": Option("--problem-type", "str", False),
    "labels": Option("--labels", "str", False),
    "learning_rate": Option("--learning-rate", "float", False),
    "num_train_epochs": Option("--num-train-epochs", "float", False),
    "max_steps": Option("--max-steps", "int", False),
    "warmup_ratio": Option("--warmup-ratio", "float", False),
    "warmup_steps": Option("--warmup-steps", "float", False),
    "bf16": Option("--bf16", "flag", False),
    "fp16": Option("--fp16", "flag", False),
    "fp16_fallback": Option("--fp16-fallback", "str", False),
    "optim": Option("--optim", "str", False),
    "weight_decay": Option("--weight-decay", "float", False),
    "max_grad_norm": Option("--max-grad-norm", "float", False),
    "lr_scheduler_type": Option("--lr-scheduler-type", "str", False),
    "lr_scheduler_kwargs": Option("--lr-scheduler-kwargs", "str", False),
    "augment": Option("--augment", "flag", False),
    "seed": Option("--seed", "int", False),
    "freeze": Option("--freeze", "str", False),
    "lora_rank": Option("--lora-rank", "int", False),
    "lora_alpha": Option("--lora-alpha", "float", False),
    "lora_dropout": Option("--lora-dropout", "float", False),
    "lora_target_modules": Option("--lora-target-modules", "str", False),
    "load_in_8bit": Option("--load-in-8bit", "flag", False),
    "load_in_4bit": Option("--load-in-4bit", "flag", False),
    "logging_steps": Option("--logging-steps", "int", False),
    "save_steps": Option("--save-steps", "int", False),
    "save_total_limit": Option("--save-total-limit", "int", False),
    "eval_steps": Option("--eval-steps", "int", False),
    "load_best_model_at_end": Option("--load-best-model-at-end", "flag", False),
    "metric_for_best_model": Option("--metric-for-best-model", "str", False),
    "resume_from_checkpoint": Option("--resume-from-checkpoint", "str", False),
    "on_nonfinite": Option("--on-nonfinite", "str", False),
    "detect_anomaly": Option("--detect-anomaly", "flag", False),
    "no_decode_images": Option("--no-decode-images", "flag", False),
    "on_bad_page": Option("--on-bad-page", "str", False),
    "log_order": Option("--log-order", "flag", False),
}


class EvalOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    model: Path
    """Hugging Face model directory, or train's --output-dir or a checkpoint-N in it"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    data: Union[Path, Sequence[Path]]
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task has it), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, with the first and last (0: the model's limit, at most 512) (default: 0)"""
    stride: int
    """Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128) (default: -1)"""
    truncate: bool
    """Truncate long pages instead of splitting them into windows"""
    cache: Path
    """Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for later epochs and runs; rebuilt when data, tokenizer or options change"""
    device: Union[str, Sequence[str]]
    """Device to compute on: cpu, cuda, or cuda:N for GPU number N (default: cpu, even if there is a GPU)"""
    enforce_eager: bool
    """With --device cuda: launch kernels one by one instead of as CUDA graphs; slower, same numbers. With CUDA_LAUNCH_BLOCKING=1 a debugger stops at the failing kernel"""
    budget: Size
    """Memory limit for the whole process, or for the GPU with --device cuda: 3GiB (of 1024^3 bytes, as 3g), 3GB (of 1000^3), 900MiB (default: 95 % of the free memory)"""
    host_budget: Size
    """With --device cuda: limit for the machine's own memory (default: 95 % of the free memory)"""
    dataloader_num_workers: int
    """Threads that load pages in the background (-1: chosen by the number of cores) (default: -1)"""
    per_device_eval_batch_size: int
    """Maximum number of pages processed at once (default: 8)"""
    worst: int
    """List so many pages, those with the highest loss (default: 0)"""
    draw: Path
    """Directory for pictures of these pages with what was found on them"""


EVAL: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "data": Option("--data", "path", True),
    "box_format": Option("--box-format", "str", False),
    "segment_boxes": Option("--segment-boxes", "flag", False),
    "max_length": Option("--max-length", "int", False),
    "stride": Option("--stride", "int", False),
    "truncate": Option("--truncate", "flag", False),
    "cache": Option("--cache", "path", False),
    "device": Option("--device", "str", False),
    "enforce_eager": Option("--enforce-eager", "flag", False),
    "budget": Option("--budget", "size", False),
    "host_budget": Option("--host-budget", "size", False),
    "dataloader_num_workers": Option("--dataloader-num-workers", "int", False),
    "per_device_eval_batch_size": Option("--per-device-eval-batch-size", "int", False),
    "worst": Option("--worst", "int", False),
    "draw": Option("--draw", "path", False),
}


class PredictOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    model: Path
    """Hugging Face model directory, or train's --output-dir or a checkpoint-N in it"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    data: Union[Path, Sequence[Path]]
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task has it), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, with the first and last (0: the model's limit, at most 512) (default: 0)"""
    stride: int
    """Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128) (default: -1)"""
    truncate: bool
    """Truncate long pages instead of splitting them into windows"""
    cache: Path
    """Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for later epochs and runs; rebuilt when data, tokenizer or options change"""
    device: Union[str, Sequence[str]]
    """Device to compute on: cpu, cuda, or cuda:N for GPU number N (default: cpu, even if there is a GPU)"""
    enforce_eager: bool
    """With --device cuda: launch kernels one by one instead of as CUDA graphs; slower, same numbers. With CUDA_LAUNCH_BLOCKING=1 a debugger stops at the failing kernel"""
    budget: Size
    """Memory limit for the whole process, or for the GPU with --device cuda: 3GiB (of 1024^3 bytes, as 3g), 3GB (of 1000^3), 900MiB (default: 95 % of the free memory)"""
    host_budget: Size
    """With --device cuda: limit for the machine's own memory (default: 95 % of the free memory)"""
    dataloader_num_workers: int
    """Threads that load pages in the background (-1: chosen by the number of cores) (default: -1)"""
    per_device_eval_batch_size: int
    """Maximum number of pages processed at once (default: 8)"""
    output: Path
    """JSONL file with a line a page: its words, what was found, and fields (default: standard output); - for standard output"""
    return_all_scores: bool
    """Also write the probability of every label for each word: `scores`, in the order of `label_names`"""
    draw: Path
    """Directory for images of the pages with the predicted fields drawn on them"""
    draw_limit: int
    """Draw at most this many pages (0: all) (default: 0)"""


PREDICT: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "data": Option("--data", "path", True),
    "box_format": Option("--box-format", "str", False),
    "segment_boxes": Option("--segment-boxes", "flag", False),
    "max_length": Option("--max-length", "int", False),
    "stride": Option("--stride", "int", False),
    "truncate": Option("--truncate", "flag", False),
    "cache": Option("--cache", "path", False),
    "device": Option("--device", "str", False),
    "enforce_eager": Option("--enforce-eager", "flag", False),
    "budget": Option("--budget", "size", False),
    "host_budget": Option("--host-budget", "size", False),
    "dataloader_num_workers": Option("--dataloader-num-workers", "int", False),
    "per_device_eval_batch_size": Option("--per-device-eval-batch-size", "int", False),
    "output": Option("--output", "path", False),
    "return_all_scores": Option("--return-all-scores", "flag", False),
    "draw": Option("--draw", "path", False),
    "draw_limit": Option("--draw-limit", "int", False),
}


class DoctorOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    log: Union[str, Sequence[str]]
    """A log of PyTorch, transformers, the kernel or Plimsoll; - for standard input"""
    snapshot: Path
    """A memory snapshot: torch.cuda.memory._dump_snapshot('FILE')"""
    output_dir: Path
    """Directory whose disk is checked (default: .)"""


DOCTOR: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "log": Option("LOG", "str", False),
    "snapshot": Option("--snapshot", "path", False),
    "output_dir": Option("--output-dir", "path", False),
}


class PlanOptions(TrainOptions, total=False):
    explain: bool
    """Explain the plan: every item in bytes, the tensors alive at the peak, time, the savings and costs of each option, and the effect of other budgets"""
    device_memory: Size
    """Plan for another machine with this much memory, instead of --budget: an eighth of it, at least 512 MiB, is reserved for its system; times are this machine's. With --device cuda, plan for another GPU and reserve a twentieth of its memory; no GPU is needed here"""
    sweep: bool
    """Print a table of budgets with their speeds, from the smallest that works to the largest that helps"""
    points: int
    """Number of budgets in the sweep (default: 10)"""
    svg: Path
    """Draw the sweep as an SVG chart into this file; - for standard output"""


PLAN: Dict[str, Option] = {
    **TRAIN,
    "explain": Option("--explain", "flag", False),
    "device_memory": Option("--device-memory", "size", False),
    "sweep": Option("--sweep", "flag", False),
    "points": Option("--points", "int", False),
    "svg": Option("--svg", "path", False),
}


OPTIONS: Dict[str, Dict[str, Option]] = {"check": CHECK, "doctor": DOCTOR, "eval": EVAL, "plan": PLAN, "predict": PREDICT, "train": TRAIN}
