#!/usr/bin/env python3
"""Checks the memory bar: compares a plan's prediction with the process's memory, over models, lengths, levers and budgets.

Draws pages, trains a few updates in each setting and reads summary.json. Bar: the measured peak of the resident set is
never above the budget, and within 1 % or 8 MiB (whichever is larger) of the prediction.

  bench/predicted_against_measured.py [--runs 40] [--models layoutlmv3-tiny layoutlmv3-small] [--steps 8]
  bench/predicted_against_measured.py --device cuda [--runs 20] [--models layoutlmv3-tiny layoutlmv3-base layoutlmv3-large]

On a GPU the peak is the device's: what the program says it holds at its end or what NVML sees from outside, whichever is
more; and it is never above the prediction. Levers take turns, models and lengths are drawn with a fixed seed, so the same
command makes the same runs. No setting begins after --seconds; those left out are counted. Python's standard library only.
"""

import argparse
import json
import random
import shutil
import sys
import time
from pathlib import Path

import nvidia
from program import MIB, PLIMSOLL, REPOSITORY, run, words_of

# Adapters and frozen parts need a model that has weights.
MODEL_LEVERS = [["--lora-rank", "8"], ["--lora-rank", "8", "--load-in-4bit", "--bf16"],
                ["--freeze", "layoutlmv3.embeddings.*"], ["--load-in-8bit", "--lora-rank", "8"]]
LEVERS = [[], ["--gradient-checkpointing"], ["--recompute", "none"], *MODEL_LEVERS,
          ["--bf16"], ["--optim", "adamw_8bit"], ["--optim", "adamw_8bit", "--bf16", "--max-grad-norm", "0"],
          ["--optim", "adafactor"], ["--fp16"], ["--offload", "{work}"], ["--offload", "{work}", "--max-grad-norm", "0"],
          ["--max-grad-norm", "0"],
          ["--update-mode", "two-passes", "--micro-batch-size", "{batch}"],
          ["--micro-batch-size", "1"], ["--micro-batch-size", "2"],
          ["--eval-data", "{eval}"], ["--pad-to-max-length"],
          # These exceed the twenty settings of a GPU's bar, concern the host, or are rarely useful.
          ["--dataloader-num-workers", "3"], ["--max-grad-norm", "0", "--update-mode", "after-backward"]]


def settings(options):
    """Returns each lever at least once in turn, and random ones for the rest."""
    generator = random.Random(options.seed)
    for number in range(options.runs):
        levers = LEVERS[number % len(LEVERS)]
        model, length = generator.choice(options.models), generator.choice(options.lengths)
        batch = generator.choice((2, 4, 8))
        filled = [part.format(batch=batch, eval=options.work / "pages" / "validation.jsonl", work=options.work) for part in levers]
        yield model, options.work / model if levers in MODEL_LEVERS else model, length, batch, filled, generator.random()


