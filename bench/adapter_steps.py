#!/usr/bin/env python3
"""Measures a step of adapters, on weights that are whole, in 8 and in 4 bits, beside a step of full fine-tuning.

  bench/adapter_steps.py [--shapes tiny small base] [--pages 2] [--length 512] [--rounds 5]

Each run is a process of `plimsoll bench-step`; the variants take turns, so that a slow minute of the machine hits all,
and the first step of a process is not counted. With one thread (--threads 1) the time is the processor's, which other
programs disturb less. A ratio is the median over rounds of the rounds' ratios. Models and batches are made here, of
random numbers; Python's standard library is enough.
"""

import argparse
import json
import random
import resource
import statistics
import struct
import sys
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, run

LORA = ["--lora-rank", "8"]
VARIANTS = (("everything", []), ("adapters", LORA), ("on 8 bits", [*LORA, "--load-in-8bit"]),
            ("on 4 bits", [*LORA, "--load-in-4bit"]))
LABELS, WORDS = 7, 8000  # of the smallest vocabulary


def write_batch(path, pages, length):
    """Writes full pages of random words, boxes, labels and pixels as safetensors."""
    draw = random.Random(1)
    tokens = pages * length

    def box():
        x, y = draw.randrange(900), draw.randrange(900)
        return x, y, x + draw.randrange(100), y + draw.randrange(100)

    pixels = 3 * 224 * 224
    arrays = {"input_ids": ("I64", [pages, length], [draw.randrange(3, WORDS) for _ in range(tokens)]),
              "bbox": ("I64", [pages, length, 4], [edge for _ in range(tokens) for edge in box()]),
              "attention_mask": ("I64", [pages, length], [1] * tokens),
              "labels": ("I64", [pages, length], [draw.randrange(LABELS) for _ in range(tokens)]),
              "pixel_values": ("F32", [pages, 3, 224, 224], [draw.uniform(-1, 1) for _ in range(pages * pixels)])}
    header, data = {}, b""
    for name, (dtype, shape, values) in arrays.items():
        packed = struct.pack(f"<{len(values)}{'q' if dtype == 'I64' else 'f'}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def measure(options, model, batch, flags):
    def steps(count):
        """What the program reports of so many steps, and its processor time."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = run(options.plimsoll, "bench-step", "--model", model, "--batch", batch, "--steps", count, "--threads",
                     options.threads, "--json", *flags)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return json.loads(result.stdout.strip().splitlines()[-1]), seconds

    row, seconds = steps(options.steps + 1)
    if options.threads == 1:
        row["seconds"] = (seconds - steps(1)[1]) / options.steps
    else:
        row["seconds"] = statistics.median(row["step_seconds"][1:])
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["tiny", "small", "base"])
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--pages", type=int, default=2, help="pages of the micro-batch")
    parser.add_argument("--length", type=int, default=512, help="text tokens of a page; the image adds 197")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="counted steps a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "bench")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    batch = options.work / f"random-{options.pages}x{options.length}.safetensors"
    if not batch.exists():
        write_batch(batch, options.pages, options.length)

    print(f"{options.pages} page(s) of {options.length} text tokens, {options.threads} threads, {options.rounds} rounds of "
          f"{options.steps} steps; a step over that of full fine-tuning (lowest to highest), and the measured peak")
    print("| model | precision | everything, s | " + " | ".join(name for name, _ in VARIANTS[1:]) + " |")
    print("| --- | --- | ---: |" + " ---: |" * (len(VARIANTS) - 1))
    for shape in options.shapes:
        model = options.work / f"layoutlmv3-{shape}"
        if not (model / "config.json").exists():
            labels = ",".join(f"L{i}" for i in range(LABELS))
            run(options.plimsoll, "init", "--model", f"layoutlmv3-{shape}", "--labels", labels, "--output-dir", model)
        for precision in options.precisions:
            flags = [] if precision == "fp32" else ["--bf16"]
            rounds = [[measure(options, model, batch, flags + more) for _, more in VARIANTS]
                      for _ in range(options.rounds)]
            cells = []
            for index in range(1, len(VARIANTS)):
                ratios = [line[index]["seconds"] / line[0]["seconds"] for line in rounds]
                cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
                             f"{rounds[0][index]['measured_peak_bytes'] / MIB:.0f} MiB")
            whole = statistics.median(line[0]["seconds"] for line in rounds)
            print(f"| {shape} | {precision} | {whole:.3f} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
