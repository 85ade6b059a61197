#!/usr/bin/env python3
"""Prunes trained models, and prints what that costs and saves beside its bars.

  bench/prune.py [--work DIR] [--seeds 1] [--pages 2400] [--held-out 500] [--only f1,trained,logits,speed]

f1: `layoutlmv3-small`, trained on drawn receipts and forms with each seed, is pruned to half and to a quarter of the
layers' arithmetic, with each layer's own widths, and compared with the model before on held-out pages; beside it the
layout of `transformers`, and models of SROIE, whose figures have no bar.
trained: the same with --tune-epochs of training behind the pruning, taught by the model before, at the learning rate
that as many other pages prefer for the first seed: on 300, differences of a tenth of a point are noise.
logits: small models of every family, and a trained one, before and after they are pruned for `transformers`, which loads
them: Plimsoll's logits beside those of `transformers` as it computes them, in float32, and in float64.
speed: programs of base's shape, pruned with each layer's own widths, in turn with those of the whole model; `eval` end
to end, and the time that `transformers` takes for models in its layout, are reported beside them.

Needs .venv (tools/setup_venv.sh) for logits and speed. With --work, pages and trained models are kept and used again.
Exit status 1 if a bar is missed.
"""

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import PLIMSOLL, REPOSITORY, holds, run

sys.path.insert(0, str(REPOSITORY / "tools"))  # families.py, reference.py: imported where torch is needed

FAMILIES = ["layoutlmv3-tiny", "roberta-tiny", "layoutlm-tiny", "lilt-tiny"]
SROIE = REPOSITORY.parent / "shared" / "data" / "sroie"
LABELS = "O,B-TOTAL,I-TOTAL,B-DATE,I-DATE,B-COMPANY,I-COMPANY,B-ADDRESS,I-ADDRESS"


def draw(options, folder, count, seed):
    if not folder.exists():
        run(options.plimsoll, "synth", "--output", folder, "--count", count, "--seed", seed, "--validation-fraction", 0)
    return folder / "train.jsonl"


def train(options, data, seed, name="", epochs=None):
    folder = options.work / f"{options.model}{name}-{seed}"
    if not (folder / "model.safetensors").exists():
        run(options.plimsoll, "train", "--model", options.model, "--data", data, "--output-dir", folder, "--seed", seed,
            "--train-batch-size", 4, "--num-train-epochs", epochs or options.epochs, "--learning-rate", 1e-3,
            "--warmup-ratio", 0.05, "--save-steps", 0, "--budget", "512MiB", "--overwrite-output-dir")
    return folder


@contextlib.contextmanager
def pruned(options, model, data, *arguments):
    """A directory with the pruned model, and what prune said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "pruned"
        told = run(options.plimsoll, "prune", "--model", model, "--data", data, "--output-dir", folder, "--json",
                   *arguments)
        yield folder, told_by(told.stdout)


def told_by(printed):
    """What prune said: one object, or with --epochs the first of a run's events."""
    return json.JSONDecoder().raw_decode(printed)[0]


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(options, model, smaller, held_out):
    """F1 of both, their difference and its interval in points, and the labels that agree in percent."""
    told = json.loads(run(options.plimsoll, "compare", model, smaller, "--data", held_out, "--rounds", 1, "--json").stdout)
    a, b = (told[side]["metrics"]["f1"] for side in "ab")
    low, high = (100 * end for end in told["difference_interval"])
    return a, b, 100 * told["difference"], low, high, 100 * told["agreement"]


def prune_and_compare(options, name, model, data, held_out, share, *arguments):
    """Prints what is lost; returns it in points, with the lower end of its interval, and the seconds of pruning."""
    before = processor_seconds()
    with pruned(options, model, data, "--to-flops", share, *arguments) as (smaller, told):
        used = processor_seconds() - before
        a, b, difference, low, high, agree = compare(options, model, smaller, held_out)
    print(f"  {name}, {share} of the arithmetic ({told['kept_share']:.3f} stored, layers {told['kept_layers']}): f1 "
          f"{a:.4f} to {b:.4f}, {difference:+.2f} points (95 %: {low:+.2f} to {high:+.2f}); {agree:.2f} % agree; pruned "
          f"in {told['seconds']:.0f} s; {used:.0f} s of processor time in all", flush=True)
    return difference, low, told["seconds"]


def check_f1(options):
    data = draw(options, options.work / "pages", options.pages, 7)
    held_out = draw(options, options.work / "held-out", options.held_out, 1007)
    kept, differences = [], {}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        model = train(options, data, seed)
        for layout in options.layouts:
            for share in (0.5, 0.25):
                found = prune_and_compare(options, f"seed {seed}, --layout {layout}", model, data, held_out, share,
                                          "--layout", layout)
                differences.setdefault((layout, share), []).append(found[0])
                if share != 0.5 or layout != "plimsoll":
                    continue
                kept.append(holds("points of f1 that half the arithmetic loses, upper end of the interval",
                                  f"{-found[1]:.2f}", "at most 2", -found[1] <= 2))
                kept.append(holds("pruning takes", f"{found[2]:.0f} s", "at most 180 s", found[2] <= 180))
    for (layout, share), lost in differences.items():
        print(f"  mean of {len(lost)} seeds at {share}, --layout {layout}: {statistics.mean(lost):+.2f} points", flush=True)
    for seed in range(1, options.sroie_seeds + 1):
        model = train(options, SROIE / "train.jsonl", seed, "-sroie", options.sroie_epochs)
        for share in (0.5, 0.25):
            prune_and_compare(options, f"SROIE, seed {seed}", model, SROIE / "train.jsonl", SROIE / "validation.jsonl",
                              share, "--layout", "plimsoll")
    return kept


