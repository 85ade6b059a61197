"""The options of each command as keywords: the table that `plimsoll --options` prints.

Made by tools/python_options.py; do not edit.
"""

from __future__ import annotations

import os
from typing import Dict, FrozenSet, Literal, NamedTuple, Sequence, TypedDict, Union

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
    """Hugging Face model directory, or a preset, which has random weights: layoutlmv3-tiny, layoutlmv3-small, layoutlmv3-base, layoutlmv3-large, roberta-tiny, roberta-small, roberta-base, roberta-large, layoutlm-tiny, layoutlm-small, layoutlm-base, layoutlm-large, lilt-tiny, lilt-small, lilt-base, llama-tiny, llama-small, gpt2-tiny, gpt2-mini, gpt2, gpt2-medium, gpt2-large"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    data: Union[Path, Sequence[Path]]
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task requires), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    pages: Union[Path, Sequence[Path]]
    """For tasks that read pairs: the pages that the pairs of --data and --eval-data name by their ids (a, b); without it, pairs contain their pages"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, special tokens included (0: the model's limit, at most 512) (default: 0)"""
    stride: int
    """Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128) (default: -1)"""
    truncate: bool
    """Truncate long pages instead of splitting them into windows"""
    cache: Path
    """Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for later epochs and runs; rebuilt when data, tokenizer or options change"""
    task: Union[str, Sequence[str]]
    """Task to train for: token-classification, sequence-classification, question-answering, relation-extraction, pair-classification, pair-ranking, pair-similarity, causal-lm (default: the task that the model was trained for; for a preset token-classification, or causal-lm if it is a decoder). A task other than the model's gives it a new head"""
    problem_type: Literal["single_label_classification", "multi_label_classification", "regression"]
    """What sequence-classification predicts: single_label_classification (one name per page), multi_label_classification (a list), regression (a number); default: inferred from the data"""
    labels: Union[str, Sequence[str]]
    """Label names in order, separated by commas or in a file (default: the model's, else the data's). Names other than the model's give it a new head"""
    eval_data: Union[Path, Sequence[Path]]
    """Evaluation pages to check, also for pages that occur in both"""
    launcher: Literal["auto", "none"]
    """auto: work together with the other processes that mpirun, srun or torchrun started; none: run alone (default: auto)"""
    timeout: float
    """Seconds without a message after which a process counts as failed (default: 600)"""
    rendezvous: Union[str, Sequence[str]]
    """Where processes started by torchrun meet: an address of rank 0's machine and a free port (default: MASTER_ADDR and the port after MASTER_PORT)"""
    decode_images: bool
    """Decode every image, not only its header: finds damaged, blank and BGR images"""
    places: int
    """Number of places to list for each kind of finding (default: 5)"""
    fix: Union[str, Sequence[str]]
    """Write a copy of --data in which faults with only one possible remedy are corrected: swapped corners, boxes from 0 to 1, boxes outside the page by a pixel; OUT.changes.jsonl lists every change; - for standard output"""


CHECK: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "data": Option("--data", "path", True),
    "pages": Option("--pages", "path", True),
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
    "launcher": Option("--launcher", "str", False),
    "timeout": Option("--timeout", "float", False),
    "rendezvous": Option("--rendezvous", "str", False),
    "decode_images": Option("--decode-images", "flag", False),
    "places": Option("--places", "int", False),
    "fix": Option("--fix", "str", False),
}


class TrainOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    model: Path
    """Hugging Face model directory, or a preset, which has random weights: layoutlmv3-tiny, layoutlmv3-small, layoutlmv3-base, layoutlmv3-large, roberta-tiny, roberta-small, roberta-base, roberta-large, layoutlm-tiny, layoutlm-small, layoutlm-base, layoutlm-large, lilt-tiny, lilt-small, lilt-base, llama-tiny, llama-small, gpt2-tiny, gpt2-mini, gpt2, gpt2-medium, gpt2-large"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    data: Union[Path, Sequence[Path]]
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task requires), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    pages: Union[Path, Sequence[Path]]
    """For tasks that read pairs: the pages that the pairs of --data and --eval-data name by their ids (a, b); without it, pairs contain their pages"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, special tokens included (0: the model's limit, at most 512) (default: 0)"""
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
    """Pad every page to --max-length, as many training scripts do: slower, more memory, the same results, but for the training loss of question-answering, whose softmax counts padding as transformers' does"""
    recompute: Literal["auto", "none", "layers"]
    """Activations recomputed in backward: auto (as many as the budget requires), none, or layers (all but each layer's output) (default: auto)"""
    grad_cache: Literal["auto", "on", "off"]
    """For pairs: embed the pages of an update first, then go backward page by page, so that an update of any size fits (GradCache): auto (if it does not fit otherwise), on or off (default: auto)"""
    gradient_checkpointing: bool
    """The same as --recompute layers"""
    update_mode: Literal["auto", "after-backward", "in-backward", "head-in-parts", "two-passes"]
    """When parameters are updated: after-backward, in-backward (needs --max-grad-norm 0), head-in-parts (the same, and a vocabulary's head part by part), two-passes (backward runs twice), or auto (default: auto)"""
    offload: Path
    """Keep optimizer state, activations and weights in a temporary file in this directory if the budget requires it: gigabytes move per update, results do not change. With --device cuda they move to the machine's memory instead, up to --host-budget, even without this option; none forbids it"""
    launcher: Literal["auto", "none"]
    """auto: work together with the other processes that mpirun, srun or torchrun started; none: run alone (default: auto)"""
    timeout: float
    """Seconds without a message after which a process counts as failed (default: 600)"""
    rendezvous: Union[str, Sequence[str]]
    """Where processes started by torchrun meet: an address of rank 0's machine and a free port (default: MASTER_ADDR and the port after MASTER_PORT)"""
    zero_stage: Literal["auto", "0", "1", "2", "3"]
    """What is divided among the processes: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too; auto: the lowest stage that fits the budget (default: auto)"""
    gradient_sync: Literal["auto", "update", "micro-batch"]
    """When gradients are summed over the processes if an update has several micro-batches: update (once per update), micro-batch (in each one), or auto (in each one from stage 2 on) (default: auto)"""
    ddp_bucket_cap_mb: float
    """Size of the buckets in which gradients are exchanged, in MiB (default: 25)"""
    eval_data: Union[Path, Sequence[Path]]
    """Pages for evaluation during training, in the format of --data"""
    task: Union[str, Sequence[str]]
    """Task to train for: token-classification, sequence-classification, question-answering, relation-extraction, pair-classification, pair-ranking, pair-similarity, causal-lm (default: the task that the model was trained for; for a preset token-classification, or causal-lm if it is a decoder). A task other than the model's gives it a new head"""
    problem_type: Literal["single_label_classification", "multi_label_classification", "regression"]
    """What sequence-classification predicts: single_label_classification (one name per page), multi_label_classification (a list), regression (a number); default: inferred from the data"""
    labels: Union[str, Sequence[str]]
    """Label names in order, separated by commas or in a file (default: the model's, else the data's). Names other than the model's give it a new head"""
    num_train_epochs: float
    """Number of passes over the data (default: 3)"""
    seed: int
    """Random seed of new weights, page order, dropout and --augment (default: 42)"""
    learning_rate: float
    """Peak learning rate (default: 5e-05)"""
    layerwise_lr_decay: float
    """The learning rate of each encoder layer is that of the layer after it times this factor; the head, and a norm after the last layer, have the full rate (default: 1)"""
    lr_pattern: Union[str, Sequence[str]]
    """Peak learning rates of single parameters, PATTERN=RATE with patterns as in --freeze: 'classifier.*=1e-3'. May be given several times, or as a list with commas; the last that matches counts"""
    max_steps: int
    """Number of updates; above 0 it overrides --num-train-epochs (default: 0)"""
    warmup_ratio: float
    """Fraction of updates used for warm-up (default: 0)"""
    warmup_steps: float
    """Updates used for warm-up, or below 1 a fraction of all updates; above 0 it overrides --warmup-ratio (default: 0)"""
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
    label_smoothing_factor: float
    """Fraction of a label's weight that is spread over all labels (default: 0)"""
    focal_gamma: float
    """Focal loss: where the model gives the label the probability p, the loss weighs (1 - p)^gamma, so that easy words and pages count less (0: all weigh the same) (default: 0)"""
    temperature: float
    """pair-similarity: cosine similarities are divided by this in the loss; the lower it is, the more the hardest pages count (default: 0.05)"""
    class_weights: Union[str, Sequence[str]]
    """Weights of labels in the loss: balanced (the rarer in --data, the more), or NAME=WEIGHT, separated by commas, or a JSON object; the others weigh 1. The loss is divided by the sum of the weights, as torch.nn.CrossEntropyLoss does. May be given several times"""
    max_grad_norm: float
    """Clip gradients to this global norm (0: no clipping) (default: 1)"""
    lr_scheduler_type: Literal["linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr", "cosine_warmup_with_min_lr", "warmup_stable_decay", "greedy"]
    """linear, cosine, cosine_with_restarts, polynomial, constant, constant_with_warmup, inverse_sqrt, reduce_lr_on_plateau, cosine_with_min_lr, cosine_warmup_with_min_lr, warmup_stable_decay, greedy, as in transformers (default: linear)"""
    lr_scheduler_kwargs: Union[str, Sequence[str]]
    """The schedule's arguments by their names in transformers: '{"num_cycles": 2}'"""
    augment: bool
    """Change each training page at random in each epoch: rotation, scale, crop, brightness, blur; boxes move along. Training images are then not cached"""
    adam_beta1: float
    """Decay of AdamW's first moments (default: 0.9)"""
    adam_beta2: float
    """Decay of AdamW's second moments (default: 0.999)"""
    adam_epsilon: float
    """AdamW's epsilon, added to the root of second moments (default: 1e-08)"""
    data_seed: int
    """Random seed of the page order (-1: --seed) (default: -1)"""
    train_sampling_strategy: Literal["random", "sequential", "group_by_length"]
    """Order of pages: random, sequential (as in the data), or group_by_length (random groups, sorted by length) (default: random)"""
    dataloader_drop_last: bool
    """Leave out the last pages of an epoch if they do not fill a --per-device-train-batch-size"""
    freeze: Union[str, Sequence[str]]
    """Parameters that are not trained: a pattern for whole Hugging Face names, where * is any text (dots too), ? one character, [0-5] one of a set; such as 'layoutlmv3.embeddings.*' or 'layoutlmv3.encoder.layer.[0-5].*'. May be given several times, or as a list with commas. Frozen parameters have no gradient and no optimizer state"""
    lora_rank: int
    """Train LoRA adapters of this rank and the classification head; everything else is frozen, and --output-dir gets an adapter in PEFT's format (0: no adapters) (default: 0)"""
    lora_alpha: float
    """LoRA's alpha: adapters are scaled by alpha / rank (default: twice the rank)"""
    lora_dropout: float
    """Dropout on the input of adapters (default: 0)"""
    lora_target_modules: Union[str, Sequence[str]]
    """Linear layers that get adapters, separated by commas, by the end of their names: query, key, value, attention.output.dense, intermediate.dense, output.dense (which matches both of a layer's), of decoders q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, or patterns as in --freeze (default: all of them)"""
    exclude_modules: Union[str, Sequence[str]]
    """Linear layers that get no adapter although --lora-target-modules names them, in the same way"""
    layers_to_transform: Union[str, Sequence[str]]
    """Numbers of the encoder's layers that get adapters, from 0, separated by commas (default: all)"""
    modules_to_save: Union[str, Sequence[str]]
    """Modules that train in full besides the adapters and are saved with them, separated by commas, by the end of their names, such as LayerNorm or layer.11. Linear layers within them get no adapter; the head is trained and saved in any case"""
    use_rslora: bool
    """Scale adapters by alpha / sqrt(rank) (rank-stabilized LoRA)"""
    use_dora: bool
    """Also train a magnitude for each row of an adapted weight, whose direction the adapter changes (weight-decomposed adapters, DoRA): slower, often better at small ranks"""
    rank_pattern: Union[str, Sequence[str]]
    """Other ranks for some linear layers, PATTERN=RANK, separated by commas, or a JSON object. As in PEFT a pattern is a regular expression for a module's name or for what follows a dot in it, and the first that matches counts: 'layer.0.output.dense=16,query=4'. May be given several times"""
    alpha_pattern: Union[str, Sequence[str]]
    """Other values of --lora-alpha for some linear layers, in the same way"""
    load_in_8bit: bool
    """Store the encoder's frozen weights in 8 bits, in blocks of 64 (with --lora-rank or --freeze)"""
    load_in_4bit: bool
    """Store them in 4 bits: NormalFloat (nf4), as in QLoRA"""
    distil_from: Path
    """Directory of a trained model, the teacher, whose outputs the student learns in addition to the labels. Both must read the same inputs and predict the same labels; one plan covers both"""
    teacher_cache: Path
    """Directory for a file of the teacher's outputs for every page, so that its weights take no memory and its forward pass no time while the student trains. The file is made before the first update, and made again only if the teacher, the data or the precision changes; the plan says how large it is"""
    distil_logits: float
    """Weight of the loss against the teacher's predictions (0: unused); the loss against the labels weighs 1 (default: 1)"""
    distil_temperature: float
    """Temperature of the teacher's and the student's predictions (default: 2)"""
    distil_hidden: float
    """Weight of the squared difference between hidden states, which must have the same width: a mean over columns, layers and rows (tokens and patches). A student with fewer layers learns from evenly spaced layers of the teacher (default: 4)"""
    distil_relations: float
    """Weight of the loss on how tokens relate to each other in the last layer's queries, keys and values (MiniLMv2), for models of any width; a mean over heads and rows (default: 4)"""
    teacher_bits: Literal["32", "8", "4"]
    """Bits of the teacher's weights: 32 (as the run computes), 8 or 4 (default: 8)"""
    logging_strategy: Literal["no", "steps", "epoch"]
    """When to log: steps (every --logging-steps), epoch, or no (once, at the end) (default: steps)"""
    logging_steps: float
    """Log every N updates, with their mean loss (0: once, at the end; below 1: a fraction of all updates) (default: 10)"""
    logging_first_step: bool
    """Log the first update too"""
    save_strategy: Literal["no", "steps", "epoch", "best"]
    """When to save a checkpoint: steps (every --save-steps), epoch, best (after an evaluation that is the best so far), or no (default: steps)"""
    save_steps: float
    """Save a checkpoint every N updates (0: none; below 1: a fraction of all updates) (default: 500)"""
    save_only_model: bool
    """Save checkpoints without the optimizer's state: smaller, but a run cannot be resumed from them. A checkpoint saved on a signal is complete all the same"""
    save_total_limit: int
    """Keep at most this many checkpoints (0: all) (default: 0)"""
    eval_strategy: Literal["no", "steps", "epoch"]
    """When to evaluate: steps (every --eval-steps), epoch, or no (default: steps with --eval-steps, else epoch)"""
    eval_steps: float
    """Evaluate every N updates (0: after each epoch; with --eval-strategy steps as --logging-steps; below 1: a fraction of all updates) (default: 0)"""
    eval_delay: float
    """No evaluation before this many updates, or epochs with --eval-strategy epoch (default: 0)"""
    eval_on_start: bool
    """Evaluate before the first update too"""
    early_stopping_patience: int
    """End the run after N evaluations in a row without a better metric (0: never) (default: 0)"""
    early_stopping_threshold: float
    """How much better the metric must be to count as better, for --early-stopping-patience (default: 0)"""
    greater_is_better: Union[str, Sequence[str]]
    """True or False: whether a larger --metric-for-best-model is better (default: as for that metric)"""
    events: Path
    """Write events to this file, one JSON object per line (docs/json.md); - for standard output, as --json does"""
    report_to: Union[str, Sequence[str]]
    """tensorboard (event files in --logging-dir) and jsonl (events.jsonl in --output-dir), separated by commas; all; or none (default: none)"""
    logging_dir: Path
    """Directory of TensorBoard's event files (default: tensorboard, in --output-dir)"""
    load_best_model_at_end: bool
    """Save the model of the best evaluation, not of the last update"""
    metric_for_best_model: Literal["accuracy", "anls", "exact_match", "f1", "f1_macro", "f1_micro", "f1_with_answer", "f1_without_answer", "loss", "mae", "margin", "mse", "perplexity", "precision", "recall", "recall_at_1", "recall_at_5", "eval_accuracy", "eval_anls", "eval_exact_match", "eval_f1", "eval_f1_macro", "eval_f1_micro", "eval_f1_with_answer", "eval_f1_without_answer", "eval_loss", "eval_mae", "eval_margin", "eval_mse", "eval_perplexity", "eval_precision", "eval_recall", "eval_recall_at_1", "eval_recall_at_5"]
    """The metric that decides which model is best: loss, or one of the task's (token-classification: f1, precision, recall; sequence-classification: accuracy, f1_macro, f1_micro, or mse, mae; question-answering: f1, exact_match, anls, f1_with_answer, f1_without_answer; relation-extraction: f1, precision, recall; pair-classification: accuracy, f1; pair-ranking: accuracy, margin; pair-similarity: recall_at_1, recall_at_5, accuracy; causal-lm: perplexity, accuracy; default: the first)"""
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
    "pages": Option("--pages", "path", True),
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
    "grad_cache": Option("--grad-cache", "str", False),
    "gradient_checkpointing": Option("--gradient-checkpointing", "flag", False),
    "update_mode": Option("--update-mode", "str", False),
    "offload": Option("--offload", "path", False),
    "launcher": Option("--launcher", "str", False),
    "timeout": Option("--timeout", "float", False),
    "rendezvous": Option("--rendezvous", "str", False),
    "zero_stage": Option("--zero-stage", "str", False),
    "gradient_sync": Option("--gradient-sync", "str", False),
    "ddp_bucket_cap_mb": Option("--ddp-bucket-cap-mb", "float", False),
    "eval_data": Option("--eval-data", "path", True),
    "task": Option("--task", "str", False),
    "problem_type": Option("--problem-type", "str", False),
    "labels": Option("--labels", "str", False),
    "num_train_epochs": Option("--num-train-epochs", "float", False),
    "seed": Option("--seed", "int", False),
    "learning_rate": Option("--learning-rate", "float", False),
    "layerwise_lr_decay": Option("--layerwise-lr-decay", "float", False),
    "lr_pattern": Option("--lr-pattern", "str", False),
    "max_steps": Option("--max-steps", "int", False),
    "warmup_ratio": Option("--warmup-ratio", "float", False),
    "warmup_steps": Option("--warmup-steps", "float", False),
    "bf16": Option("--bf16", "flag", False),
    "fp16": Option("--fp16", "flag", False),
    "fp16_fallback": Option("--fp16-fallback", "str", False),
    "optim": Option("--optim", "str", False),
    "weight_decay": Option("--weight-decay", "float", False),
    "label_smoothing_factor": Option("--label-smoothing-factor", "float", False),
    "focal_gamma": Option("--focal-gamma", "float", False),
    "temperature": Option("--temperature", "float", False),
    "class_weights": Option("--class-weights", "str", False),
    "max_grad_norm": Option("--max-grad-norm", "float", False),
    "lr_scheduler_type": Option("--lr-scheduler-type", "str", False),
    "lr_scheduler_kwargs": Option("--lr-scheduler-kwargs", "str", False),
    "augment": Option("--augment", "flag", False),
    "adam_beta1": Option("--adam-beta1", "float", False),
    "adam_beta2": Option("--adam-beta2", "float", False),
    "adam_epsilon": Option("--adam-epsilon", "float", False),
    "data_seed": Option("--data-seed", "int", False),
    "train_sampling_strategy": Option("--train-sampling-strategy", "str", False),
    "dataloader_drop_last": Option("--dataloader-drop-last", "flag", False),
    "freeze": Option("--freeze", "str", False),
    "lora_rank": Option("--lora-rank", "int", False),
    "lora_alpha": Option("--lora-alpha", "float", False),
    "lora_dropout": Option("--lora-dropout", "float", False),
    "lora_target_modules": Option("--lora-target-modules", "str", False),
    "exclude_modules": Option("--exclude-modules", "str", False),
    "layers_to_transform": Option("--layers-to-transform", "str", False),
    "modules_to_save": Option("--modules-to-save", "str", False),
    "use_rslora": Option("--use-rslora", "flag", False),
    "use_dora": Option("--use-dora", "flag", False),
    "rank_pattern": Option("--rank-pattern", "str", False),
    "alpha_pattern": Option("--alpha-pattern", "str", False),
    "load_in_8bit": Option("--load-in-8bit", "flag", False),
    "load_in_4bit": Option("--load-in-4bit", "flag", False),
    "distil_from": Option("--distil-from", "path", False),
    "teacher_cache": Option("--teacher-cache", "path", False),
    "distil_logits": Option("--distil-logits", "float", False),
    "distil_temperature": Option("--distil-temperature", "float", False),
    "distil_hidden": Option("--distil-hidden", "float", False),
    "distil_relations": Option("--distil-relations", "float", False),
    "teacher_bits": Option("--teacher-bits", "str", False),
    "logging_strategy": Option("--logging-strategy", "str", False),
    "logging_steps": Option("--logging-steps", "float", False),
    "logging_first_step": Option("--logging-first-step", "flag", False),
    "save_strategy": Option("--save-strategy", "str", False),
    "save_steps": Option("--save-steps", "float", False),
    "save_only_model": Option("--save-only-model", "flag", False),
    "save_total_limit": Option("--save-total-limit", "int", False),
    "eval_strategy": Option("--eval-strategy", "str", False),
    "eval_steps": Option("--eval-steps", "float", False),
    "eval_delay": Option("--eval-delay", "float", False),
    "eval_on_start": Option("--eval-on-start", "flag", False),
    "early_stopping_patience": Option("--early-stopping-patience", "int", False),
    "early_stopping_threshold": Option("--early-stopping-threshold", "float", False),
    "greater_is_better": Option("--greater-is-better", "str", False),
    "events": Option("--events", "path", False),
    "report_to": Option("--report-to", "str", False),
    "logging_dir": Option("--logging-dir", "path", False),
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
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task requires), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    pages: Union[Path, Sequence[Path]]
    """For tasks that read pairs: the pages that the pairs of --data and --eval-data name by their ids (a, b); without it, pairs contain their pages"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, special tokens included (0: the model's limit, at most 512) (default: 0)"""
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
    offload: Path
    """Keep weights in a temporary file in this directory, from which each layer's are read before they are used, if the budget requires it: slower, results do not change. With --device cuda they move to the machine's memory instead, up to --host-budget, even without this option; none forbids it"""
    per_device_eval_batch_size: int
    """Maximum number of pages processed at once (0: 8 on a GPU; 2 on a CPU, which is no faster with more) (default: 0)"""
    bf16: bool
    """Compute in bfloat16 and keep weight matrices in it, in half the memory; scores differ a little"""
    load_in_8bit: bool
    """Hold the encoder's weights in 8 bits, in blocks of 64, and multiply in 8 bits where that is faster (AVX512_VNNI)"""
    load_in_4bit: bool
    """Hold the encoder's weights in 4 bits: NormalFloat (nf4), as in QLoRA"""
    float_activations: bool
    """With --load-in-8bit or --load-in-4bit: quantize only the weights, and multiply in F32 on every machine"""
    launcher: Literal["auto", "none"]
    """auto: work together with the other processes that mpirun, srun or torchrun started; none: run alone (default: auto)"""
    timeout: float
    """Seconds without a message after which a process counts as failed (default: 600)"""
    rendezvous: Union[str, Sequence[str]]
    """Where processes started by torchrun meet: an address of rank 0's machine and a free port (default: MASTER_ADDR and the port after MASTER_PORT)"""
    worst: int
    """List the pages with the highest loss, this many (default: 0)"""
    draw: Path
    """Directory for pictures of the --worst pages with the predictions drawn on them"""


