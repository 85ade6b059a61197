#!/usr/bin/env python3
"""Trains causal language models of Qwen2.5-0.5B's and Llama-3.2-1B's shapes, random weights, on texts of 1,024 tokens, and
prints their peaks beside their bars.

  bench/language_model.py [--only qlora full llama-qlora llama-qlora-file llama-full-file file eval-file long]
                          [--work DIR] [--updates 2] [--rounds 3]

qlora: adapters on weights in 4 bits (NF4), bf16. full: every weight, bf16, 8-bit AdamW, no clipping; the embedding, which
is tied to the head, has its moments in 8 bits, too, and its gradient part by part. -file: with --offload, in the folder
of --work. Each runs at the smallest budget that a refusal names: its peak may not exceed it, and is within 1 % or 8 MiB
of what was predicted. Needs .venv (tools/setup_venv.sh), which writes the models. Exit status 1 if a bar is missed.

file: time of an update of qlora with weights, moments and activations in a file, as far as the smallest memory asks for
it, beside that of the same in memory, with everything recomputed that is there; in turn.

eval-file: `plimsoll eval` of Qwen2.5-0.5B's shape, in memory and at the smallest budget that --offload allows, in
turn: the same loss, never above its budget.

long: a small model (llama-small) on texts of 8,192 tokens and of 1,024, whole layers recomputed: batch and activations of a
step, which grow as the tokens do, since no scores are kept; and one update of 8,192 tokens, measured.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import decoders
from program import MIB, PLIMSOLL, holds, run

LENGTH = 1024
STEP_ITEMS = ("batch (step)", "activations (step)")
QLORA = ["--bf16", "--load-in-4bit", "--lora-rank"]
FULL = ["--bf16", "--optim", "adamw_8bit", "--max-grad-norm", "0"]
# name: (shape, options of train, bar of the peak in GiB)
RUNS = {
    "qlora": ("qwen2.5-0.5b", [*QLORA, "8"], 0.8),
    "full": ("qwen2.5-0.5b", FULL, 3.2),
    "llama-qlora": ("llama-3.2-1b", [*QLORA, "16"], 1.4),
    "llama-qlora-file": ("llama-3.2-1b", [*QLORA, "16"], 1.2),
    "llama-full-file": ("llama-3.2-1b", FULL, 1.5),
}


def arguments_of(options, work, shape, extra, file):
    model = work / shape
    decoders.make(model, shape, dtype="bfloat16")
    return ["--model", model, "--data", work / "texts.jsonl", "--max-length", LENGTH, "--per-device-train-batch-size", 1,
            "--max-steps", options.updates, "--save-strategy", "no", *extra, *(["--offload", work] if file else [])]


def train(options, arguments, budget, folder):
    """The plan and the summary of a run."""
    shutil.rmtree(folder, ignore_errors=True)
    run(options.plimsoll, "train", *arguments, "--budget", budget, "--output-dir", folder)
    read = lambda name: json.loads((folder / name).read_text(encoding="utf-8"))
    found = read("plan.json"), read("summary.json")
    shutil.rmtree(folder)
    return found


def measure_file(options, work):
    shape, extra, _ = RUNS["qlora"]
    ways = [arguments_of(options, work, shape, extra, file) for file in (False, True)]
    budgets = [decoders.smallest_budget(options.plimsoll, way) for way in ways]
    times = [[], []]
    for _ in range(options.rounds):
        for way, budget, its in zip(ways, budgets, times):
            plan, summary = train(options, way, budget, work / "run-file")
            its.append(summary["seconds"] / summary["steps"])
    ratio = statistics.median(b / a for a, b in zip(*times))
    moved = plan["offload"]["read_bytes_per_update"] + plan["offload"]["written_bytes_per_update"]
    print(f"  in {budgets[0] / MIB:.0f} MiB {statistics.median(times[0]):.1f} s an update, in {budgets[1] / MIB:.0f} MiB "
          f"{statistics.median(times[1]):.1f} s, which move {moved / MIB:.0f} MiB")
    return holds("file: time of an update beside the same in memory", f"{ratio:.2f}", "1.15", ratio <= 1.15)


def measure_eval_file(options, work):
    model = work / "qwen2.5-0.5b"
    decoders.make(model, model.name, dtype="bfloat16")
    decoders.write_texts(work / "few.jsonl", LENGTH, lines=1)  # a few windows: each takes seconds
    arguments = ["--model", model, "--data", work / "few.jsonl", "--max-length", LENGTH, "--json"]

    def least(*more):
        refused = run(options.plimsoll, "eval", *arguments, *more, "--budget", "64MiB", allowed=(4,))
        return json.loads(refused.stdout)["error"]["smallest_budget_bytes"]

    ways = [(least(*more), more) for more in ((), ("--offload", work))]
    found = [[], []]
    for _ in range(options.rounds):
        for (budget, more), its in zip(ways, found):
            its.append(json.loads(run(options.plimsoll, "eval", *arguments, *more, "--budget", budget).stdout))
    (memory, _), (file, _) = ways
    ratio = statistics.median(b["seconds"] / a["seconds"] for a, b in zip(*found))
    print(f"  in {memory / MIB:.0f} MiB {statistics.median(one['seconds'] for one in found[0]):.1f} s, in {file / MIB:.0f} "
          f"MiB {ratio:.2f} times as long")
    peak = max(one["measured_peak_bytes"] for one in found[1])
    losses = {one["loss"] for its in found for one in its}
    good = holds("eval-file: peak beside its budget", f"{peak / MIB:.1f} of {file / MIB:.1f} MiB", "never above", peak <= file)
    return good & holds("eval-file: different losses", len(losses), "1", len(losses) == 1)


def measure(options, work, name):
    shape, extra, bar = RUNS[name]
    file = name.endswith("-file")
    arguments = arguments_of(options, work, shape, extra, file)
    budget = decoders.smallest_budget(options.plimsoll, arguments)
    plan, summary = train(options, arguments, budget, work / f"run-{name}")
    if file:
        of_file = plan["offload"]
        print(f"  {summary['seconds'] / summary['steps']:.1f} s an update, which reads "
              f"{of_file['read_bytes_per_update'] / 2**30:.2f} GiB and writes "
              f"{of_file['written_bytes_per_update'] / 2**30:.2f}: {of_file['seconds_per_update']:.1f} s at the disk's rate")
    peak, predicted = summary["measured_peak_bytes"], summary["predicted_peak_bytes"]
    good = holds(f"{name}: peak", f"{peak / 2**30:.3f} GiB", f"{bar} GiB", peak <= bar * 2**30)
    good &= holds(f"{name}: measured beside planned", f"{peak / MIB:.1f} of {predicted / MIB:.1f} MiB",
                  "never above; within 1 % or 8 MiB", peak <= predicted and
                  predicted - peak <= max(0.01 * predicted, 8 * MIB))
    return good


# The preset with positions for longer texts.
def make_small_model(options, folder):
    run(options.plimsoll, "init", "--model", "llama-small", "--task", "causal-lm", "--output-dir", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = 8192
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "checksums.json").unlink()


def step_bytes(options, arguments, length):
    result = run(options.plimsoll, "plan", *arguments, "--max-length", length, "--budget", "16GiB", "--json")
    items = {item["name"]: item["bytes"] for item in json.loads(result.stdout)["items"]}
    return sum(items[name] for name in STEP_ITEMS)


def measure_long(options, work):
    arguments = ["--model", work / "small", "--data", work / "long.jsonl", "--per-device-train-batch-size", 1,
                 "--max-steps", 1, "--recompute", "layers", "--max-grad-norm", 0]
    short, long = (step_bytes(options, arguments, length) for length in (1024, 8192))
    good = holds("long: a step of 8,192 tokens beside 1,024", f"{long / MIB:.1f} and {short / MIB:.1f} MiB: "
                 f"{long / short:.2f} times", "8.2 times", long <= 8.2 * short)
    arguments += ["--max-length", 8192]
    budget = decoders.smallest_budget(options.plimsoll, arguments)
    run(options.plimsoll, "train", *arguments, "--budget", budget, "--output-dir", work / "run-long",
        "--overwrite-output-dir")
    summary = json.loads((work / "run-long" / "summary.json").read_text(encoding="utf-8"))
    peak, predicted = summary["measured_peak_bytes"], summary["predicted_peak_bytes"]
    return good & holds("long: measured beside planned", f"{peak / MIB:.1f} of {predicted / MIB:.1f} MiB",
                        "never above", peak <= predicted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    others = {"file": measure_file, "eval-file": measure_eval_file, "long": measure_long}
    parser.add_argument("--only", nargs="+", choices=[*RUNS, *others], default=[*RUNS, *others])
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="of file and eval-file")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        if "long" in options.only and not (work / "small").exists():
            make_small_model(options, work / "small")
        for name, words in (("texts.jsonl", 2400), ("long.jsonl", 9600)):
            decoders.write_texts(work / name, words)
        good = [others[only](options, work) if only in others else measure(options, work, only) for only in options.only]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