def check_trained(options):
    data = draw(options, options.work / "pages", options.pages, 7)
    held_out = draw(options, options.work / "held-out", options.held_out, 1007)
    tuning = draw(options, options.work / f"tuning-{options.held_out}", options.held_out, 2007)
    kept, bars, rates = [], {0.5: 0.5, 0.25: 2}, {}

    def compare_at(rate, share, seed, pages):
        return prune_and_compare(options, f"seed {seed}, {options.tune_epochs} epochs of training at {rate}, "
                                 f"{pages.parent.name}", train(options, data, seed), data, pages, share, "--layout",
                                 "plimsoll", "--epochs", options.tune_epochs, "--learning-rate", rate,
                                 "--per-device-train-batch-size", 4, "--seed", seed, "--save-steps", 0, "--budget",
                                 "768MiB")

    for share in bars:
        scores = {rate: compare_at(rate, share, options.first_seed, tuning)[0] for rate in options.tune_rates}
        rates[share] = max(scores, key=scores.get)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for share, bar in bars.items():
            found = compare_at(rates[share], share, seed, held_out)
            kept.append(holds(f"points of f1 that {share} of the arithmetic loses with training, upper end of the "
                              "interval", f"{-found[1]:.2f}", f"at most {bar}", -found[1] <= bar))
    return kept


def batch_of(directory):
    """A model's config and a batch for it, padded, as tools/check_families.py makes them."""
    import families
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = families.load_model(directory).eval()
    return model, families.make_batch(model.config, lengths=(101, 60, 83), length=101, seed=8)


def logits_beside(options, model, folder):
    """The largest differences of a logit: Plimsoll's to those of `transformers` in float64 and in float32, and between
    these."""
    import torch
    from safetensors.torch import load_file
    import families
    import reference
    reference_model, batch = batch_of(model)
    reference.write_tensors(batch, folder / "batch.safetensors")
    run(options.plimsoll, "grad", "--model", model, "--batch", folder / "batch.safetensors", "--output",
        folder / "out.safetensors")
    ours = load_file(folder / "out.safetensors")["logits"]
    with torch.no_grad():
        single = reference_model(**batch).logits.double()
        double = reference_model.double()(**families.exact(batch)).logits
    real = batch["attention_mask"].bool()
    ours, single, double = (values[:, :real.shape[1]][real].double() for values in (ours, single, double))

    def far(a, b):
        return (a - b).abs().max().item()

    return far(ours, double), far(ours, single), far(single, double)


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
            before = logits_beside(options, model, folder)
            print(f"  {name} before: to float64 {before[0]:.2g}, to float32 {before[1]:.2g}; float32 to float64 "
                  f"{before[2]:.2g}", flush=True)
            for arguments in (["--to-flops", 0.7], ["--to-flops", 0.4], ["--sparsity", 0.5]):
                with pruned(options, model, data, *arguments) as (smaller, told):
                    exact, single, theirs = logits_beside(options, smaller, folder)
                kept.append(holds(f"{name}, {' '.join(map(str, arguments))}, layers {told['kept_layers']}: largest "
                                  "difference of a logit to transformers", f"{single:.2g}", "5e-6", single <= 5e-6))
                print(f"    to float64 {exact:.2g}; float32 to float64 {theirs:.2g}", flush=True)
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


def seconds_of_eval(options, directories, pages, rounds=3):
    """Least seconds of the command, from its start to its end, of each model in turn."""
    times = [[] for _ in directories]
    for _ in range(rounds):
        for directory, its in zip(directories, times):
            begin = time.perf_counter()
            run(options.plimsoll, "eval", "--model", directory, "--data", pages)
            its.append(time.perf_counter() - begin)
    return [min(its) for its in times]


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
        pages = draw(options, options.work / "timed", 12, 5)
        ends = [seconds_of_eval(options, layouts["plimsoll"], pages), seconds_of_eval(options, layouts["transformers"],
                                                                                      pages)]
    print(f"  base: {found[0]['seconds']:.3f} s a window of 512 tokens and its picture", flush=True)
    print(f"  transformers, in its own layout (3 pages): {theirs[0]:.2f} s, at half {theirs[0] / theirs[1]:.2f} and at a "
          f"quarter {theirs[0] / theirs[2]:.2f} times as fast", flush=True)
    for layout, its in zip(layouts, ends):
        print(f"  eval of 12 pages, end to end, --layout {layout}: {its[0]:.2f} s, at half {its[0] / its[1]:.2f} and at a "
              f"quarter {its[0] / its[2]:.2f} times as fast", flush=True)
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
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=2400)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--layouts", nargs="+", default=["plimsoll", "transformers"], help="of f1")
    parser.add_argument("--tune-epochs", type=float, default=2, help="of trained")
    parser.add_argument("--tune-rates", nargs="+", default=["5e-5", "3e-4"], help="learning rates of trained")
    parser.add_argument("--sroie-seeds", type=int, default=1, help="of f1; 0: none")
    parser.add_argument("--sroie-epochs", type=int, default=12)
    parser.add_argument("--only", default="f1,trained,logits,speed")
    options = parser.parse_args()
    checks = {"f1": check_f1, "trained": check_trained, "logits": check_logits, "speed": check_speed}
    with tempfile.TemporaryDirectory() as name:
        options.work = options.work or Path(name)
        options.work.mkdir(parents=True, exist_ok=True)
        kept = [good for check in options.only.split(",") for good in checks[check](options)]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
