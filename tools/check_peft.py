#!/usr/bin/env python3
"""Compares adapters with Hugging Face's PEFT in both directions. Exit 1 if a bar fails.

For a model that sees pages and one that reads words alone, and for each setting (plain LoRA, rsLoRA, patterns of ranks
and alphas, saved modules, DoRA, all of them together):

1. `plimsoll init` makes a tiny base, `plimsoll train --lora-rank` trains adapters on drawn pages.
2. PEFT loads what was written (PeftModel.from_pretrained): logits, loss and every adapter's gradient against
   `plimsoll grad` on the same directory.
3. PEFT saves an adapter of its own, with other numbers: Plimsoll reads it; logits and gradients again.
4. `plimsoll merge` and PEFT's merge_and_unload give the same weights; transformers loads the merged directory.

  tools/check_peft.py [--plimsoll build/release/plimsoll] [--work build/peft] [--only dora]   (needs `pip install peft`)
"""

import argparse
import copy
import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import peft
import safetensors.torch
import torch
from transformers import AutoConfig, AutoModelForTokenClassification

import make_batch
import reference

LOGITS_BAR, WEIGHT_BAR = 2e-5, 1e-6
# The bar is relative to each tensor's own norm, against float64. Some gradients are a thousandth of the whole gradient,
# which float32 resolves less well: PyTorch's own error is 1e-4 there.
GRADIENT_BAR = 5e-5
LABELS = 9
FAMILIES = {"layoutlmv3-tiny": "layoutlmv3", "roberta-tiny": "roberta"}  # presets, and the encoder's name in each


@dataclasses.dataclass
class Setting:
    """What `plimsoll train` is asked for beside --lora-rank 4 --lora-alpha 12, and PEFT's adapter, of rank 3."""

    flags: list
    config: dict


SETTINGS = {
    "plain": Setting([], {"target_modules": ["query", "value"]}),
    "rslora": Setting(["--use-rslora"], {"target_modules": ["query", "output.dense"], "use_rslora": True}),
    "patterns": Setting(
        ["--rank-pattern", "query=6,attention.output.dense=2", "--rank-pattern", r'{"layer\\.1\\.intermediate.*": 7}',
         "--alpha-pattern", "value=5,layer.0.output.dense=2.5"],
        {"target_modules": ["query", "key", "output.dense"], "alpha_pattern": {"key": 5, "query": 1},
         # The first that matches counts: "output.dense" is the end of "attention.output.dense" too.
         "rank_pattern": {r"layer\.0\..*": 5, "output.dense": 2}}),
    "saved-modules": Setting(
        ["--modules-to-save", "embeddings.LayerNorm,layer.1.output,word_embeddings"],
        {"target_modules": ["query", "dense"], "modules_to_save": ["layer.0.intermediate", "LayerNorm"]}),
    "excluded": Setting(
        ["--exclude-modules", "key,layer.0.output.dense", "--layers-to-transform", "0"],
        {"target_modules": ["query", "dense"], "exclude_modules": ["attention.output.dense"],
         "layers_to_transform": [1]}),
    "dora": Setting(["--use-dora"], {"target_modules": ["query", "value", "dense"], "use_dora": True}),
    "dora-with-all": Setting(
        ["--use-dora", "--use-rslora", "--rank-pattern", "key=2", "--alpha-pattern", "output.dense=3",
         "--modules-to-save", "attention.output.LayerNorm"],
        {"target_modules": ["query", "key", "value", "dense"], "use_dora": True, "use_rslora": True,
         "rank_pattern": {"value": 1}, "modules_to_save": ["layer.1.output.LayerNorm"]}),
}


def run(*command):
    completed = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}")


def load_with_peft(base, adapter):
    """Returns the base with the labels that the adapter's directory names, and the adapter on top."""
    config = AutoConfig.from_pretrained(adapter if (adapter / "config.json").exists() else base)
    model = AutoModelForTokenClassification.from_pretrained(base, config=config, ignore_mismatched_sizes=True)
    return peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).eval()


def name_in_plimsoll(name):
    """base_model.model.<module>.lora_A.default.weight, base_model.model.classifier.modules_to_save.default.weight."""
    return (name.removeprefix("base_model.model.").replace(".lora_A.default.", ".lora_A.")
            .replace(".lora_B.default.", ".lora_B.").replace(".modules_to_save.default.", ".")
            .replace(".lora_magnitude_vector.default.weight", ".lora_magnitude_vector"))


def forward_backward(model, batch):
    """Returns logits, loss and gradients; labels that are not -100 have equal weight."""
    model.zero_grad()
    output = model(**batch)
    output.loss.backward()
    gradients = {name_in_plimsoll(name): value.grad for name, value in model.named_parameters() if value.grad is not None}
    return output.loss.detach(), output.logits.detach()[:, :batch["input_ids"].shape[1]], gradients


class Report:
    def __init__(self):
        self.good = True

    def row(self, what, measured, bar):
        passed = measured <= bar
        self.good = self.good and passed
        print(f"  {what:<58} {measured:>10.2e}  bar {bar:.0e}  {'ok' if passed else 'FAILS'}")


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-12))


