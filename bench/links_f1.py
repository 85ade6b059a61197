#!/usr/bin/env python3
"""Checks the quality bar of links: F1 on 240 held-out drawn forms, with given entities and with predicted ones.

Draws forms (`plimsoll synth --layout forms`), trains a model for relation-extraction from scratch, and one for
token-classification that finds the entities. The second one's predictions are given to the first as they are written; a
link counts if both its ends are spans of words that the data links.

  bench/links_f1.py [--pages 6000] [--epochs 20] [--model layoutlm-tiny]     Bar: F1 0.90 with given entities
  --reuse keeps finished models. Python's standard library only.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from program import PLIMSOLL, REPOSITORY

LEAST_F1, HELD_OUT = 0.90, 240


def run(command):
    command = [str(part) for part in command]
    print("+", " ".join(command), flush=True)
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        sys.exit("the command above failed")


def train(options, task, directory):
    if options.reuse and (directory / "summary.json").exists():
        return
    shutil.rmtree(directory, ignore_errors=True)
    begin = time.perf_counter()
    run([options.plimsoll, "train", "--model", options.model, "--task", task, "--data", options.work / "forms/train.jsonl",
         "--eval-data", options.work / "forms/validation.jsonl", "--output-dir", directory, "--num-train-epochs",
         options.epochs if task == "relation-extraction" else options.entity_epochs, "--per-device-train-batch-size", 4,
         "--learning-rate", options.learning_rate, "--warmup-ratio", 0.05, "--budget", options.budget, "--threads",
         options.threads, "--seed", options.seed, "--save-total-limit", 1])
    print(f"trained in {time.perf_counter() - begin:.0f} s", flush=True)


def spans_linked(page, entities):
    spans = [(entity["start_word"], entity["end_word"]) for entity in entities]
    return {(spans[start], spans[end]) for start, end in page["links"]}


def scores(gold, predicted):
    """Returns (precision, recall, F1) of links between spans of words."""
    right = found = wanted = 0
    for page, line in zip(gold, predicted):
        theirs, ours = spans_linked(page, page["entities"]), spans_linked(line, line["fields"])
        right, found, wanted = right + len(theirs & ours), found + len(ours), wanted + len(theirs)
    return right / max(1, found), right / max(1, wanted), 2 * right / max(1, found + wanted)


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="layoutlm-tiny", help="the preset that both models begin from")
    parser.add_argument("--pages", type=int, default=6000, help="to train on")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--entity-epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--budget", default="2GiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "links_f1")
    parser.add_argument("--reuse", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    work, forms = options.work, options.work / "forms"
    if not (options.reuse and (forms / "validation.jsonl").exists()):
        shutil.rmtree(forms, ignore_errors=True)
        pages = options.pages + HELD_OUT
        run([options.plimsoll, "synth", "--layout", "forms", "--output", forms, "--count", pages, "--validation-fraction",
             (HELD_OUT + 0.5) / pages, "--seed", 10 + options.seed])
    train(options, "relation-extraction", work / "links")
    train(options, "token-classification", work / "entities")

    held_out = forms / "validation.jsonl"
    gold = read(held_out)
    predict = [options.plimsoll, "predict", "--budget", options.budget, "--threads", options.threads]
    run([*predict, "--model", work / "links", "--data", held_out, "--output", work / "given.jsonl"])
    run([*predict, "--model", work / "entities", "--data", held_out, "--output", work / "labels.jsonl"])
    run([*predict, "--model", work / "links", "--data", work / "labels.jsonl", "--output", work / "predicted.jsonl"])

    given, found = (scores(gold, read(work / name)) for name in ("given.jsonl", "predicted.jsonl"))
    print(f"links of {len(gold)} forms, precision, recall and F1")
    print(f"  with given entities     {given[0]:.4f} {given[1]:.4f} {given[2]:.4f}  bar {LEAST_F1}: "
          f"{'holds' if given[2] >= LEAST_F1 else 'FAILS'}")
    print(f"  with predicted entities {found[0]:.4f} {found[1]:.4f} {found[2]:.4f}")
    return 0 if given[2] >= LEAST_F1 else 1


if __name__ == "__main__":
    sys.exit(main())
