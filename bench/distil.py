#!/usr/bin/env python3
"""Trains a student beside its teacher: what both need in one plan, and what the student learns of it.

  bench/distil.py --only cost   # peak and time of an update on base's shape: teacher in 8 and 32 bits, what it
                                # computes in a file (--teacher-cache), and none
  bench/distil.py --only gap    # F1 on held-out drawn pages: teacher, student with and without it, three seeds

The student has half of the teacher's layers (`init --num-hidden-layers`). `gap` is of few labelled pages: the teacher
was trained on many, and what it computes of the few is kept in a file (--teacher-cache). Both ways make as many updates;
the same learning rates are tried for both on pages of their own, and the best of each are compared on held-out pages.
Exit status 1 if a bar is missed.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from program import MIB, PLIMSOLL, holds, run

TIMES = {"8": 1.45, "32": 1.75}
LEAST_GAP = 0.03


def draw(program, folder, count, seed):
    if not folder.exists():
        run(program, "synth", "--count", count, "--seed", seed, "--validation-fraction", 0, "--output", folder)
    return folder / "train.jsonl"


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def cost(options, work):
    data = draw(options.plimsoll, work / "pages", 40, 1)
    labels = "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,I-DATE,B-TOTAL,I-TOTAL"
    run(options.plimsoll, "init", "--model", "layoutlmv3-base", "--labels", labels, "--output-dir", work / "teacher")
    run(options.plimsoll, "init", "--model", work / "teacher", "--num-hidden-layers", 6, "--output-dir", work / "student")
    ways = {"none": [], **{bits: ["--distil-from", work / "teacher", "--teacher-bits", bits] for bits in TIMES},
            "kept": ["--distil-from", work / "teacher", "--teacher-cache", work / "cache"]}
    seconds = {way: [] for way in ways}
    good = True
    for turn in range(options.rounds):
        for way, more in ways.items():
            output = work / f"{way}-{turn}"
            run(options.plimsoll, "train", "--model", work / "student", "--data", data, "--max-steps", options.updates,
                "--per-device-train-batch-size", 2, "--no-decode-images", "--save-strategy", "no", "--logging-steps", 0,
                *more, "--output-dir", output)
            found = summary_of(output)
            seconds[way].append(found["seconds"])
            peak, measured = found["predicted_peak_bytes"] / MIB, found["measured_peak_bytes"] / MIB
            good &= holds(f"teacher {way}: peak predicted {peak:.0f}, measured {measured:.0f} MiB",
                          f"{peak - measured:+.1f} MiB", "-0 to +8 MiB or 1 %",
                          0 <= peak - measured <= max(8, peak / 100))
    print(f"what the teacher computes in a file: time of an update beside the student's alone "
          f"{min(seconds['kept']) / min(seconds['none']):.2f}; the file "
          f"{sum(file.stat().st_size for file in (work / 'cache').iterdir()) / MIB:.0f} MiB of 40 pages", flush=True)
    for bits, bar in TIMES.items():
        ratio = min(seconds[bits]) / min(seconds["none"])
        good &= holds(f"teacher in {bits} bits: time of an update beside the student's alone", f"{ratio:.2f}", bar,
                      ratio <= bar)
    return good


def f1_of(program, model, data):
    return json.loads(run(program, "eval", "--model", model, "--data", data, "--json").stdout)["f1"]


def gap(options, work):
    program = options.plimsoll
    tuning = draw(program, work / "tuning", 200, 2)
    held_out = draw(program, work / "held-out", options.held_out, 3)
    few = draw(program, work / "few", options.pages, 4)
    teacher = options.teacher or work / "teacher"
    if not teacher.exists():
        train = draw(program, work / "train", 2000, 1)
        run(program, "train", "--model", "layoutlmv3-small", "--data", train, "--num-train-epochs", 3,
            "--per-device-train-batch-size", 8, "--learning-rate", "1e-3", "--save-strategy", "no",
            "--output-dir", teacher)
    student = work / "student"
    if not student.exists():
        run(program, "init", "--model", teacher, "--num-hidden-layers", 3, "--output-dir", student)

    def trained(way, rate, seed):
        output = work / f"{way}-{rate}-{seed}"
        more = ["--distil-from", teacher, "--teacher-cache", work / "cache"] if way == "taught" else []
        if not output.exists():
            run(program, "train", "--model", student, "--data", few, "--max-steps", options.student_updates,
                "--per-device-train-batch-size", 8, "--learning-rate", rate, "--seed", seed, "--save-strategy", "no",
                "--cache", work / "images", *more, "--output-dir", output)
        return output

    of_teacher = f1_of(program, teacher, held_out)
    print(f"teacher: F1 {of_teacher:.4f}", flush=True)
    means = {}
    for way in ("plain", "taught"):
        scores = {rate: f1_of(program, trained(way, rate, 1), tuning) for rate in options.rates}
        best = max(scores, key=scores.get)
        found = [f1_of(program, trained(way, best, seed), held_out) for seed in (1, 2, 3)]
        means[way] = sum(found) / len(found)
        print(f"{way}: learning rate {best} of {scores}; F1 of three seeds {[round(f1, 4) for f1 in found]}, mean "
              f"{means[way]:.4f}", flush=True)
    before = of_teacher - means["plain"]
    good = holds("gap of the student that only sees labels to its teacher", f"{100 * before:.2f} points",
                 f"at least {100 * LEAST_GAP:.0f}", before >= LEAST_GAP)
    closed = (means["taught"] - means["plain"]) / before if before > 0 else 0
    good &= holds(f"share of it that the teacher closes (teacher {of_teacher:.4f})", f"{100 * closed:.0f} %", "50 %",
                  closed >= 0.5)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["cost", "gap"])
    parser.add_argument("--updates", type=int, default=8, help="of cost")
    parser.add_argument("--rounds", type=int, default=2, help="of cost")
    parser.add_argument("--pages", type=int, default=150, help="of gap, that the student is trained on")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--teacher", type=Path, help="of gap; default: one that is trained on 2,000 drawn pages")
    parser.add_argument("--student-updates", type=int, default=200)
    parser.add_argument("--rates", nargs="+", default=["2e-4", "3e-4", "5e-4"])
    parser.add_argument("--work", type=Path, help="keeps what was computed, and goes on with it; default: a folder that goes")
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    start, good = time.monotonic(), True
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("cost", cost), ("gap", gap)):
            if options.only in (None, name):
                work = (options.work or Path(folder)) / name
                work.mkdir(parents=True, exist_ok=True)
                good &= part(options, work)
    print(f"{time.monotonic() - start:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