EVAL: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "data": Option("--data", "path", True),
    "pages": Option("--pages", "path", True),
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
    "offload": Option("--offload", "path", False),
    "per_device_eval_batch_size": Option("--per-device-eval-batch-size", "int", False),
    "bf16": Option("--bf16", "flag", False),
    "load_in_8bit": Option("--load-in-8bit", "flag", False),
    "load_in_4bit": Option("--load-in-4bit", "flag", False),
    "float_activations": Option("--float-activations", "flag", False),
    "launcher": Option("--launcher", "str", False),
    "timeout": Option("--timeout", "float", False),
    "rendezvous": Option("--rendezvous", "str", False),
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
    """Pages: a JSONL file (image, words, boxes, and labels, label, questions, or entities and links, as the task requires), or a folder with annotations/ and images/ (FUNSD). Several files, or a pattern such as 'train-*.jsonl', are read as one"""
    pages: Union[Path, Sequence[Path]]
    """For tasks that read pairs: the pages that the pairs of --data and --eval-data name by their ids (a, b); without it, pairs contain their pages"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, special tokens included (0: the model's limit, at most 512) (default: 0)"""
    stride: int
    """Tokens that neighbouring windows of a long page share (-1: a quarter of a window, at most 128) (default: -1)"""
    truncate: bool
    """Truncate long pages instead of splitting them into windows"""
    cache: Path
    """Cache pages in this directory, with their tokens and resized images (about 170 KB per page), for later epochs and runs; rebuilt when data, tokenizer or options change"""
    input: Union[Path, Sequence[Path]]
    """Scans and PDF files: PNG, JPEG, BMP, PNM, WebP, TIFF (all its pages), PDF; directories with such files, or patterns"""
    images: Path
    """Directory for pictures of pages that have no file of their own: pages of PDF files and of TIFF files with several pages, and pages that were turned (default: beside the output, OUTPUT.images)"""
    language: Union[str, Sequence[str]]
    """Languages of the text, by Tesseract's names: eng, deu, chi_sim; eng+chi_sim for both (default: eng)"""
    tessdata_dir: Path
    """Directory with Tesseract's data, NAME.traineddata (default: where its packages put it)"""
    page_layout: Literal["auto", "block", "sparse"]
    """How text lies on a page: auto (columns are found), block (one column, read line by line, as on most receipts), sparse (words anywhere) (default: auto)"""
    enlarge: Literal["auto", "never"]
    """Read pages with small print at twice their size, which gets more words right and takes twice as long: auto or never (default: never)"""
    min_confidence: float
    """Leave out words that were read with less confidence, 0 to 1 (default: 0)"""
    drop_specks: bool
    """Leave out words that are only lines and dots, such as _ or ~: what specks on a scan are read as"""
    word_order: Literal["found", "columns"]
    """found (as Tesseract or the PDF file has them) or columns (blocks side by side one after the other, tables line by line) (default: found)"""
    dpi: int
    """Dots per inch at which pages of PDF files are drawn to be read (default: 300)"""
    ignore_pdf_text: bool
    """Read the pages of PDF files by OCR, even if they contain text"""
    pdf_reader: Literal["auto", "poppler", "pypdfium2"]
    """What reads PDF files: poppler (its programs), pypdfium2 (pip install pypdfium2), auto (Poppler where it is installed, else pypdfium2) (default: auto)"""
    keep_rotation: bool
    """Do not turn pages that are sideways or upside down"""
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
    offload: Path
    """Keep weights in a temporary file in this directory, from which each layer's are read before they are used, if the budget requires it: slower, results do not change. With --device cuda they move to the machine's memory instead, up to --host-budget, even without this option; none forbids it"""
    per_device_eval_batch_size: int
    """Maximum number of pages processed at once (0: 8 on a GPU; 2 on a CPU, which is no faster with more) (default: 0)"""
    bf16: bool
    """Compute in bfloat16 and keep weight matrices in it, in half the memory; scores differ a little"""
    load_in_8bit: bool
    """Hold the encoder's weights in 8 bits, in blocks of 64, and multiply in 8 bits where that is faster (AVX512_VNNI)"""
    load_in_4bit: bool
    """Hold the encoder's weights in 4 bits: NormalFloat (nf4), as in QLoRA"""
    float_activations: bool
    """With --load-in-8bit or --load-in-4bit: quantize only the weights, and multiply in F32 on every machine"""
    launcher: Literal["auto", "none"]
    """auto: work together with the other processes that mpirun, srun or torchrun started; none: run alone (default: auto)"""
    timeout: float
    """Seconds without a message after which a process counts as failed (default: 600)"""
    rendezvous: Union[str, Sequence[str]]
    """Where processes started by torchrun meet: an address of rank 0's machine and a free port (default: MASTER_ADDR and the port after MASTER_PORT)"""
    output: Path
    """File with one line per page: its words, the predictions, and fields (default: standard output); - for standard output"""
    format: Literal["jsonl", "json", "csv"]
    """Form of the output: jsonl (one JSON object per line), json (a list of them), or csv (one row per field) (default: jsonl)"""
    return_all_scores: bool
    """Also write the probability of every label for each word: `scores`, in the order of `label_names`"""
    shard: Union[str, Sequence[str]]
    """Process part I of N of the pages, for processes started without a launcher, and write OUTPUT.part-I-of-N with a manifest; plimsoll merge-parts joins the parts"""
    draw: Path
    """Directory for images of the pages with the predicted fields drawn on them"""
    draw_pdf: Path
    """PDF file with the same pictures, one per page"""
    draw_limit: int
    """Draw at most this many pages (0: all) (default: 0)"""


