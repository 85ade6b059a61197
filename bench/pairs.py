#!/usr/bin/env python3
"""Trains the tasks for pairs of pages on real receipts, and prints what they hold beside their bars.

  bench/pairs.py [--data ../shared/data/sroie] [--model layoutlmv3-tiny] [--pairs 32]

Three things: `transformers` opens the saved directories, and with the head of tools/pair_heads.py gives the same logits;
micro-batches of one pair give the loss and the gradients of whole updates, dropout on; the peak is as planned, and a pair
takes about as long in micro-batches as in whole updates. Needs .venv (tools/setup_venv.sh). Exit status 1 if a bar is
missed.
"""

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, holds, run

LOGITS_BAR = 5e-6
CUT_BAR = 1e-6  # sums are cut otherwise in micro-batches
TIME_BAR = 1.4
PEAK_BAR = 0.01


def train(options, task, folder, *more):
    """Trains on real pairs; returns the JSON that `train` prints, and the lines of metrics.jsonl."""
    data = options.data
    result = run(PLIMSOLL, "train", "--model", options.model, "--task", task, "--data", data / "train-pairs.jsonl",
                 "--pages", data / "train.jsonl", "--max-length", options.max_length, "--truncate", "--output-dir",
                 folder, "--per-device-train-batch-size", options.pairs, "--logging-steps", 1, "--save-strategy", "no",
                 "--json", *more)
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")], list(map(json.loads, lines))


def same_logits(folder, task):
    """The largest difference of logits between `plimsoll grad` and PyTorch on drawn pairs."""
    sys.path.insert(0, str(REPOSITORY / "tools"))
    import families
    import pair_heads
    import reference
    import transformers
    from safetensors.torch import load_file

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.logging.set_verbosity_error()
        encoder = transformers.AutoModel.from_pretrained(folder)
    architecture = encoder.config.architectures[0] if encoder.config.architectures else ""
    head = next(pair_heads.HEADS[name] for name in pair_heads.HEADS if architecture.endswith(name))
    model = head(encoder).load_head(folder)
    batch = families.make_batch(model.config, lengths=(61, 60, 33, 44, 57, 12), length=61, seed=8, task=task)
    reference.write_tensors(batch, folder / "batch.safetensors")
    run(PLIMSOLL, "grad", "--model", folder, "--batch", folder / "batch.safetensors", "--output",
        folder / "grad.safetensors")
    expected = reference.loss_and_gradients(model.double(), families.exact(batch))["logits"]
    return float((load_file(folder / "grad.safetensors")["logits"].double() - expected).abs().max())


def cut_error(whole, cut):
    """The largest relative difference of losses and of gradients' norms, update by update."""
    return max(abs(a[key] - b[key]) / abs(a[key]) for a, b in zip(whole, cut) for key in ("loss", "grad_norm"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared" / "data" / "sroie")
    parser.add_argument("--model", default="layoutlmv3-tiny")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=32, help="of an update")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as work:
        for task in ("pair-classification", "pair-ranking", "pair-similarity"):
            folder = Path(work) / task
            _, whole = train(options, task, folder, "--max-steps", 6)
            error = same_logits(folder, task)
            good &= holds(f"{task}: logits in transformers, largest difference", f"{error:.2g}", f"{LOGITS_BAR:g}",
                          error <= LOGITS_BAR)
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            predicted, measured = (summary[f"{kind}_peak_bytes"] for kind in ("predicted", "measured"))
            off = abs(predicted - measured)
            good &= holds(f"{task}: peak", f"predicted {predicted / MIB:.1f}, measured {measured / MIB:.1f} MiB",
                          "1 % or 8 MiB", off <= max(PEAK_BAR * predicted, 8 * MIB) and measured <= predicted)
            if task == "pair-similarity":
                continue
            # The first update begins with the same parameters; later ones differ by what Adam makes of roundings.
            _, cut = train(options, task, Path(work) / (task + "-cut"), "--max-steps", 6, "--micro-batch-size", 1)
            error = cut_error(whole[:1], cut[:1])
            good &= holds(f"{task}: loss and gradients of micro-batches of one pair, relative", f"{error:.2g}",
                          f"{CUT_BAR:g}", error <= CUT_BAR)
            _, cut = train(options, task, Path(work) / (task + "-eights"), "--max-steps", 6, "--micro-batch-size", 8)
            rates = [sorted(line["pages_per_second"] for line in lines[1:])[len(lines) // 2] for lines in (whole, cut)]
            good &= holds(f"{task}: time a pair in micro-batches of 8", f"{rates[0] / rates[1]:.2f} of whole updates'",
                          f"{TIME_BAR}", rates[0] / rates[1] <= TIME_BAR)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
