#!/usr/bin/env python3
"""Checks the parity bars: logits and gradients of `plimsoll grad` against transformers, for both head forms.

Makes two models of the base shape (7 labels, linear head, model.safetensors; 12 labels, MLP head, pytorch_model.bin
without name prefix), a batch of two padded receipts for each, runs both programs, prints a table. Exit 1 if a bar fails.

  tools/check_parity.py [--shape base] [--work build/parity]
  tools/check_parity.py --device cuda    both on the first GPU, without TF32
  tools/check_parity.py --bf16      both programs in bf16, each compared with transformers in float64

In bf16 the bar is: logits and gradients are no further from float64 than those of transformers in bf16 (model.bfloat16()).
What they are under autocast, which keeps what flows between layers in fp32, is printed as well.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import safetensors.torch

import compare_grad
import reference

HERE = Path(__file__).resolve().parent
CASES = (dict(labels=7, format="safetensors", prefix=True, first_page=0),
         dict(labels=12, format="bin", prefix=False, first_page=2))


def run(command):
    """Runs each half in its own process: memory and thread settings do not leak from one to the other."""
    completed = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}")


def distances(result, exact):
    """Returns (logits, their root mean square distance; gradients, their distance together over their length)."""
    logits = (result["logits"].double() - exact["logits"].double()).square().mean().sqrt()
    names = [name for name in exact if name not in ("loss", "logits")]
    error = sum(float((result[name].double() - exact[name].double()).square().sum()) for name in names)
    whole = sum(float(exact[name].double().square().sum()) for name in names)
    return float(logits), (error / whole) ** 0.5


def judge_bf16(ours, theirs, autocast, exact):
    """Prints the three distances from float64; rows of (what, ours, theirs, autocast's). Ours are to be no larger than
    theirs."""
    rows = []
    for what, mine, other, mixed in zip(("logits, root mean square", "gradients, relative L2"), distances(ours, exact),
                                        distances(theirs, exact), distances(autocast, exact)):
        rows.append((what, mine, other, f"under autocast {mixed:.3g}"))
        print(f"  {what:<26} plimsoll {mine:.3g}, transformers {other:.3g} (under autocast {mixed:.3g})  "
              f"{'ok' if mine <= other else 'FAIL'}")
    return rows


def report_of(name, rows):
    return {"case": name, "rows": [dict(zip(("what", "measured", "bar", "where"), row)) for row in rows]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=("tiny", "small", "base", "large"), default="base")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--synthetic", action="store_true", help="random tokens and boxes, without ../shared")
    parser.add_argument("--float64", action="store_true", help="the reference in float64 (twice the memory)")
    parser.add_argument("--bf16", action="store_true", help="compare what bf16 costs the two programs")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    parser.add_argument("--work", type=Path, default=reference.REPOSITORY / "build" / "parity")
    parser.add_argument("--json", type=Path, help="write the rows here too")
    options = parser.parse_args()
    good, report, device = True, [], ["--device", options.device]
    for case in CASES:
        name = f"{options.shape}-{case['labels']}-labels"
        model, batch = options.work / name, options.work / f"{name}-batch.safetensors"
        ours, theirs = options.work / f"{name}-plimsoll.safetensors", options.work / f"{name}-reference.safetensors"
        run([sys.executable, HERE / "make_model.py", "--shape", options.shape, "--labels", case["labels"],
             "--format", case["format"], "--output", model] + ([] if case["prefix"] else ["--no-prefix"]))
        run([sys.executable, HERE / "make_batch.py", "--batch", options.batch, "--length", options.length,
             "--labels", case["labels"], "--first-page", case["first_page"], "--output", batch]
            + (["--synthetic"] if options.synthetic else []))
        run([sys.executable, HERE / "reference_grad.py", "--model", model, "--batch", batch, "--output", theirs]
            + device + (["--precision", "float64"] if options.float64 or options.bf16 else []))
        run([options.plimsoll, "grad", "--model", model, "--batch", batch, "--output", ours]
            + (device if options.device == "cuda" else []) + (["--bf16"] if options.bf16 else []))
        if options.bf16:
            halves = []
            for precision in ("bfloat16", "autocast"):
                halves.append(options.work / f"{name}-reference-{precision}.safetensors")
                run([sys.executable, HERE / "reference_grad.py", "--model", model, "--batch", batch, "--output", halves[-1],
                     "--precision", precision] + device)
            print(f"{options.shape}, {case['labels']} labels, batch {options.batch}, T = {options.length}, bf16, distances "
                  "from float64:")
            rows = judge_bf16(*(safetensors.torch.load_file(path) for path in (ours, *halves, theirs)))
            good = good and all(row[1] <= row[2] for row in rows)
            report.append(report_of(name, rows))
            continue
        rows, _ = compare_grad.compare(safetensors.torch.load_file(ours), safetensors.torch.load_file(theirs))
        head = "linear" if case["labels"] < 10 else "MLP"
        print(f"{options.shape}, {case['labels']} labels ({head} head), {case['format']}, batch {options.batch}, "
              f"T = {options.length}, against transformers {reference.transformers.__version__} "
              f"{'float64' if options.float64 else 'float32'}:")
        good = compare_grad.print_rows(rows) and good
        report.append(report_of(name, rows))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
