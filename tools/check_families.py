#!/usr/bin/env python3
"""Checks every family's logits and gradients of `plimsoll grad` against transformers, for each task that both have.

  tools/check_families.py [--families bert,roberta] [--tasks single-label] [--shape base] [--work build/families]
  tools/check_families.py --device cuda      ours on the first GPU

Models have random weights of which none is 0 or 1, and padded pages; transformers computes in float64. The bars are
those of LayoutLMv3 (tools/compare_grad.py). Prints a table a case; exit 1 if a bar fails.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file

import compare_grad
import families
import reference


def compare(family, task, folder, options):
    shape = options.shape
    model = families.make_model(family, shape, labels=7, seed=7, task=task)
    lengths = (101, 60, 83, 44, 97, 12) if task.startswith("pair-") else (101, 60, 83)
    batch = families.make_batch(model.config, lengths=lengths, length=101, seed=8, task=task)
    model.save_pretrained(folder / "model")
    reference.write_tensors(batch, folder / "batch.safetensors")
    command = [options.plimsoll, "grad", "--model", folder / "model", "--batch", folder / "batch.safetensors", "--output",
               folder / "out.safetensors", "--device", options.device]
    completed = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}")
    rows, errors = compare_grad.compare(load_file(folder / "out.safetensors"),
                                        reference.loss_and_gradients(model.double(), families.exact(batch)))
    print(f"{family}, {task}, {shape}")
    compare_grad.print_rows(rows)
    print(f"    worst gradient {errors[0][0]:.3g}  {errors[0][1]}", flush=True)
    return {"case": f"{family}, {task}", "rows": [dict(zip(("what", "measured", "bar", "where"), row)) for row in rows]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(families.FAMILIES))
    parser.add_argument("--tasks", default=",".join(families.TASKS))
    parser.add_argument("--shape", default="small", choices=families.SHAPES)
    parser.add_argument("--work", default="build/families", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="writes all rows")
    options = parser.parse_args()
    report = []
    for family in options.families.split(","):
        for task in options.tasks.split(","):
            if not families.has_task(family, task):
                continue
            folder = options.work / family / task
            folder.mkdir(parents=True, exist_ok=True)
            report.append(compare(family, task, folder, options))
    if options.json:
        options.json.write_text(json.dumps(report) + "\n", encoding="utf-8")
    sys.exit(0 if all(row["measured"] <= row["bar"] for case in report for row in case["rows"]) else 1)


if __name__ == "__main__":
    main()
