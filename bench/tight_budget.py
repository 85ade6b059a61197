#!/usr/bin/env python3
"""Measures the time that a budget far below PyTorch's memory costs on a GPU: trains with it and without any budget.

The budget is a fraction of the device memory that transformers' eager step takes (bf16, batch 16, S = 709; measured as
compare_pytorch.py does, or --peak). `plimsoll train` then makes the same updates with that budget and without, in turn:
as many pages of 512 text tokens each, from a cache. The time of an update is what metrics.jsonl says, less what it waited
for pages; the first updates warm up and are not counted; ratios are taken within a round, the figure is their median.

  bench/tight_budget.py [--share 8] [--rounds 3] [--updates 20]      Bar: 1.2 times the time or less
  bench/tight_budget.py --peak 40960      MiB, measured before: no PyTorch is needed
"""

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path

import compare_pytorch
import nvidia
from program import MIB, PLIMSOLL, REPOSITORY, run, words_of

SLOWER = 1.2  # at most
WARM = 4
GIB = 1 << 30


def pytorch_peak(options):
    theirs = compare_pytorch.parse(words_for_pytorch(options))
    model, batch = compare_pytorch.prepare_model(theirs), compare_pytorch.prepare(theirs, "filled")
    command, warm, preload = compare_pytorch.commands(theirs, model, batch, "bf16")["eager"]
    return compare_pytorch.run(theirs, command, warm, preload)["peak_bytes"]


def words_for_pytorch(options):
    words = ["--shape", options.shape, "--device", options.device, "--programs", "eager", "--steps", 3, "--synthetic",
             "--batch-size", options.batch_size, "--length", options.length, "--threads", options.threads,
             "--plimsoll", options.plimsoll, "--work", options.work, *(["--emulated"] if options.emulated else [])]
    return [str(word) for word in words]


def seconds_per_update(metrics, pages):
    """Returns the seconds of updates after the warm-up, without the time that they waited for pages."""
    lines = {line["step"]: line for line in metrics if "pages_per_second" in line}

    def busy(step):  # seconds from the beginning
        return step * pages / lines[step]["pages_per_second"] * (1 - lines[step]["data_wait"])

    return (busy(max(lines)) - busy(WARM)) / (max(lines) - WARM)


def train(options, budget):
    """Makes one run; returns its row, with the message if it was refused."""
    output = options.work / "run"
    shutil.rmtree(output, ignore_errors=True)
    with nvidia.watch(options) as watch:
        result = run(options.plimsoll, "train", "--model", f"layoutlmv3-{options.shape}", "--data", options.work / "pages" / "train.jsonl",
                     "--cache", options.work / "cache", "--device", "cuda", "--bf16", "--max-length", options.length, "--truncate",
                     "--pad-to-max-length", "--train-batch-size", options.batch_size, "--max-steps", options.updates,
                     "--logging-steps", 1, "--threads", options.threads, "--output-dir", output, "--json",
                     *(["--budget", budget] if budget else []), allowed=(0, 4))
    if result.returncode:
        return {"refused": words_of(result)}
    summary = json.loads((output / "summary.json").read_text())
    metrics = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return {"seconds": seconds_per_update(metrics, options.batch_size), "data_wait": summary["data_wait"],
            "device_busy": summary["device_busy"],
            "peak_bytes": max(summary["measured_peak_bytes"], watch.bytes if watch else 0),
            "micro_batch_size": summary["micro_batch_size"], "loss": summary["loss"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    nvidia.add_device_options(parser)
    parser.set_defaults(device="cuda")
    parser.add_argument("--share", type=float, default=8, help="the budget is the peak over this")
    parser.add_argument("--peak", type=int, help="MiB that PyTorch's step takes, measured before")
    parser.add_argument("--shape", default="base", choices=("tiny", "small", "base", "large"))
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "tight_budget")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    if not nvidia.on_gpu(options) or options.updates <= WARM:
        parser.error(f"--device cuda, and more than {WARM} --updates")
    options.work.mkdir(parents=True, exist_ok=True)
    peak = options.peak * MIB if options.peak else pytorch_peak(options)
    budget = int(peak / options.share)
    print(f"{options.shape}, batch {options.batch_size}, T = {options.length}, bf16: PyTorch's eager step takes {peak / GIB:.2f} GiB; "
          f"the budget is {budget / GIB:.2f} GiB", flush=True)
    # The updates are full: an epoch is two of them.
    run(options.plimsoll, "synth", "--output", options.work / "pages", "--count", 2 * options.batch_size, "--validation-fraction", 0)
    rounds = []
    for _ in range(options.rounds):
        free, tight = train(options, None), train(options, budget)
        rounds.append({"free": free, "tight": tight})
        refused = free.get("refused") or tight.get("refused")
        if refused:
            print(f"refused: {refused}")
            break
        for name, row in rounds[-1].items():
            print(f"{name:<6}{row['seconds'] * 1000:>9.1f} ms an update, {row['peak_bytes'] / GIB:.2f} GiB, micro-batch "
                  f"{row['micro_batch_size']}, {100 * row['data_wait']:.0f} % of the run waiting for pages, the GPU at work "
                  f"{100 * row['device_busy']:.1f} % of it", flush=True)
    report = {"pytorch_peak_bytes": peak, "budget_bytes": budget, "rounds": rounds, "refused": refused or ""}
    holds = not refused
    if not refused:
        report["ratio"] = statistics.median(row["tight"]["seconds"] / row["free"]["seconds"] for row in rounds)
        report["device_busy"] = statistics.median(row["free"]["device_busy"] for row in rounds)
        report["peak_bytes"] = max(row["tight"]["peak_bytes"] for row in rounds)
        holds = report["ratio"] <= SLOWER and report["peak_bytes"] <= budget
        print(f"{report['ratio']:.2f} times the time within {report['peak_bytes'] / GIB:.2f} GiB")
    print(f"bar: within the budget at {SLOWER} times the time or less:", "holds" if holds else "FAILS")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
