#!/usr/bin/env python3
"""Tests that every killed run resumes bit for bit.

For each kind of run: one that is left alone, then runs that save after every update or two and are killed by SIGKILL at a
moment drawn over their whole length, every second aimed at a save. Some are killed again after they resumed. What
then carries a checkpoint's name must be that checkpoint to the byte; and the run that resumes must end with the files of
the run that was left alone: weights, optimizer state, trainer state, and every loss, learning rate, gradient norm and
evaluation of metrics.jsonl (not its times and memory). Nothing else may be left in the directory.

  bench/kill_anywhere.py [--count 300] [--seed 1]

Exit status 1 if one run fails. Python's standard library only.
"""

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from program import PLIMSOLL, REPOSITORY, run

MEASURED = {"pages_per_second", "resident_bytes", "anonymous_bytes", "file_bytes", "machine_free_bytes", "data_wait",
            "eval_seconds"}
KINDS = {  # the number of checkpoints kept, and what the run does
    "saves every update": (2, ["--save-steps", 1]),
    "two micro-batches, every other update": (1, ["--save-steps", 2, "--micro-batch-size", 1]),
    "8-bit states, bf16, best model at end": (2, ["--save-steps", 1, "--optim", "adamw_8bit", "--bf16", "--eval-steps", 2,
                                                  "--load-best-model-at-end", "--metric-for-best-model", "loss"]),
    "adapters, a line every third update": (1, ["--save-steps", 1, "--lora-rank", 4, "--logging-steps", 3]),
}
START, SAVING, ENDING, BETWEEN = ("before the first update", "saving a checkpoint", "writing the final model",
                                  "between saves")


def digests(directory):
    """Returns the path and contents of each file below."""
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(directory.rglob("*")) if path.is_file()}


def metrics(directory):
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in MEASURED} for line in lines]


def results(directory):
    """Returns the files of a finished run, without values that always differ between runs."""
    files = digests(directory)
    for name in ("metrics.jsonl", "summary.json", "plan.json", "arena.json", "args.json"):
        files[name] = "there" if name in files else "missing"
    return files


def phase(directory):
    """Tells what the run was doing when it was killed, from the files that it left."""
    names = {path.name for path in directory.iterdir()} if directory.exists() else set()
    unfinished = {path.name for path in directory.glob(".plimsoll/*")}
    if any(name.startswith("checkpoint-") for name in unfinished):
        return SAVING
    if any(name.startswith("model") for name in unfinished) or "config.json" in names:
        return ENDING if any(name.startswith("checkpoint-") for name in names) else START
    written = directory / "metrics.jsonl"
    return BETWEEN if written.exists() and written.stat().st_size else START


class Kind:
    def __init__(self, options, work, kept, more):
        self.arguments = ["--model", options.model or "layoutlmv3-tiny", "--data", work / "pages" / "train.jsonl",
                          "--eval-data", work / "pages" / "validation.jsonl", "--budget", "1GiB", "--threads", 1,
                          "--train-batch-size", 2, "--learning-rate", "1e-3",
                          "--dataloader-num-workers", 2, "--max-steps", options.steps, *more]
        if "--logging-steps" not in more:
            self.arguments += ["--logging-steps", 1]
        if "--lora-rank" in more:  # it needs an existing model
            self.arguments[1] = work / "model"
        self.limit = ["--save-total-limit", kept]
        self.plimsoll = options.plimsoll
        whole, every = work / "whole", work / "every"
        for directory in (whole, every):
            shutil.rmtree(directory, ignore_errors=True)
        begin = time.monotonic()
        run(self.plimsoll, "train", *self.arguments, *self.limit, "--output-dir", whole)
        self.seconds = time.monotonic() - begin
        self.results, self.metrics = results(whole), metrics(whole)
        # The same run with every checkpoint kept, for comparison.
        run(self.plimsoll, "train", *self.arguments, "--output-dir", every)
        self.checkpoints = {path.name: digests(path) for path in every.glob("checkpoint-*")}

    def train(self, directory):
        command = [self.plimsoll, "train", *self.arguments, *self.limit, "--output-dir", directory, "--resume-from-checkpoint",
                   "latest"]
        return subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for_save(process, directory, nth):
    """Waits until the nth save from now begins, or the process ends."""
    seen = set()
    while process.poll() is None:
        if directory.exists():
            seen |= {path.name for path in directory.glob(".plimsoll/checkpoint-*")}
        if len(seen) >= nth:
            return
        time.sleep(0.0005)