def compare(report, plimsoll, base, adapter, batch_file, batch, work):
    found_file = work / "grad.safetensors"
    run(plimsoll, "grad", "--model", adapter, "--base-model", base, "--batch", batch_file, "--output", found_file)
    found = safetensors.torch.load_file(found_file)
    exact = {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}
    loss, logits, gradients = forward_backward(load_with_peft(base, adapter).double(), exact)
    report.row("logits, largest difference", float((found["logits"] - logits).abs().max()), LOGITS_BAR)
    report.row("loss, difference", float((found["loss"] - loss).abs()), LOGITS_BAR)
    names = set(found) - {"loss", "logits"}
    report.row(f"names of {len(gradients)} gradients that only one has", len(names ^ set(gradients)), 0)
    worst = max((relative(found[name], gradients[name]), name) for name in names & set(gradients)
                if gradients[name].norm() > 1e-9)
    report.row("gradients, worst relative difference", worst[0], GRADIENT_BAR)


def compare_merged(report, plimsoll, base, adapter, batch, work):
    merged = work / f"merged-{adapter.name}"
    run(plimsoll, "merge", "--model", base, "--adapter", adapter, "--output-dir", merged)
    with_adapter = load_with_peft(base, adapter)
    _, expected, _ = forward_backward(with_adapter, batch)
    folded = with_adapter.merge_and_unload().state_dict()
    ours = AutoModelForTokenClassification.from_pretrained(merged).eval()
    worst = max(float((value - folded[name]).abs().max()) for name, value in ours.state_dict().items()
                if value.is_floating_point())
    report.row(f"{adapter.name}, merged: weights against merge_and_unload", worst, WEIGHT_BAR)
    with torch.no_grad():
        logits = ours(**batch).logits
    report.row(f"{adapter.name}, merged: logits in transformers", float((logits - expected).abs().max()), LOGITS_BAR)


def save_with_peft(base, directory, setting):
    """PEFT's own adapter, with numbers in everything that trains; saved modules differ from the base's."""
    config = copy.deepcopy(setting.config)  # PEFT adds to its lists
    model = peft.get_peft_model(AutoModelForTokenClassification.from_pretrained(base),
                                peft.LoraConfig(task_type="TOKEN_CLS", r=3, lora_alpha=7, **config))
    torch.manual_seed(5)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if not value.requires_grad:
                continue
            if "lora_" in name and "magnitude" not in name or "classifier" in name:
                value.normal_(0, 0.1)
            else:  # about the number that it was, so that the model still computes something
                value.mul_(1 + 0.2 * torch.rand_like(value)).add_(0.02 * torch.randn_like(value))
    model.save_pretrained(directory)


def check(report, plimsoll, base, batch_file, batch, work, setting, steps):
    ours, theirs = work / "ours", work / "theirs"
    run(plimsoll, "train", "--model", base, "--data", work.parent.parent / "pages" / "train.jsonl", "--output-dir", ours,
        "--lora-rank", 4, "--lora-alpha", 12, "--lora-dropout", 0.1, "--max-steps", steps, "--learning-rate", 2e-3,
        "--save-steps", 0, "--budget", "1GiB", *setting.flags)
    trained = safetensors.torch.load_file(ours / "adapter_model.safetensors")
    least = min(float(value.norm()) for name, value in trained.items() if ".lora_B." in name)
    report.row("ours: training moved no B (1: so, 0: all moved)", float(least == 0), 0)
    print("  Plimsoll's adapter in PEFT:")
    compare(report, plimsoll, base, ours, batch_file, batch, work)
    print("  PEFT's adapter in Plimsoll:")
    save_with_peft(base, theirs, setting)
    compare(report, plimsoll, base, theirs, batch_file, batch, work)
    for adapter in (ours, theirs):
        compare_merged(report, plimsoll, base, adapter, batch, work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    parser.add_argument("--work", type=Path, default=reference.REPOSITORY / "build" / "peft")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only", choices=SETTINGS, action="append", help="these settings alone")
    options = parser.parse_args()
    torch.set_num_threads(2)
    work, plimsoll = options.work, options.plimsoll
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run(plimsoll, "synth", "--output", work / "pages", "--count", 24)
    print(f"PEFT {peft.__version__}, transformers {reference.transformers.__version__}, torch {torch.__version__}")
    report = Report()
    for preset, family in FAMILIES.items():
        base = work / preset / "base"
        run(plimsoll, "init", "--model", preset, "--labels", ",".join(reference.SROIE_LABELS), "--output-dir", base)
        vocabulary = AutoConfig.from_pretrained(base).vocab_size
        batch = make_batch.make_batch(2, 64, LABELS, synthetic=True, vocabulary=vocabulary)
        if family == "roberta":
            batch = {name: value for name, value in batch.items() if name not in ("bbox", "pixel_values")}
        batch_file = work / preset / "batch.safetensors"
        safetensors.torch.save_file({name: value.contiguous() for name, value in batch.items()}, batch_file)
        for name, setting in SETTINGS.items():
            if options.only and name not in options.only:
                continue
            print(f"{preset}, {name}:")
            folder = work / preset / name
            folder.mkdir()
            check(report, plimsoll, base, batch_file, batch, folder, setting, options.steps)
    print("every bar holds" if report.good else "A BAR FAILS")
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
