#!/usr/bin/env python3
"""Makes all golden data of the model and training tests again: test/data/model/ and test/data/metrics.json.

  tools/make_golden.py

Everything is seeded; versions and recipes are recorded in the JSON files. The output is described in
test/data/model/README.md.
"""

import argparse
import json
import shutil
from pathlib import Path
from unittest import mock

import torch

import families
import golden_metrics
import receipts
import reference

SEED = 2024
LABELS = {"linear": 5, "mlp": 11}  # below 10 labels the head is one linear map
BATCH, LENGTH, LENGTHS = 2, 24, (24, 17)  # two pages of 24 and 17 tokens, padded to 24
UPDATES, BATCHES, WARMUP = 20, 5, 2
LEARNING_RATE = 2e-3


def golden_batch(labels, seed):
    config = reference.SHAPES["golden"]
    batch = receipts.synthetic_batch(LENGTHS, LENGTH, config["vocab_size"], labels, config["input_size"], seed)
    # Extreme values for the box tables: the whole page, and a box of zero size.
    batch["bbox"][0, 1] = torch.tensor([0, 0, 1000, 1000])
    batch["bbox"][0, 2] = torch.tensor([500, 500, 500, 500])
    return batch


def reference_file(model, batch):
    """Returns loss, logits, gradients and hidden states of a float64 run, rounded to float32 at the end."""
    exact = model.double()
    inputs = {name: value.double() if name == "pixel_values" else value for name, value in batch.items()}
    result = reference.loss_and_gradients(exact, inputs)
    with torch.no_grad():
        states = exact(**inputs, output_hidden_states=True).hidden_states
    for index, state in enumerate(states):  # 0: input of the encoder, i: output of layer i - 1
        result[f"hidden_states.{index}"] = state
    return {name: value.float().clone() for name, value in result.items()}


def table_gradients(model, batch):
    """Returns gradients of the relative position tables, which transformers looks up without gradient and unilm trains."""
    inputs = {name: value.double() if name == "pixel_values" else value for name, value in batch.items()}
    with mock.patch.object(torch, "no_grad", torch.enable_grad):
        loss = model.double()(**inputs).loss
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {name: value.grad.float() for name, value in model.named_parameters()
            if name.endswith(reference.RELATIVE_TABLES)}


def training_run(model, batches, optim):
    """Returns losses before each update, in float64 and in float32, the final weights, and the float64 model."""
    runs = {}
    for dtype in (torch.float64, torch.float32):
        exact = reference.LayoutLMv3ForTokenClassification(model.config)
        exact.load_state_dict(model.state_dict())
        exact = exact.to(dtype).train()  # dropout is 0 in this configuration
        trainer = reference.Trainer(exact, LEARNING_RATE, UPDATES, WARMUP, weight_decay=0.01, max_grad_norm=1.0,
                                    optim=optim)
        steps = []
        for update in range(UPDATES):
            batch = dict(batches[update % BATCHES])
            batch["pixel_values"] = batch["pixel_values"].to(dtype)
            steps.append(trainer.step([batch]))
        runs[dtype] = (steps, exact)
    steps, exact = runs[torch.float64]
    initial = dict(model.named_parameters())
    with torch.no_grad():
        parameters = {name: {"norm": float(value.norm()), "sum": float(value.sum()),
                             "moved": float((value - initial[name]).norm())}
                      for name, value in exact.named_parameters()}
    return {"losses": [step[0] for step in steps], "losses_float32": [step[0] for step in runs[torch.float32][0]],
            "gradient_norms": [step[1] for step in steps], "learning_rates": [step[2] for step in steps],
            "final_parameters": parameters}, exact


OPTIMIZERS = {"adamw_torch": {"optimizer": "AdamW", "learning_rate": LEARNING_RATE, "beta1": 0.9, "beta2": 0.999,
                              "epsilon": 1e-8},
              "adafactor": {"optimizer": "Adafactor", "learning_rate": LEARNING_RATE}}


# Tensors of more than two dimensions are kept whole, because Adafactor factors them over their last two.
STACKS = ("layoutlmv3.cls_token", "layoutlmv3.pos_embed", "layoutlmv3.patch_embed.proj.weight")


def write_training(model, batches, head, labels, optim, path):
    result, trained = training_run(model, batches, optim)
    if optim == "adafactor":
        ends = dict(trained.named_parameters())
        reference.write_tensors({name: ends[name].float() for name in STACKS}, path.with_suffix(".safetensors"))
    reference.write_json({
        "versions": reference.versions(), "seed": SEED, "head": head, "labels": labels,
        "recipe": {"updates": UPDATES, "batch_of_update": "update % 5, updates counted from 0", **OPTIMIZERS[optim],
                   "weight_decay": 0.01, "no_decay": "biases and LayerNorm weights",
                   "schedule": "linear", "warmup_updates": WARMUP, "max_grad_norm": 1.0, "dropout": 0.0},
        **result}, path)