PREDICT: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "data": Option("--data", "path", True),
    "pages": Option("--pages", "path", True),
    "box_format": Option("--box-format", "str", False),
    "segment_boxes": Option("--segment-boxes", "flag", False),
    "max_length": Option("--max-length", "int", False),
    "stride": Option("--stride", "int", False),
    "truncate": Option("--truncate", "flag", False),
    "cache": Option("--cache", "path", False),
    "input": Option("--input", "path", True),
    "images": Option("--images", "path", False),
    "language": Option("--language", "str", False),
    "tessdata_dir": Option("--tessdata-dir", "path", False),
    "page_layout": Option("--page-layout", "str", False),
    "enlarge": Option("--enlarge", "str", False),
    "min_confidence": Option("--min-confidence", "float", False),
    "drop_specks": Option("--drop-specks", "flag", False),
    "word_order": Option("--word-order", "str", False),
    "dpi": Option("--dpi", "int", False),
    "ignore_pdf_text": Option("--ignore-pdf-text", "flag", False),
    "pdf_reader": Option("--pdf-reader", "str", False),
    "keep_rotation": Option("--keep-rotation", "flag", False),
    "device": Option("--device", "str", False),
    "enforce_eager": Option("--enforce-eager", "flag", False),
    "budget": Option("--budget", "size", False),
    "host_budget": Option("--host-budget", "size", False),
    "dataloader_num_workers": Option("--dataloader-num-workers", "int", False),
    "offload": Option("--offload", "path", False),
    "per_device_eval_batch_size": Option("--per-device-eval-batch-size", "int", False),
    "bf16": Option("--bf16", "flag", False),
    "load_in_8bit": Option("--load-in-8bit", "flag", False),
    "load_in_4bit": Option("--load-in-4bit", "flag", False),
    "float_activations": Option("--float-activations", "flag", False),
    "launcher": Option("--launcher", "str", False),
    "timeout": Option("--timeout", "float", False),
    "rendezvous": Option("--rendezvous", "str", False),
    "output": Option("--output", "path", False),
    "format": Option("--format", "str", False),
    "return_all_scores": Option("--return-all-scores", "flag", False),
    "shard": Option("--shard", "str", False),
    "draw": Option("--draw", "path", False),
    "draw_pdf": Option("--draw-pdf", "path", False),
    "draw_limit": Option("--draw-limit", "int", False),
}


class GenerateOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    model: Path
    """Hugging Face model directory, or train's --output-dir or a checkpoint-N in it"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    prompt: Union[str, Sequence[str]]
    """Text to continue; may be repeated"""
    chat: bool
    """Each --prompt is a user's message, formatted by the model's chat template"""
    data: Path
    """File with a JSON object per line, each with a `prompt`, or with the `messages` of a conversation"""
    max_new_tokens: int
    """Maximum number of tokens to add to a text (default: 64)"""
    do_sample: bool
    """Sample each token; otherwise take the most likely one"""
    temperature: float
    """Logits are divided by this before sampling (default: 1)"""
    top_k: int
    """Sample among this many most likely tokens (0: all) (default: 50)"""
    top_p: float
    """Sample among the most likely tokens whose probabilities add up to this (default: 1)"""
    repetition_penalty: float
    """Logits of tokens already in the text are divided by this (negative ones multiplied) (default: 1)"""
    stop_strings: Union[str, Sequence[str]]
    """Text with which a continuation ends, and which belongs to it; may be repeated"""
    seed: int
    """Random seed of sampling (default: 42)"""
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
    offload: Path
    """Keep weights in a temporary file in this directory, from which each layer's are read before they are used, if the budget requires it: slower, results do not change. With --device cuda they move to the machine's memory instead, up to --host-budget, even without this option; none forbids it"""
    per_device_eval_batch_size: int
    """Maximum number of texts continued at once (default: 8)"""
    bf16: bool
    """Compute in bfloat16 and keep weight matrices in it, in half the memory; scores differ a little"""
    load_in_8bit: bool
    """Hold the encoder's weights in 8 bits, in blocks of 64, and multiply in 8 bits where that is faster (AVX512_VNNI)"""
    load_in_4bit: bool
    """Hold the encoder's weights in 4 bits: NormalFloat (nf4), as in QLoRA"""
    float_activations: bool
    """With --load-in-8bit or --load-in-4bit: quantize only the weights, and multiply in F32 on every machine"""
    output: Path
    """File with a line per prompt: prompt, completion, tokens, finish_reason (default: standard output); - for standard output"""