def faults_of_checkpoints(kind, directory):
    """Returns the faults of everything with a checkpoint's name after a kill."""
    faults = []
    for path in directory.glob("checkpoint-*"):
        if digests(path) != kind.checkpoints.get(path.name):
            faults.append(f"{path.name} is not what it should be")
    return faults


def faults_of_end(kind, directory, process):
    _, error = process.communicate(timeout=120)
    if process.returncode != 0:
        return [f"the resumed run ended with {process.returncode}: {error.strip()}"]
    found = results(directory)
    faults = [f"{name} differs" for name in sorted(found.keys() & kind.results.keys()) if found[name] != kind.results[name]]
    faults += [f"{name} is missing" for name in sorted(kind.results.keys() - found.keys())]
    faults += [f"{name} is left over" for name in sorted(found.keys() - kind.results.keys())]
    if metrics(directory) != kind.metrics:
        faults.append("the losses of metrics.jsonl differ")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10, help="updates a run")
    parser.add_argument("--model", help="another preset or model directory than layoutlmv3-tiny")
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "kill_anywhere")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    pages, model = options.work / "pages", options.work / "model"
    run(options.plimsoll, "synth", "--output", pages, "--count", 8, "--validation-fraction", 0.25)
    run(options.plimsoll, "init", "--model", options.model or "layoutlmv3-tiny", "--output-dir", model, "--labels",
        "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,I-DATE,B-TOTAL,I-TOTAL")
    draw = random.Random(options.seed)
    failures = 0
    print(f"{'run':40} {'seconds':>8} {'kills':>6} {'ends':>6} {START:>24} {SAVING:>20} {ENDING:>24} {BETWEEN:>14}  verdict")
    for number, (name, (kept, more)) in enumerate(KINDS.items()):
        share = options.count // len(KINDS) + (number < options.count % len(KINDS))
        if share == 0:
            continue
        kind = Kind(options, options.work, kept, more)
        phases, kills, ends, bad = Counter(), 0, 0, 0
        directory = options.work / "run"
        while kills < share:
            shutil.rmtree(directory, ignore_errors=True)
            faults = []
            while True:  # killed, resumed, and perhaps killed again
                process = kind.train(directory)
                if kills % 2 == 1:
                    wait_for_save(process, directory, draw.randint(1, options.steps // 2))
                    time.sleep(draw.uniform(0, 0.1 * kind.seconds / options.steps))
                else:
                    time.sleep(draw.uniform(0, kind.seconds))
                process.send_signal(signal.SIGKILL)
                process.communicate()
                if process.returncode != -signal.SIGKILL:
                    break  # it had ended already, so another moment is drawn
                kills += 1
                phases[phase(directory)] += 1
                faults += faults_of_checkpoints(kind, directory)
                if kills == share or draw.random() < 0.6:
                    break
            faults += faults_of_end(kind, directory, kind.train(directory))
            ends += 1
            if faults:
                bad += 1
                copy = options.work / f"failed-{failures + bad}"
                shutil.copytree(directory, copy)
                print(f"{name}, kill {kills}: {'; '.join(faults)}; see {copy}", flush=True)
        failures += bad
        print(f"{name:40} {kind.seconds:8.2f} {kills:6} {ends:6} {phases[START]:24} {phases[SAVING]:20} {phases[ENDING]:24} "
              f"{phases[BETWEEN]:14}  {'every one resumed, bit for bit' if bad == 0 else f'{bad} FAILED'}", flush=True)
    print("bar: every killed run resumes and ends as if it had not been killed:", "holds" if failures == 0 else "FAILS")
    return 0 if failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