def make_models(directory):
    for head, labels in LABELS.items():
        # The first head is saved as safetensors with the base model's prefix, the second as pickle without it.
        file_format, prefix = ("safetensors", True) if head == "linear" else ("bin", False)
        model = reference.make_model("golden", labels, SEED + labels, dropout=0.0)
        folder = directory / head
        reference.save_model(model, folder, file_format, prefix)
        batches = [golden_batch(labels, SEED + 100 * labels + index) for index in range(BATCHES)]
        for index, batch in enumerate(batches):
            reference.write_tensors(batch, folder / f"batch{index}.safetensors")
        write_training(model, batches, head, labels, "adamw_torch", folder / "training.json")
        if head == "linear":
            write_training(model, batches, head, labels, "adafactor", folder / "training_adafactor.json")
        reference.write_tensors(reference_file(model, batches[0]), folder / "reference.safetensors")
        reference.write_tensors(table_gradients(model, batches[0]), folder / "table_gradients.safetensors")


# One whose positions count padding, and one whose do not.
TEXT_FAMILIES = ("bert", "roberta")


def make_text_models(directory):
    for family in TEXT_FAMILIES:
        model = families.make_model(family, "golden", LABELS["linear"], SEED)
        batch = families.make_batch(model.config, LENGTHS, LENGTH, SEED)
        batch["input_ids"][0, 3] = model.config.pad_token_id  # a word that reads as padding does
        reference.save_model(model, directory / family)
        reference.write_tensors(batch, directory / family / "batch0.safetensors")
        exact = reference.loss_and_gradients(model.double(), batch)
        reference.write_tensors({name: value.float().clone() for name, value in exact.items()},
                                directory / family / "reference.safetensors")


# Each problem of classes of pages once, on families whose heads differ: an MLP of their own, BERT's pooler. Answers and
# links. And the families that are not among the larger models above.
CLASSES = (("layoutlmv3", "single-label"), ("bert", "multi-label"), ("roberta", "regression"),
           ("layoutlmv3", "question-answering"), ("layoutlmv3", "relation-extraction"), ("lilt", "token-classification"),
           ("layoutlm", "token-classification"), ("xlm-roberta", "token-classification"), ("qwen3", "causal-lm"),
           ("gpt2", "causal-lm-tied"), ("gpt2", "single-label"))


def make_class_models(directory):
    for family, task in CLASSES:
        model = families.make_model(family, "head", LABELS["linear"], SEED, task)
        batch = families.make_batch(model.config, (9, 5, 7), 9, SEED, task)
        folder = directory / f"{family}-{task}"
        model.save_pretrained(folder)
        reference.write_tensors(batch, folder / "batch0.safetensors")
        exact = reference.loss_and_gradients(model.double(), families.exact(batch))
        reference.write_tensors({name: value.float().clone() for name, value in exact.items()},
                                folder / "reference.safetensors")


def run_lengths(values):
    """[[value, count], ...]"""
    runs = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def make_relative(path):
    """Returns buckets of every difference that a 512-token page or a 0..1000 box can have, and the boxes of the patches."""
    model = reference.LayoutLMv3ForTokenClassification(reference.make_config("golden", 5, 0.0)).layoutlmv3
    tables = {}
    for name, bins, distance, reach in (("position", 32, 128, 1023), ("box", 64, 256, 1023)):
        differences = torch.arange(-reach, reach + 1)
        buckets = model.encoder.relative_position_bucket(differences, num_buckets=bins, max_distance=distance)
        tables[name] = {"bins": bins, "max_distance": distance, "first_difference": -reach,
                        "runs": run_lengths(buckets.tolist())}
    boxes = {str(side): model.create_visual_bbox(image_size=(side, side)).tolist() for side in (4, 14)}
    value = {"versions": reference.versions(), "difference": "key minus query", "buckets": tables,
             "visual_boxes": boxes}
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=reference.REPOSITORY / "test" / "data")
    options = parser.parse_args()
    torch.set_num_threads(1)  # sums run in one order, so the bytes repeat
    directory = options.output / "model"
    for folder in (*LABELS, *TEXT_FAMILIES, *("-".join(case) for case in CLASSES)):
        shutil.rmtree(directory / folder, ignore_errors=True)
    make_models(directory)
    make_text_models(directory)
    make_class_models(directory)
    make_relative(directory / "relative.json")
    golden_metrics.make_metrics(options.output / "metrics.json")
    files = sorted(path for path in options.output.rglob("*") if path.is_file() and "model" in str(path.parent))
    for path in files + [options.output / "metrics.json"]:
        print(f"{path.stat().st_size:>9,}  {path.relative_to(options.output)}")


if __name__ == "__main__":
    main()
