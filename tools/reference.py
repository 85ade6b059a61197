"""The Hugging Face side of every comparison: models with random weights, one exact forward and backward, the recipe.

Used by the scripts of tools/ and bench/; not a program itself.
"""

import json
import os
import platform
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import safetensors.torch
import torch
import transformers
from transformers import LayoutLMv3Config, LayoutLMv3ForTokenClassification
from transformers.trainer_pt_utils import get_parameter_names

transformers.utils.logging.disable_progress_bar()

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("PLIMSOLL_SHARED_DIR", REPOSITORY.parent / "shared"))
PLIMSOLL = REPOSITORY / "build" / "release" / "plimsoll"
PREFIX = "layoutlmv3."
IGNORED_LABEL = -100

# transformers looks these up without gradient, so they never train there.
RELATIVE_TABLES = ("encoder.rel_pos_bias.weight", "encoder.rel_pos_x_bias.weight", "encoder.rel_pos_y_bias.weight")

# Published shapes (base, large), Plimsoll's presets for training from scratch (tiny, small), and golden for tests.
SHAPES = {
    "golden": dict(hidden_size=48, num_attention_heads=3, num_hidden_layers=2, intermediate_size=96,
                   coordinate_size=8, shape_size=8, vocab_size=120, max_position_embeddings=40, input_size=32,
                   patch_size=8),
    "head": dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=24,
                 coordinate_size=3, shape_size=2, vocab_size=40, max_position_embeddings=20, input_size=16,
                 patch_size=8),
    "tiny": dict(hidden_size=96, num_attention_heads=3, num_hidden_layers=2, intermediate_size=384,
                 coordinate_size=16, shape_size=16),
    "small": dict(hidden_size=192, num_attention_heads=6, num_hidden_layers=6, intermediate_size=768,
                  coordinate_size=32, shape_size=32),
    "base": dict(hidden_size=768, num_attention_heads=12, num_hidden_layers=12, intermediate_size=3072,
                 coordinate_size=128, shape_size=128),
    "large": dict(hidden_size=1024, num_attention_heads=16, num_hidden_layers=24, intermediate_size=4096,
                  coordinate_size=171, shape_size=170),
}

SROIE_LABELS = ["O"] + [f"{tag}-{name}" for name in ("COMPANY", "ADDRESS", "DATE", "TOTAL") for tag in "BI"]


def versions():
    """Returns the facts that a golden file must record so that it can be made again."""
    return {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__}


def label_names(count):
    """Returns SROIE's nine names if the count is nine; otherwise O, B-FIELD1, I-FIELD1, ..."""
    if count == len(SROIE_LABELS):
        return SROIE_LABELS
    return (["O"] + [f"{tag}-FIELD{i}" for i in range(1, count) for tag in "BI"])[:count]


def make_config(shape, labels, dropout):
    names = label_names(labels)
    return LayoutLMv3Config(**{
        "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, **SHAPES[shape],
        "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
        "id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)},
    })


@torch.no_grad()
def randomise(model, seed):
    """Fills every parameter so that none is exactly 0 or 1: a term that an engine forgets then changes the result.

    Each parameter has its own generator, so that one tensor's shape does not change the others' values.
    """
    for index, (name, parameter) in enumerate(sorted(model.named_parameters())):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith(("LayerNorm.weight", ".norm.weight")):
            value = 1 + 0.1 * noise
        elif name.endswith(RELATIVE_TABLES):
            value = 0.5 * noise
        elif name.endswith("bias"):
            value = 0.05 * noise
        elif "embeddings." in name or name.endswith(("cls_token", "pos_embed")):
            value = 0.05 * noise
        elif name.startswith("classifier."):
            value = 0.05 * noise
        else:
            # 0.02 as published, larger for short rows, so that narrow models' attention is not flat.
            value = max(0.02, 0.5 / parameter[0].numel() ** 0.5) * noise
        value[(value == 0) | (value == 1)] += 0.03125
        parameter.copy_(value)
    for name, parameter in model.named_parameters():
        assert not bool(((parameter == 0) | (parameter == 1)).any()), name


def make_model(shape, labels, seed, dropout=0.1):
    model = LayoutLMv3ForTokenClassification(make_config(shape, labels, dropout))
    randomise(model, seed)
    return model.eval()


def save_model(model, directory, file_format="safetensors", prefix=True):
    """config.json as transformers writes it; weights in the given format, with or without the base model's name prefix."""
    directory = Path(directory)
    model.save_pretrained(directory)
    if file_format == "safetensors" and prefix:
        return
    (directory / "model.safetensors").unlink()
    state = {name if prefix else name.removeprefix(PREFIX): value.detach().clone().contiguous()
             for name, value in model.state_dict().items()}
    if file_format == "bin":
        torch.save(state, directory / "pytorch_model.bin")
    else:
        safetensors.torch.save_file(state, directory / "model.safetensors", metadata={"format": "pt"})


