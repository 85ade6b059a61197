#!/usr/bin/env python3
"""Compares `plimsoll ocr` with the program `tesseract` on pictures whose words are known: what is read, and how fast.

  bench/ocr.py --data receipts/validation.jsonl [--pages 100] [--threads 2] [--rounds 3]

Prints for both the normalised edit distance to the given words (letters changed, added and left out, over the longer
text; 0 is perfect), the share of words found (as a bag), and pages per second; and of the two bars, words no worse and
speed, whether each holds. The two take turns on the same pages, with as many processes as threads; `tesseract` gets a
list of pictures for each process, so that it starts once. The speeds of a busy machine say little, their ratio within a
round more, and the ratio of the time that cores have worked most.

Needs the built program, `tesseract` (apt-get install tesseract-ocr), and Python's standard library.
"""

import argparse
import collections
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import PLIMSOLL, holds, run

SLOWEST = 0.9  # of tesseract's pages a second


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def read_by_plimsoll(options, pictures, folder):
    output = folder / "plimsoll.jsonl"
    run(options.plimsoll, "ocr", "--input", *pictures, "--output", output, "--threads", options.threads,
        "--language", options.language, *options.more)
    return [json.loads(line)["words"] for line in open(output, encoding="utf-8")]


def read_by_tesseract(options, pictures, folder):
    """Returns each picture's words, by as many processes as threads, each with every so manieth picture."""
    shares = [pictures[i::options.threads] for i in range(options.threads)]
    processes = []
    for number, share in enumerate(shares):
        (folder / f"{number}.txt").write_text("".join(f"{picture}\n" for picture in share))
        processes.append(subprocess.Popen(
            ["tesseract", str(folder / f"{number}.txt"), str(folder / f"{number}"), "-l", options.language, "tsv"],
            env={**os.environ, "OMP_THREAD_LIMIT": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    if any(process.wait() for process in processes):
        sys.exit("tesseract failed")
    words = {}
    for number, share in enumerate(shares):
        pages = collections.defaultdict(list)
        for line in open(folder / f"{number}.tsv", encoding="utf-8"):
            cells = line.rstrip("\n").split("\t")
            if cells[0] == "5" and cells[11].strip():
                pages[int(cells[1])].append(cells[11].strip())
        for index, picture in enumerate(share):
            words[picture] = pages[index + 1]
    return [words[picture] for picture in pictures]


def score(found, wanted):
    edits = letters = hits = words = 0
    distances = []
    for mine, given in zip(found, wanted):
        a, b = " ".join(mine), " ".join(given)
        distance = edit_distance(a, b)
        distances.append(distance / max(len(a), len(b), 1))
        edits, letters = edits + distance, letters + max(len(a), len(b))
        hits += sum((collections.Counter(mine) & collections.Counter(given)).values())
        words += len(given)
    return {"edit_distance": edits / letters, "mean_of_pages": statistics.mean(distances), "words_found": hits / words}


def core_seconds():
    """Returns the time that cores have worked for programs which this script started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="JSONL with image and words")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--language", default="eng")
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--more", nargs="*", default=[],
                        help="options for plimsoll ocr, without their dashes: page-layout=block")
    options = parser.parse_args()
    options.more = [f"--{name}" for name in options.more]
    pages = [json.loads(line) for line in open(options.data, encoding="utf-8")][:options.pages]
    pictures = [str((options.data.parent / page["image"]).resolve()) for page in pages]
    readers = {"plimsoll": read_by_plimsoll, "tesseract": read_by_tesseract}
    found, ratios, work = {}, [], []
    with tempfile.TemporaryDirectory() as name:
        for turn in range(options.rounds):
            seconds, cores = {}, {}
            for reader in sorted(readers, reverse=turn % 2 == 1):
                begin, before = time.perf_counter(), core_seconds()
                found[reader] = readers[reader](options, pictures, Path(name))
                seconds[reader], cores[reader] = time.perf_counter() - begin, core_seconds() - before
            ratios.append(seconds["tesseract"] / seconds["plimsoll"])
            work.append(cores["tesseract"] / cores["plimsoll"])
            print(f"round {turn + 1}: " + ", ".join(f"{reader} {len(pages) / seconds[reader]:.2f} pages/s"
                                                    for reader in readers)
                  + f", ratio {ratios[-1]:.2f} (by the cores' time {work[-1]:.2f})", flush=True)
    scores = {reader: score(found[reader], [page["words"] for page in pages]) for reader in readers}
    for reader, numbers in scores.items():
        print(f"{reader:10}", "  ".join(f"{name} {value:.4f}" for name, value in numbers.items()))
    speed, mine, its = statistics.median(ratios), *(scores[reader]["edit_distance"] for reader in readers)
    bars = [holds("edit distance", f"{mine:.4f}", f"at most tesseract's {its:.4f}", mine <= its),
            holds("pages/s, of tesseract's", f"{speed:.2f}", f"at least {SLOWEST}", speed >= SLOWEST)]
    print(f"(by the cores' time, which other programs disturb less: {statistics.median(work):.2f})")
    return 0 if all(bars) else 1


if __name__ == "__main__":
    sys.exit(main())
