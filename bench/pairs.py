#!/usr/bin/env python3
"""Trains the tasks for pairs of pages, and prints what they hold beside their bars.

  bench/pairs.py --only cuts [--data ../shared/data/sroie] [--model layoutlmv3-tiny] [--pairs 32]
  bench/pairs.py --only many [--many 4096]

cuts, on real receipts: `transformers` opens the saved directories, and with the head of tools/pair_heads.py gives the
same logits; micro-batches of one pair, and chunks of pages with cached gradients (GradCache), give the loss and the
gradients of whole updates, dropout on; the peak is as planned.
many, on drawn pages in groups: an update of 4,096 pairs, `layoutlmv3-small` run and `layoutlmv3-base` planned; its time a
pair beside that of whole updates of 32 pairs.

cuts needs .venv (tools/setup_venv.sh). Exit status 1 if a bar is missed.
"""

import argparse
import itertools
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
TASKS = ("pair-classification", "pair-ranking", "pair-similarity")
MANY_BARS = {"layoutlmv3-small": 0.6 * 1024, "layoutlmv3-base": 2.5 * 1024}  # MiB
GROUPS, PAGES_OF_A_GROUP = 6, 40


def train(options, task, folder, *more):
    """Trains on real pairs; returns the JSON that `train` prints, and the lines of metrics.jsonl."""
    data = options.data
    result = run(PLIMSOLL, "train", "--model", options.model, "--task", task, "--data", data / "train-pairs.jsonl",
                 "--pages", data / "train.jsonl", "--max-length", options.max_length, "--truncate", "--output-dir",
                 folder, "--per-device-train-batch-size", options.pairs, "--logging-steps", 1, "--json", *more)
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


def gradients(folder):
    """The gradients of the first update, as AdamW's first moments hold a tenth of them."""
    from safetensors.torch import load_file

    states = load_file(folder / "checkpoint-1" / "optimizer.safetensors")
    return {name: value.double() for name, value in states.items() if name.endswith(".exp_avg")}


def cut_error(whole, cut):
    """The relative difference of the first update's loss, and of all its gradients together. Later updates differ by what
    Adam makes of roundings."""
    (losses, of_whole), (cut_losses, of_cut) = whole, cut
    apart = sum(float((of_whole[name] - of_cut[name]).square().sum()) for name in of_whole)
    length = sum(float(value.square().sum()) for value in of_whole.values())
    return max(abs(losses[0]["loss"] - cut_losses[0]["loss"]) / abs(losses[0]["loss"]), (apart / length) ** 0.5)


def peak_holds(name, folder):
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    predicted, measured = (summary[f"{kind}_peak_bytes"] for kind in ("predicted", "measured"))
    return holds(f"{name}: peak", f"predicted {predicted / MIB:.1f}, measured {measured / MIB:.1f} MiB", "1 % or 8 MiB",
                 predicted - measured <= max(PEAK_BAR * predicted, 8 * MIB) and measured <= predicted)


def check_cuts(options, work):
    good = True
    for task in TASKS:
        def run_cut(name, *more):
            folder = work / f"{task}-{name}"
            _, lines = train(options, task, folder, "--max-steps", 1, "--save-strategy", "steps", "--save-steps", 1, *more)
            return lines, gradients(folder)

        folder = work / task
        train(options, task, folder, "--max-steps", 6, "--save-strategy", "no")
        error = same_logits(folder, task)
        good &= holds(f"{task}: logits in transformers, largest difference", f"{error:.2g}", f"{LOGITS_BAR:g}",
                      error <= LOGITS_BAR)
        good &= peak_holds(task, folder)
        whole = run_cut("whole", "--grad-cache", "off", "--micro-batch-size", options.pairs)
        if task != "pair-similarity":
            error = cut_error(whole, run_cut("cut", "--micro-batch-size", 1))
            good &= holds(f"{task}: loss and gradients of micro-batches of one pair, relative", f"{error:.2g}",
                          f"{CUT_BAR:g}", error <= CUT_BAR)
        for pairs in (1, 5):
            error = cut_error(whole, run_cut(f"cached-{pairs}", "--grad-cache", "on", "--micro-batch-size", pairs))
            good &= holds(f"{task}: cached gradients, chunks of at most {2 * pairs} pages, relative (sums are cut)",
                          f"{error:.2g}", f"{CUT_BAR:g}", error <= CUT_BAR)
    return good