def read_weights(directory):
    """Maps names to tensors with the prefix restored, from model.safetensors or pytorch_model.bin."""
    directory = Path(directory)
    if (directory / "model.safetensors").exists():
        state = safetensors.torch.load_file(directory / "model.safetensors")
    else:
        state = torch.load(directory / "pytorch_model.bin", weights_only=True)
    return {name if name.startswith((PREFIX, "classifier.")) else PREFIX + name: value
            for name, value in state.items()}


def load_model(directory, dtype=torch.float32):
    """Loads strictly: every parameter comes from the file, and no name is left over."""
    config = LayoutLMv3Config.from_pretrained(directory)
    model = LayoutLMv3ForTokenClassification(config)
    model.load_state_dict(read_weights(directory), strict=True)
    return model.to(dtype).eval()


BATCH_NAMES = ("input_ids", "bbox", "attention_mask", "pixel_values", "labels")


def exact_products():
    """Disables TF32 on a GPU, so that products of float32 are in float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def read_batch(path, dtype=torch.float32, device="cpu"):
    batch = safetensors.torch.load_file(path)
    batch = {name: batch[name].to(device) for name in BATCH_NAMES}
    batch["pixel_values"] = batch["pixel_values"].to(dtype)
    return batch


def write_tensors(tensors, path, metadata=None):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({name: value.detach().contiguous() for name, value in tensors.items()}, path,
                                metadata=metadata)


def loss_and_gradients(model, batch):
    """{"loss": [], "logits": [B, T, L], or [B, T, 2] of starts and ends, HF parameter name: gradient}, in the model's own
    precision."""
    model.zero_grad(set_to_none=True)
    output = model(**batch)
    output.loss.backward()
    logits = output.logits if "logits" in output else torch.stack([output.start_logits, output.end_logits], dim=-1)
    result = {"loss": output.loss.detach(), "logits": logits.detach()}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            result[name] = parameter.grad
    return result


def parameter_groups(model, weight_decay):
    """The Trainer's grouping: LayerNorm weights and biases are not decayed."""
    patterns = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
    decayed = set(get_parameter_names(model, [torch.nn.LayerNorm], patterns))
    named = list(model.named_parameters())
    return [{"params": [p for n, p in named if n in decayed], "weight_decay": weight_decay},
            {"params": [p for n, p in named if n not in decayed], "weight_decay": 0.0}]


def linear_schedule(update, updates, warmup_updates):
    """Returns the factor on the learning rate of `update` (from 0), as transformers' get_linear_schedule_with_warmup."""
    if update < warmup_updates:
        return update / max(1, warmup_updates)
    return max(0.0, (updates - update) / max(1, updates - warmup_updates))


class Trainer:
    """One update at a time by the recipe that `plimsoll train` follows: AdamW or Adafactor, clipping, linear schedule.

    An update's batch may be split into micro-batches; each loss is weighted by its labelled tokens, so that any split
    gives the loss of the whole batch.
    """

    def __init__(self, model, learning_rate, updates, warmup_updates=0, weight_decay=0.01, max_grad_norm=1.0,
                 optim="adamw_torch", class_weights=None, label_smoothing=0.0):
        self.model = model
        self.class_weights, self.label_smoothing = class_weights, label_smoothing
        self.learning_rate, self.updates, self.warmup_updates = learning_rate, updates, warmup_updates
        self.max_grad_norm = max_grad_norm
        groups = parameter_groups(model, weight_decay)
        if optim == "adafactor":  # as the Trainer calls it
            self.optimizer = transformers.Adafactor(groups, lr=learning_rate, scale_parameter=False,
                                                    relative_step=False)
        else:
            # The fused kernel is the default of transformers' Trainer with torch >= 2.8; the formula is the same.
            self.optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.999), eps=1e-8, fused=True)
        self.update = 0

    def weight(self, labels):
        """Returns what the mean over the labels is divided by: their number, or the sum of their classes' weights."""
        labels = labels[labels != IGNORED_LABEL]
        return len(labels) if self.class_weights is None else float(self.class_weights[labels].double().sum())

    def loss(self, batch):
        output = self.model(**batch)
        if self.class_weights is None and self.label_smoothing == 0:
            return output.loss
        loss = torch.nn.CrossEntropyLoss(weight=self.class_weights, ignore_index=IGNORED_LABEL, reduction="mean",
                                         label_smoothing=self.label_smoothing)
        labels = batch["labels"]
        logits = output.logits[:, :labels.shape[1]]
        return loss(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    def step(self, micro_batches):
        """Returns (loss before the update, gradient norm before clipping, learning rate)."""
        labelled = sum(self.weight(batch["labels"]) for batch in micro_batches)
        rate = self.learning_rate * linear_schedule(self.update, self.updates, self.warmup_updates)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.zero_grad(set_to_none=True)
        total = 0.0
        for batch in micro_batches:
            weight = self.weight(batch["labels"])
            if weight == 0:
                continue
            loss = self.loss(batch) * (weight / labelled)
            loss.backward()
            total += float(loss.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm))
        self.optimizer.step()
        self.update += 1
        return total, norm, rate


def read_jsonl(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def write_json(value, path):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
