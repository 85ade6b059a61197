#!/usr/bin/env python3
"""Measures how a step's time grows with the length of pages and shrinks with threads, and compares it with the arithmetic.

For each length T (text tokens; the image adds 197) a batch without padding; all lengths and thread counts take turns in
every round. The arithmetic: a step multiplies 6 P n + 12 L n S D floating-point numbers for n rows (P weights of the
encoder's matrices, L layers of width D, S = T + 197 rows a page); its line runs through the time of the longest page, so
that a point below the line is faster than arithmetic alone explains.

  bench/scaling.py [--lengths 64 128 256 384 512] [--threads 1 2] [--bf16] [--rounds 3]

Writes a table and one SVG chart. Bar: no length takes over 1.15 times its share (what a short page can't share out, the
update above all, is measured at T = 64 and allowed for), and two threads are at least 1.6 times as fast as one.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from program import PLIMSOLL, REPOSITORY, run

VISUAL = 197
SHAPES = {"base": (768, 12, 3072), "large": (1024, 24, 4096)}  # width, layers, inner width


def make(script, *arguments):
    subprocess.run([sys.executable, str(REPOSITORY / "tools" / script), *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL)


def arithmetic(pages, length, shape="base"):
    """Returns the floating-point operations of one step's products, forward and backward."""
    width, layers, inner = SHAPES[shape]
    rows, sequence = pages * (length + VISUAL), length + VISUAL
    weights = layers * (4 * width * width + 2 * width * inner)
    return 6 * weights * rows + 12 * layers * rows * sequence * width


def expected(options, times, threads):
    """Returns {length: seconds} by arithmetic, with the constant part that the shortest and the longest page leave."""
    short, long = options.lengths[0], options.lengths[-1]
    work = {length: arithmetic(options.batch_size, length) for length in options.lengths}
    rate = (times[threads, long] - times[threads, short]) / (work[long] - work[short])
    constant = max(0.0, times[threads, long] - rate * work[long])
    rate = (times[threads, long] - constant) / work[long]
    return {length: constant + rate * work[length] for length in options.lengths}, constant


def chart(options, times, theory, path):
    width, height, left, top = 560, 320, 60, 20
    most = max(times.values()) * 1.05
    colors = ["#222222", "#1f6f8b", "#c2571a", "#5b8c2a"]

    def place(length, seconds):
        return f"{left + width * length / options.lengths[-1]:.1f},{top + height * (1 - seconds / most):.1f}"

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {top + height + 50}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for i in range(6):
        y = top + height * (1 - i / 5)
        svg.append(f'<line x1="{left}" y1="{y:.0f}" x2="{left + width}" y2="{y:.0f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{most * i / 5:.1f} s</text>')
    for length in options.lengths:
        x = left + width * length / options.lengths[-1]
        svg.append(f'<text x="{x:.0f}" y="{top + height + 16}" text-anchor="middle">{length}</text>')
    for index, threads in enumerate(options.threads):
        color = colors[index % len(colors)]
        line = " ".join(place(length, theory[threads][length]) for length in options.lengths)
        svg.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-dasharray="4 3"/>')
        for length in options.lengths:
            x, y = place(length, times[threads, length]).split(",")
            svg.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{color}"/>')
        svg.append(f'<text x="{left + 12}" y="{top + 16 * (index + 1)}" fill="{color}">{threads} thread(s): '
                   'measured (points), by arithmetic (line)</text>')
    svg.append(f'<text x="{left + width / 2:.0f}" y="{top + height + 38}" text-anchor="middle">text tokens a page '
               f'(the image adds {VISUAL}); seconds a step of {options.batch_size} pages</text></svg>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(svg) + "\n")
    print(f"written: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 384, 512])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "bench")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    options.lengths.sort()
    model = options.work / "base-7-labels"
    if not (model / "config.json").exists():
        make("make_model.py", "--shape", "base", "--labels", 7, "--output", model)
    batches = {}
    for length in options.lengths:
        batches[length] = options.work / f"filled-{options.batch_size}x{length}.safetensors"
        make("make_batch.py", "--batch", options.batch_size, "--length", length, "--labels", 7, "--fill", "--output",
             batches[length])
    seconds = {(threads, length): [] for threads in options.threads for length in options.lengths}
    for _ in range(options.rounds):
        for threads, length in seconds:
            result = run(options.plimsoll, "bench-step", "--model", model, "--batch", batches[length], "--steps",
                         options.steps + 1, "--threads", threads, "--json", *(["--bf16"] if options.bf16 else []))
            seconds[threads, length] += json.loads(result.stdout)["step_seconds"][1:]
    # The fastest time counts, because other users of the machine only add time.
    times = {key: min(values) for key, values in seconds.items()}
    theory, holds = {}, True
    print("| threads | text tokens | step, s | by arithmetic, s | over it |\n| ---: | ---: | ---: | ---: | ---: |")
    for threads in options.threads:
        theory[threads], constant = expected(options, times, threads)
        for length in options.lengths:
            share = times[threads, length] / theory[threads][length]
            holds = holds and share <= 1.15
            print(f"| {threads} | {length} | {times[threads, length]:.3f} | {theory[threads][length]:.3f} | {share:.2f} |")
        print(f"  {threads} threads: {constant:.3f} s a step do not depend on the pages")
    if {1, 2} <= set(options.threads):
        speedup = statistics.median(times[1, length] / times[2, length] for length in options.lengths)
        holds = holds and speedup >= 1.6
        print(f"two threads are {speedup:.2f} times as fast as one")
    chart(options, times, theory, options.svg or options.work / f"scaling-{'bf16' if options.bf16 else 'fp32'}.svg")
    print("bar: at most 1.15 times the arithmetic's share, two threads at least 1.6 times as fast:",
          "holds" if holds else "FAILS")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
