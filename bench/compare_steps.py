#!/usr/bin/env python3
"""Measures a lever's effect on a training step's time: interleaved variants of `plimsoll bench-step`, as ratios to the first.

  bench/compare_steps.py precision [--batch 2]     fp32 against --bf16. Bar: 1.6 times as fast
  bench/compare_steps.py recompute [--batch 1]     bytes kept at the end of forward against extra time. Bar: the table in
                                                   KEPT, per page of base, S = 709
  bench/compare_steps.py builds --against PROGRAM  another build against this one, fp32 and bf16. Bar: this one is no slower
  bench/compare_steps.py concurrent [--batch 16]   on a GPU, bf16: products that overlap what follows, one, two … at once,
                                                   against each in its turn. Bar: the same losses, and one of them is faster
  bench/compare_steps.py batches [--batch 16]      on a GPU, bf16: neighbouring products at once against one by one. Bar: the
                                                   same losses, and faster

Each run is a separate process; the variants take turns (A B C A B C ...), so that a slow minute of the machine hits all;
the first step of a process warms up and is not counted. The ratio is the median over rounds of the rounds' ratios.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, holds, run

# The most MiB kept per page, and the most extra step time in percent.
KEPT = ((260, 2), (130, 12), (87, 17), (32, 27))
FASTER = 1.6
AT_ONCE = (1, 2, 4, 8)  # products that overlap others
ON_A_GPU = ("concurrent", "batches")
USUAL_PAGES = {"recompute": 1} | dict.fromkeys(ON_A_GPU, 16)


def tool(name, *arguments):
    subprocess.run([sys.executable, str(REPOSITORY / "tools" / name), *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("precision", "recompute", "builds", *ON_A_GPU))
    parser.add_argument("--against", type=Path)
    parser.add_argument("--shape", default="base", choices=("tiny", "small", "base", "large"))
    parser.add_argument("--batch", type=int, help="pages of the micro-batch (default: 2, recompute: 1, on a GPU 16)")
    parser.add_argument("--length", type=int, default=512, help="T, text tokens; the image adds 197")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="counted steps a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "bench")
    options = parser.parse_args()
    if (options.what == "builds") != (options.against is not None):
        parser.error("builds needs --against, and nothing else takes it")
    pages = options.batch or USUAL_PAGES.get(options.what, 2)
    model = options.work / f"{options.shape}-7-labels"
    if not (model / "config.json").exists():
        run(options.plimsoll, "init", "--model", f"layoutlmv3-{options.shape}", "--labels", "A,B,C,D,E,F,G", "--output-dir", model)
    batch = options.work / f"filled-{pages}x{options.length}.safetensors"
    tool("make_batch.py", "--batch", pages, "--length", options.length, "--labels", 7, "--fill", "--output", batch,
         *(["--synthetic"] if options.what in ON_A_GPU else []))
    if options.what == "concurrent":
        variants = [("each in its turn", [])] + [(f"{count} at once", ["--concurrent-products", count]) for count in AT_ONCE]
        return 0 if compare_on_gpu(options, model, batch, "products beside others", variants) else 1
    if options.what == "batches":
        variants = [("one by one", ["--single-products"]), ("neighbours at once", [])]
        return 0 if compare_on_gpu(options, model, batch, "neighbouring products at once", variants) else 1
    if options.what == "builds":
        return 0 if all([compare_builds(options, name, flags, model, batch)
                         for name, flags in (("fp32", []), ("bf16", ["--bf16"]))]) else 1
    if options.what == "precision":
        variants = [("fp32", []), ("bf16", ["--bf16"])]
    else:
        variants = [("all kept", ["--kept-activations", "all"])] + [(f"at most {kept} MiB a page", ["--kept-activations", f"{kept * pages}MiB"])
                                         for kept, _ in KEPT]

    rounds = []  # [round][variant]
    for _ in range(options.rounds):
        rounds.append([])
        for _, flags in variants:
            rounds[-1].append(timed(options, options.plimsoll, model, batch, flags))

    print(f"{options.shape}, {pages} page(s) of {options.length} text tokens, {options.threads} threads, {options.rounds} rounds of "
          f"{options.steps} steps, losses {'the same' if same_losses(rounds) else 'differ'}")
    print("| | kept a page | computed again, at most | step | against the first | from, to |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    good = True
    for index, (name, _) in enumerate(variants):
        ratios = [line[index]["seconds"] / line[0]["seconds"] for line in rounds]
        ratio, row = statistics.median(ratios), rounds[0][index]
        if index and options.what == "precision":
            fits = 1 / ratio >= FASTER
            shown = f"{1 / ratio:.2f} x as fast (bar {FASTER})"
        elif index:
            fits = ratio <= 1 + KEPT[index - 1][1] / 100 and row["kept_bytes"] <= KEPT[index - 1][0] * pages * MIB
            shown = f"{100 * (ratio - 1):+.1f} % (bar {KEPT[index - 1][1]} %)"
        else:
            fits, shown = True, ""
        good = good and fits
        print(f"| {name} | {row['kept_bytes'] / pages / MIB:.1f} MiB | {row['computed_again_bytes'] / pages / MIB:.1f} MiB | "
              f"{statistics.median(line[index]['seconds'] for line in rounds):.3f} s | {shown} | "
              f"{min(ratios):.2f}, {max(ratios):.2f} |")
    print("bar:", "holds" if good else "FAILS")
    return 0 if good else 1


def timed(options, program, model, batch, flags, warm=1):
    result = run(program, "bench-step", "--model", model, "--batch", batch, "--steps", options.steps + warm, "--threads",
                 options.threads, "--json", *flags)
    row = json.loads(result.stdout.strip().splitlines()[-1])
    row["seconds"] = statistics.median(row["step_seconds"][warm:])
    return row


def compare_builds(options, name, flags, model, batch):
    ratios = []
    for _ in range(options.rounds):
        before, now = (timed(options, program, model, batch, flags)["seconds"]
                       for program in (options.against, options.plimsoll))
        ratios.append(now / before)
    ratio = statistics.median(ratios)
    return holds(f"step in {name}, this build against the other", f"{ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
                 "no slower", ratio <= 1)


def compare_on_gpu(options, model, batch, what, variants):
    # The second step is recorded, and libraries settle in the first few.
    rounds = [[timed(options, options.plimsoll, model, batch, ["--device", "cuda", "--bf16", *flags], warm=4)
               for _, flags in variants] for _ in range(options.rounds)]
    best = 1.0
    for index, (name, _) in enumerate(variants):
        ratio = statistics.median(line[index]["seconds"] / line[0]["seconds"] for line in rounds)
        best = min(best, ratio)
        print(f"  {name}: {1000 * statistics.median(line[index]['seconds'] for line in rounds):.2f} ms, {ratio:.3f} of "
              f"the first, {rounds[0][index]['measured_peak_bytes'] / MIB:.0f} MiB")
    good = holds("losses", "the same" if same_losses(rounds) else "differ", "the same", same_losses(rounds))
    return holds(f"step, {options.shape}, {what}", f"{best:.3f}", "below 1", best < 1) & good


def same_losses(rounds):
    return all(row["losses"] == rounds[0][0]["losses"] for line in rounds for row in line)


if __name__ == "__main__":
    sys.exit(main())
