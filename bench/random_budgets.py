#!/usr/bin/env python3
"""Runs short trainings under a hard memory limit, with random budgets between the smallest and the largest useful one.

Models take turns, and so do levers. Each run gets its budget as --budget and, where a cgroup (v2 or v1) can be made, the same number as the limit at which
the kernel kills it. Where none can be made, the highest resident set in summary.json is held against the budget. Bar: no
run killed, none above its budget, none refused.

  bench/random_budgets.py [--runs 200] [--models layoutlmv3-tiny layoutlmv3-small] [--steps 2]
  bench/random_budgets.py --device cuda [--runs 50] [--models layoutlmv3-tiny layoutlmv3-small layoutlmv3-base] [--steps 100]

A cgroup also counts pages of the file cache that the process brings in; the kernel drops those before it kills anybody.
On a GPU nothing limits a process; there another one (hold_memory.py) takes and frees the device's memory at random
meanwhile. A run that is refused before it holds its memory (no plan.json yet) is counted, and may be. Bar: none of those
that begin fails. The same seed draws the same budgets. No run begins after --seconds. Python's standard library only.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import nvidia
from program import MIB, PLIMSOLL, REPOSITORY, words_of

LEVERS = [[], ["--max-grad-norm", "0"], ["--bf16"], ["--optim", "adamw_8bit"],
          ["--optim", "adamw_8bit", "--bf16", "--max-grad-norm", "0"]]
PAGE = 4096  # bytes


class MemoryLimit:
    """Makes a cgroup with a memory limit, or nothing if none can be made or the memory is a device's."""

    def __init__(self, wanted):
        self.path = self.limit_file = None
        name = f"plimsoll-{os.getpid()}"
        for root, limit_file in ((Path("/sys/fs/cgroup"), "memory.max"),
                                 (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")) if wanted else ():
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
        """Runs in the child, before it becomes plimsoll."""
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        if self.path:
            self.path.rmdir()


@contextlib.contextmanager
def neighbour(options):
    """Runs a process that takes the device's memory meanwhile; the dictionary then says what it did."""
    told = {}
    if options.device == "cpu" or options.emulated:
        yield told
        return
    command = [sys.executable, str(Path(__file__).with_name("hold_memory.py")), "--seed", str(options.seed)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "holding\n":
        sys.exit(f"{' '.join(command)} did not begin")
    try:
        yield told
    finally:
        rest, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: its memory was not taken to the end")
    told.update(json.loads(rest))


class Runs:
    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        self.pages = options.work / "pages"
        self.useful, self.found, self.nearest = {}, Counter(), 1.0

    def plimsoll(self, *arguments, before=None):
        return subprocess.run([str(self.options.plimsoll), *map(str, arguments)], capture_output=True, text=True,
                              preexec_fn=before)

    def setting(self, number):
        models = self.options.models
        return models[number % len(models)], LEVERS[number // len(models) % len(LEVERS)]

    def common(self, model, levers):
        device = ["--device", "cuda", "--eval-data", self.pages / "validation.jsonl"] if self.options.device == "cuda" else []
        return ["--model", model, "--data", self.pages / "train.jsonl", "--train-batch-size", self.options.batch, "--threads",
                self.options.threads, "--max-length", self.options.max_length, *levers, *device]

    def prepare(self):
        """Makes pages and finds the useful budgets before memory becomes short."""
        self.plimsoll("synth", "--output", self.pages, "--count", self.options.pages, "--validation-fraction",
                      0.25).check_returncode()
        for number in range(self.options.runs):
            model, levers = self.setting(number)
            if (model, *levers) in self.useful:
                continue
            sweep = self.plimsoll("plan", *self.common(model, levers), "--budget", "1TiB", "--sweep", "--points", 2, "--json")
            if sweep.returncode:
                sys.exit(f"{' '.join([model, *levers])}: plan ended with {sweep.returncode}\n{words_of(sweep)}")
            points = json.loads(sweep.stdout)["sweep"]
            low, high = self.useful[model, *levers] = points[0]["budget_bytes"], points[-1]["budget_bytes"]
            print(f"{' '.join([model, *levers])}: useful budgets from {low / MIB:.0f} to {high / MIB:.0f} MiB", flush=True)

    def one(self, number, limit):
        model, levers = self.setting(number)
        budget = self.random.randint(*self.useful[model, *levers]) // PAGE * PAGE  # a cgroup's limit has whole pages
        output = self.options.work / "run"
        shutil.rmtree(output, ignore_errors=True)
        limit.set(budget)
        result = self.plimsoll("train", *self.common(model, levers), "--budget", budget, "--max-steps", self.options.steps,
                               "--output-dir", output, "--json", before=limit.join)
        found, words = self.judge(result, output, budget)
        self.found[found] += 1
        if found != "done":
            print(f"{' '.join([model, *levers])} with {budget / MIB:.1f} MiB: {found}{words}", flush=True)

    def judge(self, result, output, budget):
        words = f"\n{words_of(result)}"
        on_gpu = self.options.device == "cuda"
        if result.returncode == -signal.SIGKILL:
            return "killed", ""
        if on_gpu and result.returncode in (4, 5) and not (output / "plan.json").exists():
            return "refused", words
        if not on_gpu and result.returncode == 4:
            return "refused", words
        if result.returncode:
            return "failed", f": ended with {result.returncode}{words}"
        # On a GPU, a process's memory cannot always be told from its neighbour's.
        measured = 0 if on_gpu else json.loads((output / "summary.json").read_text())["measured_peak_bytes"]
        self.nearest = min(self.nearest, (budget - measured) / budget)
        return ("above", f" its budget: it held {measured / MIB:.1f} MiB") if measured > budget else ("done", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    nvidia.add_device_options(parser)
    parser.add_argument("--runs", type=int, help="default: 200; on a GPU 50")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--steps", type=int, help="updates a run (default: 2; on a GPU 100, where they take milliseconds)")
    parser.add_argument("--pages", type=int, default=24)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--max-length", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no run begins later")
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "random_budgets")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    on_gpu = nvidia.on_gpu(options)
    options.runs = options.runs or (50 if on_gpu else 200)
    options.steps = options.steps or (100 if on_gpu else 2)
    options.models = options.models or ["layoutlmv3-tiny", "layoutlmv3-small", *(["layoutlmv3-base"] if on_gpu else [])]
    end = time.monotonic() + options.seconds
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)

    runs = Runs(options)
    runs.prepare()
    limit = MemoryLimit(wanted=not on_gpu)
    if not on_gpu:
        print("hard limit:", f"cgroup {limit.path}" if limit.path else "none can be made here; the highest resident set is asserted")
    try:
        with neighbour(options) as told:
            for number in range(options.runs):
                if time.monotonic() > end:
                    break
                runs.one(number, limit)
    finally:
        limit.close()
    found = runs.found
    print(f"{sum(found.values())} runs of {options.runs}: {found['done']} to the end, {found['killed']} killed, {found['above']} above "
          f"their budget, {found['refused']} refused, {found['failed']} failed")
    if on_gpu:
        print("the neighbour:", json.dumps(told))
        holds = found["done"] > 0 and sum(found.values()) == options.runs and not found["failed"] + found["killed"]
        print("bar: none that begins fails:", "holds" if holds else "FAILS")
    else:
        print(f"the nearest came within {100 * runs.nearest:.1f} % of its budget")
        holds = found["done"] == options.runs
        print("bar: none killed, none above its budget:", "holds" if holds else "FAILS")
    if options.json:
        options.json.write_text(json.dumps({"asked": options.runs, "runs": sum(found.values()), **{
            kind: found[kind] for kind in ("done", "killed", "above", "refused", "failed")}, "neighbour": told}, indent=1) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