def measure(options, common, share, row):
    """Runs one setting and adds its memory to its row; returns "" or the reason of a failure."""
    sweep = run(options.plimsoll, "plan", *common, "--budget", "1TiB", "--sweep", "--points", 2, "--json", allowed=None)
    if sweep.returncode:
        return f"plan ended with {sweep.returncode}: {words_of(sweep)}"
    # The budget lies between the smallest that works and one larger than needed.
    useful = [point["budget_bytes"] for point in json.loads(sweep.stdout)["sweep"]]
    budget = -(-int(useful[0] + share * (useful[-1] - useful[0])) // MIB)
    row["budget_bytes"] = budget * MIB
    output = options.work / "run"
    shutil.rmtree(output, ignore_errors=True)
    with nvidia.watch(options) as watch:
        result = run(options.plimsoll, "train", *common, "--budget", f"{budget}MiB", "--max-steps", options.steps,
                     "--output-dir", output, "--json", allowed=None)
    if result.returncode:
        refused = "refused a budget that its own sweep named" if result.returncode == 4 else f"ended with {result.returncode}"
        return f"{refused}: {words_of(result)}"
    summary = json.loads((output / "summary.json").read_text())
    predicted, told = summary["predicted_peak_bytes"], summary["measured_peak_bytes"]
    measured = max(told, watch.bytes) if watch else told
    row.update(predicted_bytes=predicted, measured_bytes=measured, told_bytes=told,
               seen_bytes=watch.bytes if watch else None)
    if measured > budget * MIB:
        return "above its budget"
    if options.device == "cuda" and measured > predicted:
        return "above the prediction"
    return "" if abs(measured - predicted) <= max(0.01 * predicted, 8 * MIB) else "too far from the prediction"


def line_of(row):
    shown = " ".join(part for part in row["levers"] if "/" not in str(part)) or "-"
    words = f"{row['model']:<17}{row['length']:>6}{row['batch']:>6}{row.get('budget_bytes', 0) // MIB:>9}"
    if "measured_bytes" in row:
        predicted, measured = row["predicted_bytes"], row["measured_bytes"]
        words += f"{predicted / MIB:>10.1f}{measured / MIB:>9.1f}{(measured - predicted) / predicted * 100:>+7.1f}%"
    else:
        words += " " * 27
    return f"{words}  {shown}{'  FAILS, ' + row['failure'] if row['failure'] else ''}"


def write_summary(options, rows):
    """Prints a summary and writes the one by which bench/gpu_check.py judges."""
    known = [row for row in rows if "measured_bytes" in row]
    errors = [row["measured_bytes"] - row["predicted_bytes"] for row in known]
    summary = {"asked": options.runs, "runs": len(rows), "failed": sum(bool(row["failure"]) for row in rows),
               "above_prediction": sum(error > 0 for error in errors),
               "above_budget": sum(row["measured_bytes"] > row["budget_bytes"] for row in known),
               "largest_error_bytes": max(map(abs, errors), default=0), "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    return summary


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    nvidia.add_device_options(parser)
    parser.add_argument("--runs", type=int, help="settings (default: 40; on a GPU 20)")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--lengths", nargs="+", type=int, default=[64, 128, 256, 512])
    parser.add_argument("--steps", type=int, default=8, help="updates a run; few of them leave some loader threads idle")
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no setting begins later")
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "predicted")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    on_gpu = nvidia.on_gpu(options)
    options.runs = options.runs or (20 if on_gpu else 40)
    options.models = options.models or (["layoutlmv3-tiny", "layoutlmv3-base", "layoutlmv3-large"] if on_gpu
                                        else ["layoutlmv3-tiny", "layoutlmv3-small"])
    end = time.monotonic() + options.seconds
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    for model in options.models:
        run(options.plimsoll, "init", "--model", model, "--labels", "O,B-NAME,I-NAME", "--output-dir", options.work / model)
    run(options.plimsoll, "synth", "--output", options.work / "pages", "--count", options.pages, "--validation-fraction", 0.2)

    print(f"{'model':<17}{'length':>6}{'batch':>6}{'budget':>9}{'predicted':>10}{'measured':>9}{'error':>8}  levers  (MiB)")
    rows = []
    for model, source, length, batch, levers, share in settings(options):
        if time.monotonic() > end:
            break
        common = ["--model", source, "--data", options.work / "pages" / "train.jsonl", "--max-length", length,
                  "--train-batch-size", batch, "--threads", options.threads, *levers,
                  *(["--device", "cuda"] if on_gpu else [])]
        row = {"model": model, "length": length, "batch": batch, "levers": levers}
        row["failure"] = measure(options, common, share, row)
        rows.append(row)
        print(line_of(row), flush=True)
        write_summary(options, rows)  # written at once, in case somebody ends the script early
    summary = write_summary(options, rows)
    holds = len(rows) == options.runs and not summary["failed"]
    print(f"{len(rows)} runs of {options.runs}; the largest error {summary['largest_error_bytes'] / MIB:.1f} MiB; "
          f"{summary['above_budget']} above their budget, {summary['above_prediction']} above their prediction")
    print(f"bar: within 1 % or 8 MiB, never above the budget{' or the prediction' if on_gpu else ''}:", "holds" if holds else "FAILS")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