GENERATE: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
    "prompt": Option("--prompt", "str", True),
    "chat": Option("--chat", "flag", False),
    "data": Option("--data", "path", False),
    "max_new_tokens": Option("--max-new-tokens", "int", False),
    "do_sample": Option("--do-sample", "flag", False),
    "temperature": Option("--temperature", "float", False),
    "top_k": Option("--top-k", "int", False),
    "top_p": Option("--top-p", "float", False),
    "repetition_penalty": Option("--repetition-penalty", "float", False),
    "stop_strings": Option("--stop-strings", "str", True),
    "seed": Option("--seed", "int", False),
    "device": Option("--device", "str", False),
    "enforce_eager": Option("--enforce-eager", "flag", False),
    "budget": Option("--budget", "size", False),
    "host_budget": Option("--host-budget", "size", False),
    "dataloader_num_workers": Option("--dataloader-num-workers", "int", False),
    "offload": Option("--offload", "path", False),
    "per_device_eval_batch_size": Option("--per-device-eval-batch-size", "int", False),
    "bf16": Option("--bf16", "flag", False),
    "load_in_8bit": Option("--load-in-8bit", "flag", False),
    "load_in_4bit": Option("--load-in-4bit", "flag", False),
    "float_activations": Option("--float-activations", "flag", False),
    "output": Option("--output", "path", False),
}


