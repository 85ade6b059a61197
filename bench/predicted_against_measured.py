#!/usr/bin/env python3
"""The memory bar: what a plan predicts against what the process then holds, over models, lengths, levers and budgets.

Draws pages, trains a few updates in each setting and reads summary.json. Bar: the measured peak of the resident set is
never above the budget, and within 1 % or 8 MiB (whichever is larger) of the prediction.

  bench/predicted_against_measured.py [--runs 40] [--models layoutlmv3-tiny layoutlmv3-small] [--steps 3]

Settings are drawn with a fixed seed, so the same command makes the same runs. Python's standard library only.
"""

import argparse
import itertools
import json
import random
import shutil
import sys
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, run


def settings(options):
    """Every combination of levers at least once in turn, the rest drawn."""
    model_levers = [["--lora-rank", "8"], ["--lora-rank", "8", "--load-in-4bit", "--bf16"],
                    ["--freeze", "layoutlmv3.embeddings.*"], ["--load-in-8bit", "--lora-rank", "8"]]
    levers = [[], ["--gradient-checkpointing"], ["--recompute", "none"], *model_levers,
              ["--bf16"], ["--optim", "adamw_8bit"], ["--optim", "adamw_8bit", "--bf16", "--max-grad-norm", "0"],
              ["--optim", "adafactor"], ["--fp16"], ["--offload", "{work}"], ["--offload", "{work}", "--max-grad-norm", "0"],
              ["--max-grad-norm", "0"], ["--max-grad-norm", "0", "--update-mode", "after-backward"],
              ["--update-mode", "two-passes", "--per-device-train-batch-size", "{batch}"],
              ["--per-device-train-batch-size", "1"], ["--per-device-train-batch-size", "2"],
              ["--eval-data", "{eval}"], ["--pad-to-max-length"], ["--dataloader-num-workers", "3"]]
    combinations = list(itertools.product(options.models, (64, 128, 256, 512), range(len(levers))))
    generator = random.Random(options.seed)
    generator.shuffle(combinations)
    for number in range(options.runs):
        model, length, lever = combinations[number % len(combinations)]
        batch = generator.choice((2, 4, 8))
        filled = [part.format(batch=batch, eval=options.work / "pages" / "validation.jsonl", work=options.work) for part in levers[lever]]
        # A budget between the smallest that works and one with room to spare.
        # Adapters and frozen parts are of a model that has weights.
        source = options.work / model if levers[lever] in model_levers else model
        yield model, source, length, batch, filled, generator.random()


def smallest_budget(options, arguments):
    """From the sweep: the smallest and the largest useful budget, in bytes."""
    sweep = json.loads(run(options.plimsoll, "plan", *arguments, "--budget", "1TiB", "--sweep", "--points", 2, "--json").stdout)["sweep"]
    return sweep[0]["budget_bytes"], sweep[-1]["budget_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--models", nargs="+", default=["layoutlmv3-tiny", "layoutlmv3-small"])
    parser.add_argument("--steps", type=int, default=8, help="updates a run; few of them leave some loader threads idle")
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "predicted")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    for model in options.models:
        run(options.plimsoll, "init", "--model", model, "--labels", "O,B-NAME,I-NAME", "--output-dir", options.work / model)
    run(options.plimsoll, "synth", "--output", options.work / "pages", "--count", options.pages, "--validation-fraction", 0.2)

    print(f"{'model':<17}{'length':>6}{'batch':>6}{'budget':>9}{'predicted':>10}{'measured':>9}{'error':>8}  levers  (MiB)")
    rows, failures = [], 0
    for model, source, length, batch, levers, share in settings(options):
        common = ["--model", source, "--data", options.work / "pages" / "train.jsonl", "--max-length", length,
                  "--train-batch-size", batch, "--threads", options.threads, *levers]
        low, high = smallest_budget(options, common)
        budget = -(-int(low + share * (high - low)) // MIB)
        output = options.work / "run"
        shutil.rmtree(output, ignore_errors=True)
        result = run(options.plimsoll, "train", *common, "--budget", f"{budget}MiB", "--max-steps", options.steps,
                          "--output-dir", output, "--json", allowed=(0, 4))
        if result.returncode == 4:
            print(f"refused a budget that its own sweep named: {budget} MiB\n{result.stderr}")
            failures += 1
            continue
        summary = json.loads((output / "summary.json").read_text())
        predicted, measured = summary["predicted_peak_bytes"], summary["measured_peak_bytes"]
        room = max(0.01 * predicted, 8 * MIB)
        holds = measured <= budget * MIB and abs(measured - predicted) <= room
        failures += not holds
        rows.append({"model": model, "length": length, "batch": batch, "levers": levers, "budget_bytes": budget * MIB,
                     "predicted_bytes": predicted, "measured_bytes": measured, "holds": holds})
        shown = " ".join(part for part in levers if "/" not in str(part)) or "-"
        print(f"{model:<17}{length:>6}{batch:>6}{budget:>9}{predicted / MIB:>10.1f}{measured / MIB:>9.1f}"
              f"{(measured - predicted) / predicted * 100:>+7.1f}%  {shown}{'' if holds else '  FAILS'}", flush=True)
    if rows:
        errors = [abs(row["measured_bytes"] - row["predicted_bytes"]) for row in rows]
        print(f"{len(rows)} runs; the largest error {max(errors) / MIB:.1f} MiB; "
              f"{sum(row['measured_bytes'] > row['budget_bytes'] for row in rows)} above their budget")
    print("bar: within 1 % or 8 MiB, never above the budget:", "FAILS" if failures or not rows else "holds")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failures or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
