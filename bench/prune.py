#!/usr/bin/env python3
"""Prunes trained models without training, and prints what that costs and saves beside its bars.

  bench/prune.py [--work DIR] [--seeds 1] [--pages 2400] [--held-out 500] [--only f1,logits,speed]

f1: `layoutlmv3-small`, trained on drawn receipts and forms with each seed, is pruned to half and to a quarter of the
layers' arithmetic, with each layer's own widths, and compared with the model before on held-out pages.
logits: small models of every family, pruned for `transformers`, which loads them; its logits, in float64, beside
Plimsoll's.
speed: programs of base's shape, pruned with each layer's own widths, in turn with those of the whole model; the time
that `transformers` takes for models in its layout is reported beside them.

Needs .venv (tools/setup_venv.sh) for logits and speed. With --work, pages and trained models are kept and used again.
Exit status 1 if a bar is missed.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import PLIMSOLL, REPOSITORY, holds, run

sys.path.insert(0, str(REPOSITORY / "tools"))  # families.py, reference.py: imported where torch is needed

FAMILIES = ["layoutlmv3-tiny", "roberta-tiny", "layoutlm-tiny", "lilt-tiny"]
LABELS = "O,B-TOTAL,I-TOTAL,B-DATE,I-DATE,B-COMPANY,I-COMPANY,B-ADDRESS,I-ADDRESS"


def draw(options, folder, count, seed):
    if not folder.exists():
        run(options.plimsoll, "synth", "--output", folder, "--count", count, "--seed", seed, "--validation-fraction", 0)
    return folder / "train.jsonl"


def train(options, data, seed):
    folder = options.work / f"{options.model}-{seed}"
    if not (folder / "config.json").exists():
        run(options.plimsoll, "train", "--model", options.model, "--data", data, "--output-dir", folder, "--seed", seed,
            "--train-batch-size", 4, "--num-train-epochs", options.epochs, "--learning-rate", 1e-3, "--warmup-ratio",
            0.05, "--save-steps", 0, "--budget", "512MiB")
    return folder


@contextlib.contextmanager
def pruned(options, model, data, *arguments):
    """A directory with the pruned model, and what prune said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "pruned"
        told = run(options.plimsoll, "prune", "--model", model, "--data", data, "--output-dir", folder, "--json",
                   *arguments)
        yield folder, json.loads(told.stdout)


def check_f1(options):
    data = draw(options, options.work / "pages", options.pages, 7)
    held_out = draw(options, options.work / "held-out", options.held_out, 1007)
    kept, differences = [], {0.5: [], 0.25: []}
    for seed in range(1, options.seeds + 1):
        model = train(options, data, seed)
        for share, lost in differences.items():
            with pruned(options, model, data, "--to-flops", share, "--layout", "plimsoll") as (smaller, told):
                compared = json.loads(run(options.plimsoll, "compare", model, smaller, "--data", held_out, "--rounds",
                                          1, "--json").stdout)
            lost.append(compared["difference"])
            low, high = compared["difference_interval"]
            a, b = (compared[side]["metrics"]["f1"] for side in "ab")
            print(f"  seed {seed}, {share} of the arithmetic: f1 {a:.4f} to {b:.4f}, {100 * compared['difference']:+.2f} "
                  f"points (95 %: {100 * low:+.2f} to {100 * high:+.2f}); {100 * compared['agreement']:.2f} % agree; "
                  f"pruned in {told['seconds']:.0f} s", flush=True)
            if share == 0.5:
                kept.append(holds("points of f1 that half the arithmetic loses, lower end",
                                  f"{-100 * low:.2f}", "at most 2", -low <= 0.02))
                kept.append(holds("pruning takes", f"{told['seconds']:.0f} s", "at most 180 s", told["seconds"] <= 180))
    for share, lost in differences.items():
        print(f"  mean of {len(lost)} seeds at {share}: {100 * statistics.mean(lost):+.2f} points", flush=True)
    return kept


def batch_of(directory):
    """A model's config and a batch for it, padded, as tools/check_families.py makes them."""
    import families
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = families.load_model(directory).eval()
    return model, families.make_batch(model.config, lengths=(101, 60, 83), length=101, seed=8)