class ServeOptions(TypedDict, total=False):
    threads: int
    """Compute threads (0: all available cores) (default: 0)"""
    model: Path
    """Hugging Face model directory, or train's --output-dir or a checkpoint-N in it"""
    tokenizer: Path
    """tokenizer.json or its directory, instead of the model's own"""
    base_model: Path
    """Directory of the base model, if --model is an adapter (default: the one named in adapter_config.json)"""
    box_format: Union[str, Sequence[str]]
    """Unit of the boxes in the data: pixel, or 1000 (0 to 1000 from edge to edge) (default: pixel)"""
    segment_boxes: bool
    """FUNSD: each word gets the box of its entity, as in published results"""
    max_length: int
    """Text tokens per window, special tokens included (0: the model's limit, at most 512) (default: 0)"""
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
    """Maximum number of pages processed at once (0: 8 on a GPU; 2 on a CPU, which is no faster with more) (default: 0)"""
    bf16: bool
    """Compute in bfloat16 and keep weight matrices in it, in half the memory; scores differ a little"""
    load_in_8bit: bool
    """Hold the encoder's weights in 8 bits, in blocks of 64, and multiply in 8 bits where that is faster (AVX512_VNNI)"""
    load_in_4bit: bool
    """Hold the encoder's weights in 4 bits: NormalFloat (nf4), as in QLoRA"""
    float_activations: bool
    """With --load-in-8bit or --load-in-4bit: quantize only the weights, and multiply in F32 on every machine"""
    return_all_scores: bool
    """Also write the probability of every label for each word: `scores`, in the order of `label_names`"""


