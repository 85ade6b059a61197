#!/usr/bin/env python3
"""Budgets drawn at random between the smallest and the largest useful one; short runs under a hard memory limit.

Models take turns, and so do levers. Each run gets its budget as --budget and, where a cgroup (v2 or v1) can be made, the same number as the limit at which
the kernel kills it. Where none can be made, the highest resident set in summary.json is held against the budget. Bar: no
run killed, none above its budget, none refused.

  bench/random_budgets.py [--runs 200] [--models layoutlmv3-tiny layoutlmv3-small] [--steps 2]

A cgroup also counts pages of the file cache that the process brings in; the kernel drops those before it kills anybody.
The same seed draws the same budgets. Python's standard library only.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY

LEVERS = [[], ["--max-grad-norm", "0"], ["--bf16"], ["--optim", "adamw_8bit"],
          ["--optim", "adamw_8bit", "--bf16", "--max-grad-norm", "0"]]


class MemoryLimit:
    """A cgroup of our own with a memory limit, or nothing where none can be made."""

    def __init__(self):
        self.path = self.limit_file = None
        name = f"plimsoll-{os.getpid()}"
        for root, limit_file in ((Path("/sys/fs/cgroup"), "memory.max"),
                                 (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")):
            path = root / name
            try:
                path.mkdir()
            except OSError:
                continue
            if (path / limit_file).exists() and os.access(path / limit_file, os.W_OK):
                self.path, self.limit_file = path, limit_file
                return
            path.rmdir()

    def set(self, limit_bytes):
        if self.path:
            (self.path / self.limit_file).write_text(str(limit_bytes))
            swap = self.path / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")

    def join(self):
        """In the child, before it becomes plimsoll."""
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        if self.path:
            self.path.rmdir()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=["layoutlmv3-tiny", "layoutlmv3-small"])
    parser.add_argument("--steps", type=int, default=2, help="updates a run")
    parser.add_argument("--pages", type=int, default=24)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "random_budgets")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    pages = options.work / "pages"

    def run(*arguments, before=None):
        return subprocess.run([str(options.plimsoll), *map(str, arguments)], capture_output=True, text=True,
                              preexec_fn=before)

    run("synth", "--output", pages, "--count", options.pages, "--validation-fraction", 0.25).check_returncode()
    limit = MemoryLimit()
    print("hard limit:", f"cgroup {limit.path}" if limit.path else "none can be made here; the highest resident set is asserted")
    generator = random.Random(options.seed)
    useful = {}
    killed = above = refused = failed = done = 0
    nearest = 1.0
    try:
        for number in range(options.runs):
            model = options.models[number % len(options.models)]
            levers = LEVERS[number // len(options.models) % len(LEVERS)]
            common = ["--model", model, "--data", pages / "train.jsonl", "--train-batch-size", options.batch,
                      "--threads", options.threads, *levers]
            if (model, *levers) not in useful:
                sweep = run("plan", *common, "--budget", "1TiB", "--sweep", "--points", 2, "--json")
                sweep.check_returncode()
                points = json.loads(sweep.stdout)["sweep"]
                low, high = useful[model, *levers] = points[0]["budget_bytes"], points[-1]["budget_bytes"]
                print(f"{' '.join([model, *levers])}: useful budgets from {low / MIB:.0f} to {high / MIB:.0f} MiB", flush=True)
            budget = generator.randint(*useful[model, *levers])
            output = options.work / "run"
            shutil.rmtree(output, ignore_errors=True)
            limit.set(budget)
            result = run("train", *common, "--budget", budget, "--max-steps", options.steps, "--output-dir", output, "--json",
                         before=limit.join)
            if result.returncode == -signal.SIGKILL:
                killed += 1
                print(f"{' '.join([model, *levers])} with {budget / MIB:.1f} MiB: killed")
            elif result.returncode == 4:
                refused += 1
                print(f"{' '.join([model, *levers])} with {budget / MIB:.1f} MiB: refused\n{result.stderr}")
            elif result.returncode != 0:
                failed += 1
                print(f"{' '.join([model, *levers])} with {budget / MIB:.1f} MiB: ended with {result.returncode}\n{result.stderr}")
            else:
                done += 1
                measured = json.loads((output / "summary.json").read_text())["measured_peak_bytes"]
                nearest = min(nearest, (budget - measured) / budget)
                if measured > budget:
                    above += 1
                    print(f"{' '.join([model, *levers])} with {budget / MIB:.1f} MiB: held {measured / MIB:.1f} MiB")
    finally:
        limit.close()
    print(f"{options.runs} runs: {done} to the end, {killed} killed, {above} above their budget, {refused} refused, "
          f"{failed} failed; the nearest came within {100 * nearest:.1f} % of its budget")
    holds = done == options.runs and above == 0
    print("bar: none killed, none above its budget:", "holds" if holds else "FAILS")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
