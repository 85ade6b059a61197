#!/usr/bin/env python3
"""Prints what a step on a GPU is made of, by the model of `plimsoll plan --gpu`: nothing is measured here, but the rates
that the model takes for granted were, on an H200 (docs/speed.md).

  bench/gpu_model.py [--gpu h200] [--batches 16 4]

The step is that of layoutlmv3-base in bf16, every page with 512 text tokens and 197 visual ones. Lines with a bar say
whether it holds; the exit status is 1 if one is missed. --kernels N lists the N kernels that take longest.
"""

import argparse
import collections
import json
import re
import sys
import tempfile
from pathlib import Path

from program import PLIMSOLL, REPOSITORY, holds, run

LAYERS = 12
MODELLED_MS, STARTS, LAYER_GB, FORWARD_INSTRUCTIONS, BACKWARD_INSTRUCTIONS = 19.6, 450, 0.7, 20, 55
OUTSIDE = ("element-wise and rows", "normalisation", "sums and norm")
ROW_KERNELS = ("map", "affine", "gelu_backward", "layer_norm", "layer_norm_backward", "layer_norm_whole_sums",
               "column_partial_sums", "column_whole_sums", "attention_column_sums")
NORM_KERNELS = ("partial_squares", "whole_squares", "add_squares", "gradient_norm")


def instructions():
    text = (REPOSITORY / "src" / "backend" / "cuda" / "sizes" / "instructions.inc").read_text(encoding="utf-8")
    return {name: float(number) for number, name in re.findall(r"([\d.]+),\s+// (\w+)", text)}


def model_of(options, data, batch):
    labels = "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,I-DATE,B-TOTAL,I-TOTAL"
    result = run(options.plimsoll, "plan", "--model", "layoutlmv3-base", "--labels", labels, "--data", data,
                 "--per-device-train-batch-size", batch, "--max-steps", 1, "--bf16", "--pad-to-max-length", "--gpu",
                 options.gpu, "--explain", "--json")
    return json.loads(result.stdout)["gpu_model"]


def show(model, batch, options):
    together = model["together"]
    print(f"{options.gpu}, {batch} pages, modelled:")
    print(f"  {'':<24}{'starts':>8}{'TFLOP':>10}{'GB':>9}{'ms':>9}")
    for name, kind in [*model["kinds"].items(), ("together", together)]:
        print(f"  {name:<24}{kind['starts']:>8}{1e-12 * kind['flops']:>10.3f}{1e-9 * kind['bytes']:>9.2f}"
              f"{1e3 * kind['seconds']:>9.2f}")
    if not options.kernels:
        return
    sums = collections.defaultdict(lambda: [0, 0.0, 0.0, ""])
    for program in model["programs"]:
        for kernel in program["kernels"]:
            node = re.sub(r"layer\.\d+", "layer", kernel["node"])
            name = f"{kernel['kernel']} ({node})"
            each = sums[name]
            each[0] += program["runs"] * kernel["starts"]
            each[1] += program["runs"] * kernel["seconds"]
            each[2] += program["runs"] * kernel["bytes"]
            each[3] = kernel["limit"]
    for name, (starts, seconds, size, limit) in sorted(sums.items(), key=lambda item: -item[1][1])[:options.kernels]:
        print(f"  {1e3 * seconds:>8.3f} ms{starts:>5} starts{1e-9 * size:>8.2f} GB  {limit:<13}{name}")


def judge(model, batch, options):
    together = model["together"]
    seconds, starts = together["seconds"], together["starts"]
    half = model["assumed"]["half_flops"]
    # Attention's gradient needs five products where forward has two, however many the kernels make.
    required = model["kinds"]["matrix products"]["flops"] + 3.5 * model["kinds"]["attention"]["flops"]
    share = required / seconds / half
    if batch != 16:
        return holds(f"{batch} pages, modelled: share of the matrix rate", f"{100 * share:.1f} %", "at least 40 %",
                     share >= 0.40)
    good = holds("modelled step", f"{1e3 * seconds:.1f} ms, {100 * share:.1f} % of the matrix rate",
                 f"{MODELLED_MS} ms", 1e3 * seconds <= MODELLED_MS)
    good &= holds("starts of kernels", starts, f"at most {STARTS}", starts <= STARTS)
    kernels = [(program["runs"] * kernel["bytes"], kernel) for program in model["programs"]
               for kernel in program["kernels"]]
    own = sum(size for size, kernel in kernels
              if (".encoder.layer." in kernel["node"] and kernel["kernel"] in ROW_KERNELS)
              or kernel["kernel"] == "add_partial_sums")
    norm = sum(size for size, kernel in kernels if kernel["kernel"] in NORM_KERNELS)
    rest = sum(model["kinds"][name]["bytes"] for name in OUTSIDE) - own - norm
    of_layer = (own + norm) / LAYERS / 1e9
    good &= holds("device memory outside products and attention, a layer", f"{of_layer:.2f} GB", f"at most {LAYER_GB}",
                  of_layer <= LAYER_GB)
    print(f"of this the norm of all gradients: {norm / LAYERS / 1e9:.2f} GB; beside the layers, for embeddings and "
          f"head: {rest / 1e9:.2f} GB a step")
    counts = instructions()
    forward, backward = counts["kGroupScores"], counts["kGroupScoresGrad"]
    good &= holds("attention's instructions a score, forward", f"{forward:.1f}", f"at most {FORWARD_INSTRUCTIONS}",
                  forward <= FORWARD_INSTRUCTIONS)
    good &= holds("attention's instructions a score, backward", f"{backward:.1f}", f"at most {BACKWARD_INSTRUCTIONS}",
                  backward <= BACKWARD_INSTRUCTIONS)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--batches", nargs="+", type=int, default=[16, 4])
    parser.add_argument("--kernels", type=int, default=0)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        run(options.plimsoll, "synth", "--count", 32, "--seed", 1, "--validation-fraction", 0, "--output", folder)
        for batch in options.batches:
            model = model_of(options, Path(folder) / "train.jsonl", batch)
            show(model, batch, options)
            if options.gpu == "h200":
                good &= judge(model, batch, options)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
