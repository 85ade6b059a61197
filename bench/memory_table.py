#!/usr/bin/env python3
"""Makes the table in docs/memory.md: a training step's bytes with each lever, and the lever's cost.

Each row trains two updates of LayoutLMv3-base on drawn pages padded to 512 text tokens (S = 709 with the image) and
prints Markdown: bytes by purpose as planned, the peak as predicted and as measured, and the time of an update as the plan
estimates it, against the first row with as many pages.

  bench/memory_table.py [--rows 0 1 2] [--model layoutlmv3-base]      about half a minute per row

Python's standard library only.
"""

import argparse
import json
import shutil
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, run

ROWS = [
    ("nothing: 1 page, clipped", 1, []),
    ("`--gradient-checkpointing`", 1, ["--gradient-checkpointing"]),
    ("`--update-mode two-passes`", 1, ["--update-mode", "two-passes"]),
    ("`--max-grad-norm 0`", 1, ["--max-grad-norm", "0"]),
    ("`--max-grad-norm 0 --gradient-checkpointing`", 1, ["--max-grad-norm", "0", "--gradient-checkpointing"]),
    ("`--optim adamw_8bit`", 1, ["--optim", "adamw_8bit"]),
    ("`--optim adafactor`", 1, ["--optim", "adafactor"]),
    ("`--max-grad-norm 0 --offload`, 1 GiB", 1, ["--max-grad-norm", "0", "--budget", "1GiB", "--offload"]),
    ("`--max-grad-norm 0 --offload`, 640 MiB", 1, ["--max-grad-norm", "0", "--budget", "640MiB", "--offload"]),
    ("nothing: 4 pages at once, clipped", 4, ["--micro-batch-size", "4"]),
    ("`--micro-batch-size 1`", 4, ["--micro-batch-size", "1"]),
]
GROUPS = [("parameters", ("parameters",)), ("optimizer", ("optimizer state",)),
          ("gradients", ("accumulated gradients", "gradients")), ("activations", ("activations",)),
          ("staging", ("offload staging",)),
          ("the rest", ("process", "batch", "kernel scratch", "holes", "loader", "offload thread", "reserve"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(range(len(ROWS))))
    parser.add_argument("--model", default="layoutlmv3-base")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "memory_table")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)

    run(options.plimsoll, "synth", "--output", options.work / "pages", "--count", 10, "--validation-fraction", 0.2)
    print("| lever | " + " | ".join(name for name, _ in GROUPS) + " | predicted peak | measured peak | time |")
    print("| --- |" + " ---: |" * (len(GROUPS) + 3))
    first = {}
    for name, batch, levers in (ROWS[row] for row in options.rows):
        output = options.work / "run"
        shutil.rmtree(output, ignore_errors=True)
        budget = [] if "--budget" in levers else ["--budget", "1TiB"]
        levers = levers + [options.work] if levers[-1:] == ["--offload"] else levers
        run(options.plimsoll, "train", "--model", options.model, "--data", options.work / "pages" / "train.jsonl", "--max-length", 512,
                 "--pad-to-max-length", "--train-batch-size", batch, *budget, "--max-steps", 2, "--threads",
                 options.threads, "--output-dir", output, "--json", *levers)
        plan = json.loads((output / "plan.json").read_text())
        summary = json.loads((output / "summary.json").read_text())
        sums = [sum(item["bytes"] for item in plan["items"] if item["name"].startswith(prefixes)) for _, prefixes in GROUPS]
        assert sum(sums) == plan["predicted_peak_bytes"], plan["items"]
        seconds = plan["seconds_per_update"]
        cells = [f"{bytes_ / MIB:,.0f}" for bytes_ in (*sums, plan["predicted_peak_bytes"], summary["measured_peak_bytes"])]
        print(f"| {name} | " + " | ".join(cells) + f" | {seconds / first.setdefault(batch, seconds):.2f} |", flush=True)


if __name__ == "__main__":
    main()
