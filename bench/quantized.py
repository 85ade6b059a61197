#!/usr/bin/env python3
"""Predicts with weights in 8 and 4 bits beside F32: how often the labels agree, of a model that is trained here, and
what the peak and the time of a model of base's shape become.

  bench/quantized.py [--data train.jsonl --eval-data validation.jsonl] [--updates 250] [--pages 40]

Without --data both are drawn receipts (`plimsoll synth`). Exit status 1 if a bar is missed.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from program import MIB, PLIMSOLL, holds, run

# Share of labels that agree; peak, as a part of F32's with the whole word embedding; seconds a page, as a part of F32's.
BARS = {"8": {"agree": 0.995, "peak": 0.35, "time": 0.7}, "4": {"agree": 0.98, "peak": 0.25, "time": 1.0}}


def first_pages(source, count, target):
    """Writes the first pages of a file, with images that are found from there."""
    lines = source.read_text(encoding="utf-8").splitlines()[:count]
    with target.open("w", encoding="utf-8") as out:
        for line in lines:
            page = json.loads(line)
            if "image" in page:
                page["image"] = str((source.parent / page["image"]).resolve())
            out.write(json.dumps(page) + "\n")


def compared(program, model, data, bits, *options):
    return json.loads(run(program, "compare", model, model, f"--load-in-{bits}bit", "--data", data, "--truncate",
                          "--json", *options).stdout)


def bytes_left_out(program, model, data):
    """Returns the bytes in F32 of the word embedding's rows that are not in memory, because the data has no such token."""
    config = json.loads((model / "config.json").read_text())
    rows = json.loads(run(program, "plan", "--model", model, "--data", data, "--truncate", "--json").stdout)["word_rows"]
    return 0 if rows is None else 4 * (config["vocab_size"] - rows) * config["hidden_size"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--eval-data", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="of --data; default: the presets' own")
    parser.add_argument("--updates", type=int, default=250)
    parser.add_argument("--pages", type=int, default=40, help="that are timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data, held_out = options.data, options.eval_data
        if data is None:
            for name, seed in (("train", 1), ("held-out", 2)):
                run(options.plimsoll, "synth", "--count", 400, "--seed", seed, "--validation-fraction", 0, "--output", work / name)
            data, held_out = work / "train" / "train.jsonl", work / "held-out" / "train.jsonl"
        tokenizer = [] if options.tokenizer is None else ["--tokenizer", options.tokenizer]
        run(options.plimsoll, "train", "--model", "layoutlmv3-small", *tokenizer, "--data", data, "--truncate",
            "--max-steps", options.updates, "--per-device-train-batch-size", 8, "--learning-rate", "3e-4",
            "--output-dir", work / "trained")
        pages = work / "pages.jsonl"
        first_pages(held_out, options.pages, pages)
        labels = json.loads((work / "trained" / "config.json").read_text())["id2label"]
        run(options.plimsoll, "init", "--model", "layoutlmv3-base", *tokenizer, "--labels",
            ",".join(labels[key] for key in sorted(labels, key=int)), "--output-dir", work / "base")
        good = True
        for bits, bars in BARS.items():
            found = compared(options.plimsoll, work / "trained", held_out, bits, "--rounds", 1)
            good &= holds(f"{bits} bits: labels of {found['pages']} pages that agree (F1 {found['a']['metrics']['f1']:.3f} "
                          f"and {found['b']['metrics']['f1']:.3f})", f"{100 * found['agreement']:.2f} %",
                          f"{100 * bars['agree']} %", found["agreement"] >= bars["agree"])
            shape = compared(options.plimsoll, work / "base", pages, bits, "--rounds", options.rounds,
                             "--per-device-eval-batch-size", 1)
            a, b = shape["a"], shape["b"]
            whole = a["predicted_peak_bytes"] + bytes_left_out(options.plimsoll, work / "base", pages)
            peak = b["predicted_peak_bytes"] / whole
            good &= holds(f"{bits} bits: peak of base, a page at a time, {b['predicted_peak_bytes'] / MIB:.0f} MiB, F32's "
                          f"{a['predicted_peak_bytes'] / MIB:.0f}, with the whole word embedding {whole / MIB:.0f}",
                          f"{peak:.3f}", bars["peak"], peak <= bars["peak"])
            time = b["seconds_per_page"] / a["seconds_per_page"]
            good &= holds(f"{bits} bits: time of base, {b['seconds_per_page']:.3f} of {a['seconds_per_page']:.3f} s a page",
                          f"{time:.2f}", bars["time"], time <= bars["time"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