def draw_groups(work):
    """Pages in groups, and every pair of pages of one group."""
    folder = work / "pages"
    run(PLIMSOLL, "synth", "--output", folder, "--count", GROUPS * PAGES_OF_A_GROUP, "--seed", 3, "--validation-fraction", 0)
    pages = [json.loads(line) for line in (folder / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    groups = [[page["id"] for page in pages[group::GROUPS]] for group in range(GROUPS)]
    pairs = [{"a": a, "b": b, "label": 1} for group in groups for a, b in itertools.combinations(group, 2)]
    pairs = [pair for turn in itertools.zip_longest(*[iter(pairs)] * (len(pairs) // GROUPS)) for pair in turn if pair]
    path = work / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    return path, folder / "train.jsonl"


def check_many(options, work):
    good = True
    pairs, pages = draw_groups(work)

    def arguments(model, task, batch, *more):
        return ["--model", model, "--task", task, "--data", pairs, "--pages", pages, "--max-length", 512, "--truncate",
                "--per-device-train-batch-size", batch, *more]

    for task in options.tasks:
        labels = ["--labels", "0,1"] if task == "pair-classification" else []
        for model, bar in MANY_BARS.items():
            budget = ["--budget", f"{int(bar)}MiB"]
            told = json.loads(run(PLIMSOLL, "plan", *arguments(model, task, options.many, *budget, *labels),
                                  "--output-dir", work / "none", "--json", allowed=None).stdout or "{}")
            peak = told.get("predicted_peak_bytes", float("inf")) / MIB
            good &= holds(f"{task}, {model}: {options.many} pairs an update, planned", f"{peak:.0f} MiB", f"{bar:.0f} MiB",
                          peak <= bar)
        rates = {}
        for name, batch, steps, more in (("whole", 32, 4, ["--grad-cache", "off", "--micro-batch-size", 32]),
                                         ("many", options.many, 1, ["--budget", f"{int(MANY_BARS['layoutlmv3-small'])}MiB"])):
            folder = work / f"{task}-{name}"
            run(PLIMSOLL, "train", *arguments("layoutlmv3-small", task, batch, *more, *labels), "--max-steps", steps,
                "--logging-steps", 1, "--save-strategy", "no", "--output-dir", folder)
            lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
            rates[name] = sorted(line["pages_per_second"] for line in lines)[len(lines) // 2]
            if name == "many":
                good &= peak_holds(f"{task}, layoutlmv3-small, {batch} pairs an update", folder)
                measured = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["measured_peak_bytes"] / MIB
                good &= holds(f"{task}, layoutlmv3-small: {batch} pairs an update, measured", f"{measured:.0f} MiB",
                              f"{MANY_BARS['layoutlmv3-small']:.0f} MiB", measured <= MANY_BARS["layoutlmv3-small"])
        good &= holds(f"{task}: time a pair, of whole updates of 32 pairs", f"{rates['whole'] / rates['many']:.2f}",
                      f"{TIME_BAR}", rates["whole"] / rates["many"] <= TIME_BAR)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["cuts", "many"])
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared" / "data" / "sroie")
    parser.add_argument("--model", default="layoutlmv3-tiny", help="of cuts")
    parser.add_argument("--max-length", type=int, default=128, help="of cuts")
    parser.add_argument("--pairs", type=int, default=32, help="of an update of cuts")
    parser.add_argument("--many", type=int, default=4096, help="pairs of an update of many")
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS, help="of many")
    options = parser.parse_args()
    good = True
    for name, part in (("cuts", check_cuts), ("many", check_many)):
        with tempfile.TemporaryDirectory() as work:
            if options.only in (None, name):
                good &= part(options, Path(work))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
