#!/usr/bin/env python3
"""Checks the training bar: 20 AdamW updates by `plimsoll train` and by PyTorch, losses within 1e-3 relative.

Makes a model with random weights (none 0 or 1) and dropout 0, trains it with Plimsoll on the receipts, then repeats in
PyTorch the updates that Plimsoll recorded in order.jsonl ({"update": u, "examples": [[page, window], ...]}), with
transformers' own tokenizer, image processor and weight-decay grouping. Afterwards transformers loads the directory that
Plimsoll saved, and its logits are compared with Plimsoll's on one batch (bar 1e-5). Exit 1 if a bar fails.

  tools/check_training.py [--shape base] [--updates 20] [--work build/training] [--class-weights balanced]
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import safetensors.torch
import torch

import compare_grad
import receipts
import reference

LOSS_BAR = 1e-3


def run(command):
    command = [str(part) for part in command]
    completed = subprocess.run(command, capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{' '.join(command)}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}")


def logged_losses(directory):
    """Returns the loss of each update, from metrics.jsonl with one line per update (--logging-steps 1)."""
    rows = [row for row in reference.read_jsonl(directory / "metrics.jsonl") if "loss" in row]
    return sorted(rows, key=lambda row: row["step"])


def train_with_pytorch(model, windows, order, options):
    weights = torch.tensor(options.weights_of_labels) if options.weights_of_labels else None
    trainer = reference.Trainer(model.train(), options.learning_rate, len(order),
                                warmup_updates=-(-len(order) * options.warmup_percent // 100), class_weights=weights,
                                label_smoothing=options.label_smoothing_factor)
    steps = []
    for line in order:
        examples = line["examples"]
        micro = [windows.collate(examples[begin:begin + options.micro_batch])
                 for begin in range(0, len(examples), options.micro_batch)]
        steps.append(trainer.step(micro))
    return steps


def compare_saved(options, saved, windows, order):
    """Compares logits of the saved directory: transformers' from_pretrained and `plimsoll grad`."""
    batch = windows.collate(order[0]["examples"][:2])
    path = options.work / "saved-batch.safetensors"
    reference.write_tensors(batch, path)
    run([options.plimsoll, "grad", "--model", saved, "--batch", path, "--output", options.work / "saved.safetensors"])
    ours = safetensors.torch.load_file(options.work / "saved.safetensors")
    model, report = reference.LayoutLMv3ForTokenClassification.from_pretrained(saved, output_loading_info=True)
    unclean = {name: sorted(values) for name, values in report.items() if values}
    with torch.no_grad():
        theirs = model.eval()(**batch)
    return [("saved weights missing, unexpected or misshaped", len(unclean), 0, json.dumps(unclean) if unclean else ""),
            ("saved logits, largest difference", float((ours["logits"] - theirs.logits).abs().max()),
             compare_grad.LOGITS_BAR, "")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=("tiny", "small", "base"), default="base")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--train-batch-size", type=int, default=4)
    parser.add_argument("--micro-batch", type=int, default=2, help="of the PyTorch run, to spare memory")
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--warmup-percent", type=int, default=10)
    parser.add_argument("--class-weights", help="as plimsoll train takes them; what they are is read from args.json")
    parser.add_argument("--label-smoothing-factor", type=float, default=0.0)
    parser.add_argument("--budget", default="8GiB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=reference.SHARED / "data" / "sroie" / "train.jsonl")
    parser.add_argument("--tokenizer", type=Path,
                        default=reference.SHARED / "data" / "layoutlmv3-base" / "tokenizer.json")
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    parser.add_argument("--work", type=Path, default=reference.REPOSITORY / "build" / "training")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    start, trained = options.work / "start", options.work / "trained"
    shutil.rmtree(options.work, ignore_errors=True)
    model = reference.make_model(options.shape, len(reference.SROIE_LABELS), seed=3, dropout=0.0)
    reference.save_model(model, start)
    shutil.copy(options.tokenizer, start / "tokenizer.json")
    run([options.plimsoll, "train", "--model", start, "--data", options.data, "--output-dir", trained,
         "--budget", options.budget, "--max-steps", options.updates, "--train-batch-size", options.train_batch_size,
         "--learning-rate", options.learning_rate, "--warmup-ratio", options.warmup_percent / 100,
         "--weight-decay", 0.01, "--max-grad-norm", 1.0, "--lr-scheduler-type", "linear", "--log-order", "--logging-steps", 1,
         "--seed", 1, "--threads", options.threads, "--label-smoothing-factor", options.label_smoothing_factor,
         *(["--class-weights", options.class_weights] if options.class_weights else [])])
    options.weights_of_labels = json.loads((trained / "args.json").read_text(encoding="utf-8")).get("class_weights")
    if options.weights_of_labels:
        print("class weights:", ", ".join(f"{weight:.4g}" for weight in options.weights_of_labels))

    windows = receipts.Windows(options.data, receipts.load_tokenizer(options.tokenizer),
                               receipts.load_label_ids(start))
    order = sorted(reference.read_jsonl(trained / "order.jsonl"), key=lambda line: line["update"])
    ours = logged_losses(trained)
    theirs = train_with_pytorch(model, windows, order, options)
    print(f"{options.shape}, batch {options.train_batch_size}, learning rate {options.learning_rate}, dropout 0")
    print(f"{'update':>6}  {'plimsoll':>12}  {'pytorch':>12}  {'relative':>9}  {'gradient norm':>13}  {'rate':>9}")
    worst = 0.0
    for index, (mine, (loss, norm, rate)) in enumerate(zip(ours, theirs)):
        relative = abs(mine["loss"] - loss) / abs(loss)
        worst = max(worst, relative) if relative == relative else float("nan")
        print(f"{index + 1:>6}  {mine['loss']:>12.7f}  {loss:>12.7f}  {relative:>9.2e}  {norm:>13.4f}  {rate:>9.2e}")
    good = compare_grad.print_rows(
        [("updates missing", abs(options.updates - min(len(ours), len(theirs))), 0, ""),
         ("losses, worst relative difference", worst, LOSS_BAR, "")]
        + compare_saved(options, trained, windows, order))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