def check_logits(options):
    data = draw(options, options.work / "some", 40, 3)
    models = [(name, None) for name in FAMILIES]
    models += [(path.name, path) for path in sorted(options.work.glob(f"{options.model}-*"))[:1]]  # trained well
    kept = []
    for name, model in models:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            if model is None:
                model = folder / "before"
                run(options.plimsoll, "train", "--model", name, "--data", data, "--output-dir", model, "--max-steps", 30,
                    "--train-batch-size", 4, "--learning-rate", 1e-3, "--save-steps", 0)
            with pruned(options, model, data, "--to-flops", 0.5) as (smaller, _):
                import torch
                from safetensors.torch import load_file
                import families
                import reference
                reference_model, batch = batch_of(smaller)
                reference.write_tensors(batch, folder / "batch.safetensors")
                run(options.plimsoll, "grad", "--model", smaller, "--batch", folder / "batch.safetensors", "--output",
                    folder / "out.safetensors")
                found = load_file(folder / "out.safetensors")["logits"]
                with torch.no_grad():
                    logits = reference_model.double()(**families.exact(batch)).logits
                real = batch["attention_mask"].bool()
                far = (found[:, :real.shape[1]] - logits[:, :real.shape[1]])[real].abs().max().item()
        kept.append(holds(f"{name}, largest difference of a logit to transformers", f"{far:.2g}", "5e-6", far <= 5e-6))
    return kept


def seconds_in_transformers(directories, rounds=5):
    """Median seconds of a forward pass of each model, in turn."""
    import torch
    made = [batch_of(directory) for directory in directories]
    for _, batch in made:
        batch.pop("labels", None)
    times = [[] for _ in made]
    for turn in range(rounds + 1):
        for (model, batch), its in zip(made, times):
            begin = time.perf_counter()
            with torch.no_grad():
                model(**batch)
            if turn:
                its.append(time.perf_counter() - begin)
    return [statistics.median(its) for its in times]


def check_speed(options):
    data = draw(options, options.work / "some", 40, 3)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        base = Path(name) / "base"
        run(options.plimsoll, "init", "--model", "layoutlmv3-base", "--labels", LABELS, "--output-dir", base)
        few = ["--windows", 8, "--reconstruction-windows", 1]  # weights are random, only widths count
        layouts = {layout: [base] + [stack.enter_context(pruned(options, base, data, "--to-flops", share, "--layout",
                                                                layout, *few))[0] for share in (0.5, 0.25)]
                   for layout in ("plimsoll", "transformers")}
        found = json.loads(subprocess.run([options.speed, *layouts["plimsoll"], "--rounds", "9"], check=True,
                                          capture_output=True, text=True).stdout)
        theirs = seconds_in_transformers(layouts["transformers"])
    print(f"  base: {found[0]['seconds']:.3f} s a window of 512 tokens and its picture", flush=True)
    print(f"  transformers, in its own layout (3 pages): {theirs[0]:.2f} s, at half {theirs[0] / theirs[1]:.2f} and at a "
          f"quarter {theirs[0] / theirs[2]:.2f} times as fast", flush=True)
    return [holds(f"programs of base's shape at {share} of the arithmetic", f"{its['times_as_fast']:.2f} times as fast",
                  f"at least {bar}", its["times_as_fast"] >= bar)
            for share, bar, its in [("half", 1.5, found[1]), ("a quarter", 2.4, found[2])]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", default=PLIMSOLL)
    parser.add_argument("--speed", default=PLIMSOLL.parent / "bench" / "plimsoll_encoder_speed")
    parser.add_argument("--work", type=Path, help="keeps pages and trained models")
    parser.add_argument("--model", default="layoutlmv3-small")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--pages", type=int, default=2400)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--only", default="f1,logits,speed")
    options = parser.parse_args()
    checks = {"f1": check_f1, "logits": check_logits, "speed": check_speed}
    with tempfile.TemporaryDirectory() as name:
        options.work = options.work or Path(name)
        options.work.mkdir(parents=True, exist_ok=True)
        kept = [good for check in options.only.split(",") for good in checks[check](options)]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