SERVE: Dict[str, Option] = {
    "threads": Option("--threads", "int", False),
    "model": Option("--model", "path", False),
    "tokenizer": Option("--tokenizer", "path", False),
    "base_model": Option("--base-model", "path", False),
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
    "bf16": Option("--bf16", "flag", False),
    "load_in_8bit": Option("--load-in-8bit", "flag", False),
    "load_in_4bit": Option("--load-in-4bit", "flag", False),
    "float_activations": Option("--float-activations", "flag", False),
    "return_all_scores": Option("--return-all-scores", "flag", False),
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
    """Plan for another machine with this much memory, instead of --budget: an eighth of it, at least 512 MiB, is reserved for its operating system; times are this machine's. With --device cuda, plan for another GPU and reserve a twentieth of its memory; no GPU is needed here"""
    gpu: Literal["h200", "h100", "a100", "l4", "rtx4090"]
    """Plan for this GPU, whether or not this machine has it, and reserve a twentieth of its memory; with --explain, list the kernels of an update with their arithmetic, bytes and modelled time"""
    html: Path
    """Draw the plan as an HTML file for a browser: a map of the arena, bytes over the step's time; - for standard output"""
    memory_viz: Path
    """Write the plan as PyTorch's memory snapshot, which pytorch.org/memory_viz draws; - for standard output"""
    sweep: bool
    """Print a table of budgets with their speeds, from the smallest that works to the largest that helps"""
    points: int
    """Number of budgets in the sweep (default: 10)"""
    svg: Path
    """Draw the sweep as an SVG chart into this file; - for standard output"""
    ranks: int
    """Plan for this many processes, without starting them: the memory of each, and the time of an update, communication included"""
    devices_per_node: int
    """Number of these processes on each machine, which share its network (default: 1)"""
    network: Union[str, Sequence[str]]
    """Speed of the network of a machine, such as 100Gb/s or 12.5GB/s (default: 10Gb/s)"""
    local_network: Union[str, Sequence[str]]
    """Speed between two processes of a machine (default: 4GB/s on processors, 25GB/s between GPUs)"""
    network_latency: float
    """Latency of a message, in microseconds (default: 20)"""
    sweep_ranks: bool
    """Print a table of 1, 2, 4 ... processes, up to --ranks or 1024: the memory of each, and their speed together"""


PLAN: Dict[str, Option] = {
    **TRAIN,
    "explain": Option("--explain", "flag", False),
    "device_memory": Option("--device-memory", "size", False),
    "gpu": Option("--gpu", "str", False),
    "html": Option("--html", "path", False),
    "memory_viz": Option("--memory-viz", "path", False),
    "sweep": Option("--sweep", "flag", False),
    "points": Option("--points", "int", False),
    "svg": Option("--svg", "path", False),
    "ranks": Option("--ranks", "int", False),
    "devices_per_node": Option("--devices-per-node", "int", False),
    "network": Option("--network", "str", False),
    "local_network": Option("--local-network", "str", False),
    "network_latency": Option("--network-latency", "float", False),
    "sweep_ranks": Option("--sweep-ranks", "flag", False),
}


OPTIONS: Dict[str, Dict[str, Option]] = {"check": CHECK, "doctor": DOCTOR, "eval": EVAL, "generate": GENERATE, "plan": PLAN, "predict": PREDICT, "serve": SERVE, "train": TRAIN}

# Keywords of other programs that `train` and `plan` look at, though nothing here depends on them.
ACCEPTED: FrozenSet[str] = frozenset((
    "accelerator_config",
    "auto_find_batch_size",
    "average_tokens_across_devices",
    "batch_eval_metrics",
    "bf16_full_eval",
    "dataloader_in_order",
    "dataloader_multiprocessing_context",
    "dataloader_persistent_workers",
    "dataloader_pin_memory",
    "dataloader_prefetch_factor",
    "ddp_backend",
    "ddp_broadcast_buffers",
    "ddp_find_unused_parameters",
    "ddp_static_graph",
    "ddp_timeout",
    "debug",
    "deepspeed",
    "disable_tqdm",
    "do_eval",
    "do_predict",
    "do_train",
    "enable_jit_checkpoint",
    "eval_accumulation_steps",
    "eval_do_concat_batches",
    "eval_use_gather_object",
    "fp16_full_eval",
    "fsdp",
    "fsdp_config",
    "full_determinism",
    "gradient_checkpointing_kwargs",
    "hub_always_push",
    "hub_model_id",
    "hub_private_repo",
    "hub_revision",
    "hub_strategy",
    "hub_token",
    "ignore_data_skip",
    "include_for_metrics",
    "include_num_input_tokens_seen",
    "label_names",
    "length_column_name",
    "liger_kernel_config",
    "local_rank",
    "log_level",
    "log_level_replica",
    "log_on_each_node",
    "logging_nan_inf_filter",
    "neftune_noise_alpha",
    "optim_args",
    "optim_target_modules",
    "parallelism_config",
    "per_device_eval_batch_size",
    "prediction_loss_only",
    "project",
    "push_to_hub",
    "remove_unused_columns",
    "restore_callback_states_from_checkpoint",
    "run_name",
    "save_on_each_node",
    "skip_memory_metrics",
    "tf32",
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "torch_empty_cache_steps",
    "trackio_bucket_id",
    "trackio_space_id",
    "trackio_static_space_id",
    "use_cache",
    "use_cpu",
    "use_liger_kernel",
    "adafactor",
    "fp16_backend",
    "fp16_opt_level",
    "fsdp_min_num_params",
    "group_by_length",
    "half_precision_backend",
    "include_inputs_for_metrics",
    "include_tokens_per_second",
    "jit_mode_eval",
    "mp_parameters",
    "no_cuda",
    "past_index",
    "push_to_hub_model_id",
    "push_to_hub_organization",
    "push_to_hub_token",
    "ray_scope",
    "save_safetensors",
    "sharded_ddp",
    "torchdynamo",
    "tpu_metrics_debug",
    "tpu_num_cores",
    "use_ipex",
    "use_legacy_prediction_loop",
    "use_mps_device",
    "assistant_only_loss",
    "completion_only_loss",
    "activation_offloading",
    "chat_template_path",
    "dataset_kwargs",
    "dataset_num_proc",
    "dataset_text_field",
    "eos_token",
    "eval_packing",
    "loss_type",
    "model_init_kwargs",
    "packing",
    "packing_strategy",
    "pad_to_multiple_of",
    "pad_token",
    "padding_free",
    "router_aux_loss_coef",
    "shuffle_dataset",
    "truncation_mode",
    "alora_invocation_tokens",
    "arrow_config",
    "auto_mapping",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "kasa_config",
    "layer_replication",
    "layers_pattern",
    "loftq_config",
    "lora_bias",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "monteclora_config",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_qalora",
    "velora_config",
))
