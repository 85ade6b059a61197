#!/usr/bin/env python3
"""Compares adapters with Hugging Face's PEFT in both directions. Exit 1 if a bar fails.

1. `plimsoll init` makes a tiny base, `plimsoll train --lora-rank` trains adapters on drawn pages.
2. PEFT loads what was written (PeftModel.from_pretrained): logits, loss and every adapter's gradient against
   `plimsoll grad` on the same directory.
3. PEFT saves an adapter of its own, with other numbers: Plimsoll reads it; logits again.
4. `plimsoll merge` and PEFT's merge_and_unload give the same weights; transformers loads the merged directory.

  tools/check_peft.py [--plimsoll build/release/plimsoll] [--work build/peft]      (needs `pip install peft`)
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import peft
import safetensors.torch
import torch
from transformers import AutoConfig

import make_batch
import reference

LOGITS_BAR, WEIGHT_BAR = 2e-5, 1e-6
# The bar is relative to each tensor's own norm, against float64. Some gradients are a thousandth of the whole gradient,
# which float32 resolves less well: PyTorch's own error is 1e-4 there.
GRADIENT_BAR = 5e-5
LABELS = 9


def run(*command):
    completed = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}")


def load_with_peft(base, adapter):
    """Returns the base with the labels that the adapter's directory names, and the adapter on top."""
    config = AutoConfig.from_pretrained(adapter if (adapter / "config.json").exists() else base)
    model = reference.LayoutLMv3ForTokenClassification.from_pretrained(base, config=config, ignore_mismatched_sizes=True)
    return peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).eval()


def name_in_plimsoll(name):
    """base_model.model.<module>.lora_A.default.weight, base_model.model.classifier.modules_to_save.default.weight."""
    return (name.removeprefix("base_model.model.").replace(".lora_A.default.", ".lora_A.")
            .replace(".lora_B.default.", ".lora_B.").replace(".modules_to_save.default.", "."))


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
    worst = max(relative(found[name], gradients[name]) for name in names & set(gradients)
                if gradients[name].norm() > 1e-9)
    report.row("gradients, worst relative difference", worst, GRADIENT_BAR)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    parser.add_argument("--work", type=Path, default=reference.REPOSITORY / "build" / "peft")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(2)
    work, plimsoll = options.work, options.plimsoll
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    base, ours, theirs = work / "base", work / "ours", work / "theirs"
    run(plimsoll, "synth", "--output", work / "pages", "--count", 24)
    run(plimsoll, "init", "--model", "layoutlmv3-tiny", "--labels", ",".join(reference.SROIE_LABELS), "--output-dir", base)
    run(plimsoll, "train", "--model", base, "--data", work / "pages" / "train.jsonl", "--output-dir", ours, "--lora-rank",
        4, "--lora-alpha", 12, "--lora-dropout", 0.1, "--max-steps", options.steps, "--learning-rate", 5e-2, "--save-steps",
        0, "--budget", "1GiB")
    config = AutoConfig.from_pretrained(base)
    batch = make_batch.make_batch(2, 64, LABELS, synthetic=True, vocabulary=config.vocab_size)
    batch_file = work / "batch.safetensors"
    safetensors.torch.save_file({name: value.contiguous() for name, value in batch.items()}, batch_file)
    report = Report()

    print(f"Plimsoll's adapter in PEFT {peft.__version__} (transformers {reference.transformers.__version__}):")
    trained = safetensors.torch.load_file(ours / "adapter_model.safetensors")
    least = min(float(value.norm()) for name, value in trained.items() if ".lora_B." in name)
    report.row("training moved no B (1: so, 0: all moved)", float(least == 0), 0)
    compare(report, plimsoll, base, ours, batch_file, batch, work)

    print("PEFT's adapter in Plimsoll, rank 3 on query and value:")
    model = peft.get_peft_model(
        reference.LayoutLMv3ForTokenClassification.from_pretrained(base),
        peft.LoraConfig(task_type="TOKEN_CLS", r=3, lora_alpha=7, target_modules=["query", "value"]))
    torch.manual_seed(5)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.requires_grad:
                value.normal_(0, 0.1)
    model.save_pretrained(theirs)
    compare(report, plimsoll, base, theirs, batch_file, batch, work)

    print("merged:")
    for adapter in (ours, theirs):
        merged = work / f"merged-{adapter.name}"
        run(plimsoll, "merge", "--model", base, "--adapter", adapter, "--output-dir", merged)
        with_adapter = load_with_peft(base, adapter)
        _, expected, _ = forward_backward(with_adapter, batch)
        folded = with_adapter.merge_and_unload().state_dict()
        ours_merged = reference.LayoutLMv3ForTokenClassification.from_pretrained(merged).eval()
        worst = max(float((value - folded[name]).abs().max()) for name, value in ours_merged.state_dict().items()
                    if value.is_floating_point())
        report.row(f"{adapter.name}: weights against merge_and_unload", worst, WEIGHT_BAR)
        with torch.no_grad():
            logits = ours_merged(**batch).logits
        report.row(f"{adapter.name}: logits of the merged model in transformers",
                   float((logits - expected).abs().max()), LOGITS_BAR)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
