#!/usr/bin/env python3
"""What memory buys: time of an update against peak resident set, PyTorch with every saving beside Plimsoll's plans.

PyTorch 2.13 with transformers trains LayoutLMv3 by each of the means that save memory on a CPU: a page at a time with
accumulation, weights in bfloat16, torchao's 8-bit AdamW, PEFT adapters, jemalloc, torch.compile with
activation_memory_budget at five values, of weights in either precision (and Intel's extension, in an environment of its own: --ipex-python). Plimsoll runs
at four budgets of `plan --sweep` in each of its forms. All take turns in every round; a process counts its steps after a
warm-up; peaks are the kernel's figure for the process (getrusage), the largest over the rounds; times are medians.

  bench/frontier.py [--rounds 3] [--steps 2] [--shape base] [--only full adapters] [--skip bf16] [--ipex-python PATH]
  bench/frontier.py --draw        draws the chart again from the last figures

Needs .venv (tools/setup_venv.sh) with torchao (pip install torchao), and libjemalloc2.

An update is four pages of 709 rows (512 text tokens, no padding, and 197 of the image), clipped, AdamW. Full fine-tuning
is compared with full fine-tuning, adapters of rank 8 with adapters. Bars: at the peak of each of PyTorch's programs
Plimsoll takes at most 0.6 of its time within that memory, and Plimsoll's smallest full fine-tuning takes at most 0.4 of
the memory of PyTorch's smallest. Writes bench/out/frontier.json, a table, and docs/charts/frontier.svg.
"""

import argparse
import hashlib
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, run

sys.path.insert(0, str(REPOSITORY / "tools"))

LARGEST_TIME, LARGEST_PEAK = 0.6, 0.4
PAGES, LENGTH, LABELS = 4, 512, 7
BUDGETS_OF_COMPILE = (1.0, 0.75, 0.5, 0.25, 0.0)

# name: (class, micro-batch, dtype of weights ("autocast": fp32, under torch.autocast to bfloat16), optimizer, adapters, allocator, compile budget)
PYTORCH = {
    "eager": ("full", 4, "fp32", "adamw", False, None, None),
    "eager, 1 x 4": ("full", 1, "fp32", "adamw", False, None, None),
    "eager, 1 x 4, jemalloc": ("full", 1, "fp32", "adamw", False, "jemalloc", None),
    "eager, 1 x 4, 8-bit AdamW": ("full", 1, "fp32", "8bit", False, "jemalloc", None),
    "bf16 weights": ("full", 4, "bf16", "adamw", False, "jemalloc", None),
    "bf16 weights, 1 x 4": ("full", 1, "bf16", "adamw", False, "jemalloc", None),
    "bf16 weights, 1 x 4, 8-bit AdamW": ("full", 1, "bf16", "8bit", False, "jemalloc", None),
    **{f"compile, budget {budget:g}": ("full", 4, "fp32", "adamw", False, "jemalloc", budget)
       for budget in BUDGETS_OF_COMPILE},
    "compile, budget 0, 1 x 4": ("full", 1, "fp32", "adamw", False, "jemalloc", 0.0),
    **{f"bf16 weights, compile, budget {budget:g}": ("full", 4, "bf16", "adamw", False, "jemalloc", budget)
       for budget in BUDGETS_OF_COMPILE},
    "bf16 weights, compile, budget 0, 1 x 4, 8-bit AdamW": ("full", 1, "bf16", "8bit", False, "jemalloc", 0.0),
    "bf16 autocast, compile, budget 1": ("full", 4, "autocast", "adamw", False, "jemalloc", 1.0),
    "adapters": ("adapters", 4, "fp32", "adamw", True, "jemalloc", None),
    "adapters, 1 x 4": ("adapters", 1, "fp32", "adamw", True, "jemalloc", None),
    "adapters, bf16 weights, 1 x 4": ("adapters", 1, "bf16", "adamw", True, "jemalloc", None),
    "adapters, bf16 weights, compile, budget 0, 1 x 4": ("adapters", 1, "bf16", "adamw", True, "jemalloc", 0.0),
}
# name: (class, options of train)
OURS = {
    "AdamW": ("full", []),
    "--bf16": ("full", ["--bf16"]),
    "--optim adamw_8bit": ("full", ["--optim", "adamw_8bit"]),
    "--max-grad-norm 0 --offload": ("full", ["--max-grad-norm", "0", "--offload", "WORK"]),
    "--bf16 --max-grad-norm 0 --offload": ("full", ["--bf16", "--max-grad-norm", "0", "--offload", "WORK"]),
    "--lora-rank 8": ("adapters", ["--lora-rank", "8"]),
    "--lora-rank 8 --load-in-4bit": ("adapters", ["--lora-rank", "8", "--load-in-4bit"]),
}


def pytorch_worker(options):
    import torch

    import reference

    _, micro, dtype, optimizer, adapters, _, budget = PYTORCH[options.worker]
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if budget is not None:
        import torch._functorch.config

        torch._functorch.config.activation_memory_budget = budget
    model = reference.load_model(options.model).to(getattr(torch, "bfloat16" if dtype == "bf16" else "float32")).train()
    if adapters:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(
            r=8, lora_alpha=16, modules_to_save=["classifier"],
            target_modules=["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"]))
    groups = [{**group, "params": [p for p in group["params"] if p.requires_grad]}
              for group in reference.parameter_groups(model, 0.01)]
    if optimizer == "8bit":
        from torchao.optim import AdamW8bit

        step = AdamW8bit(groups, lr=1e-5)
    else:
        step = torch.optim.AdamW(groups, lr=1e-5, fused=True)
    if options.ipex:
        import intel_extension_for_pytorch as ipex

        model, step = ipex.optimize(model, optimizer=step, dtype=getattr(torch, "bfloat16" if dtype == "bf16" else "float32"))
    called = torch.compile(model) if budget is not None else model
    whole = reference.read_batch(options.batch, dtype=next(model.parameters()).dtype)
    pages = len(whole["input_ids"])
    batches = [{name: value[i:i + micro] for name, value in whole.items()} for i in range(0, pages, micro)]
    seconds = []
    for _ in range(options.warm + options.steps):
        begin = time.perf_counter()
        step.zero_grad(set_to_none=True)
        for batch in batches:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "autocast"):
                loss = called(**batch).loss
            (loss * len(batch["input_ids"]) / pages).backward()
        torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], 1.0)
        step.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds[options.warm:], "versions": reference.versions()}))


def measured(command, environment):
    """(the last line's JSON, peak resident bytes); None where the program failed, with its words."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0)
        errors.seek(0)
        if os.waitstatus_to_exitcode(status) != 0:
            words = errors.read().strip()
            print(f"  failed: {' '.join(map(str, command))}\n  {words[:600]}\n  ...\n  {words[-600:]}", file=sys.stderr,
                  flush=True)
            return None, 0
        return output.read().strip(), usage.ru_maxrss * 1024


def run_pytorch(options, name, model, batch):
    from compare_pytorch import JEMALLOC

    form = PYTORCH[name]
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    if form[5] == "jemalloc":
        environment["LD_PRELOAD"] = str(JEMALLOC)
        environment["MALLOC_CONF"] = "background_thread:true,metadata_thp:auto,dirty_decay_ms:1000,muzzy_decay_ms:1000"
    compiled = form[6] is not None
    python = [options.ipex_python, __file__, "--ipex"] if options.ipex_now else [sys.executable, __file__]
    text, peak = measured([*python, "--worker", name, "--model", model, "--batch", batch, "--steps", options.steps,
                           "--warm", 2 if compiled else 1, "--threads", options.threads], environment)
    return None if text is None else {"seconds": statistics.median(json.loads(text.splitlines()[-1])["seconds"]), "peak": peak}


def train_arguments(options, extra, budget):
    extra = [str(options.work) if word == "WORK" else word for word in extra]
    return ["--model", options.work / f"preset-{options.shape}", "--data", options.work / "full-pages" / "words.jsonl", "--max-length",
            LENGTH, "--train-batch-size", PAGES, "--threads", options.threads, *extra,
            *(["--budget", budget] if budget else [])]


def run_ours(options, extra, budget):
    output = options.work / "run"
    shutil.rmtree(output, ignore_errors=True)
    text, peak = measured([options.plimsoll, "train", *train_arguments(options, extra, f"{budget // MIB}MiB"),
                           "--max-steps", options.steps + 1, "--logging-steps", 1, "--save-steps", 0, "--output-dir", output],
                          dict(os.environ))
    if text is None:
        return None
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    times = [PAGES / line["pages_per_second"] for line in lines if "pages_per_second" in line]
    shutil.rmtree(output, ignore_errors=True)
    return {"seconds": statistics.median(times[1:]), "peak": peak, "budget": budget}


def budgets(options, extra):
    """Four of the sweep's: the smallest, the largest, and two between."""
    result = run(options.plimsoll, "plan", *train_arguments(options, extra, None), "--sweep", "--points", 12, "--json")
    swept = {plan["predicted_peak_bytes"]: plan["budget_bytes"] for plan in json.loads(result.stdout)["sweep"]}
    named = [swept[needed] for needed in sorted(swept)]
    return [named[round(i * (len(named) - 1) / 3)] for i in range(4)]


def frontier(points):
    """The points that no other beats in both."""
    best, kept = float("inf"), []
    for point in sorted(points, key=lambda point: (point["peak"], point["seconds"])):
        if point["seconds"] < best:
            best = point["seconds"]
            kept.append(point)
    return kept


def judge(rows):
    """Prints each comparison; whether every bar holds."""
    holds = True
    for kind in ("full", "adapters"):
        theirs = [row for row in rows if row["class"] == kind and row["program"] == "pytorch"]
        ours = [row for row in rows if row["class"] == kind and row["program"] == "plimsoll"]
        if not theirs or not ours:
            continue
        for row in sorted(theirs, key=lambda row: row["peak"]):
            within = [one for one in ours if one["peak"] <= row["peak"]]
            if not within:
                print(f"{kind}: {row['name']}: {row['peak'] / MIB:.0f} MiB, less than any of ours: FAILS")
                holds = False
                continue
            best = min(within, key=lambda one: one["seconds"])
            ratio = best["seconds"] / row["seconds"]
            holds &= ratio <= LARGEST_TIME
            print(f"{kind}: {row['name']}: {row['peak'] / MIB:.0f} MiB, {row['seconds']:.2f} s; within it ours "
                  f"({best['name']}, {best['peak'] / MIB:.0f} MiB) {best['seconds']:.2f} s, {ratio:.2f} of its time "
                  f"(bar {LARGEST_TIME}): {'holds' if ratio <= LARGEST_TIME else 'FAILS'}")
        if kind == "full":
            ratio = min(one["peak"] for one in ours) / min(row["peak"] for row in theirs)
            holds &= ratio <= LARGEST_PEAK
            print(f"{kind}: our smallest peak is {ratio:.2f} of PyTorch's smallest (bar {LARGEST_PEAK}): "
                  f"{'holds' if ratio <= LARGEST_PEAK else 'FAILS'}")
    return holds


def ticks(most):
    """About six round numbers from 0 on, the last above `most`."""
    step = 10 ** math.floor(math.log10(most / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= most / 5)
    return [step * i for i in range(math.floor(most / step) + 2)]


def chart(rows, path):
    width, height, left, top = 620, 360, 60, 24
    peak_ticks = ticks(max(row["peak"] for row in rows) / 1024 / MIB)
    time_ticks = ticks(max(row["seconds"] for row in rows))
    most_peak, most_time = peak_ticks[-1] * 1024 * MIB, time_ticks[-1]
    colors = {("pytorch", "full"): "#c2571a", ("pytorch", "adapters"): "#e0a458", ("plimsoll", "full"): "#1f6f8b",
              ("plimsoll", "adapters"): "#5b8c2a"}

    def place(row):
        return left + width * row["peak"] / most_peak, top + height * (1 - row["seconds"] / most_time)

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {top + height + 70}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for tick in time_ticks:
        y = top + height * (1 - tick / most_time)
        svg.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in peak_ticks:
        x = left + width * tick / peak_ticks[-1]
        svg.append(f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{tick:g}</text>')
    svg.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">peak resident set, GiB</text>'
               f'<text x="{left - 44}" y="{top - 8}">seconds of an update of {PAGES} pages</text>')
    for index, ((program, kind), color) in enumerate(colors.items()):
        of = [row for row in rows if (row["program"], row["class"]) == (program, kind)]
        if not of:
            continue
        label = f"{'PyTorch' if program == 'pytorch' else 'Plimsoll'}, {'full fine-tuning' if kind == 'full' else 'adapters'}"
        svg.append(f'<circle cx="{left + 4 + 165 * index}" cy="{top + height + 56}" r="4" fill="{color}"/>'
                   f'<text x="{left + 13 + 165 * index}" y="{top + height + 60}">{label}</text>')
        line = " ".join("{:.1f},{:.1f}".format(*place(row)) for row in frontier(of))
        svg.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        for row in of:
            x, y = place(row)
            svg.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"><title>{row["name"]}</title></circle>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(svg + ["</svg>\n"]), encoding="utf-8")


def full_pages(options):
    """Pages of exactly LENGTH tokens: each word is one, and the model adds one at either end. Words are drawn from all that
    are one token, so that the data has thousands of the vocabulary's: memory holds rows of the word embedding for those."""
    folder = options.work / "full-pages"
    if (folder / "words.jsonl").exists():
        return
    run(options.plimsoll, "synth", "--output", folder, "--count", 20, "--validation-fraction", 0.2)
    tokenizer = json.loads((options.work / f"preset-{options.shape}" / "tokenizer.json").read_text(encoding="utf-8"))
    single = [token[1:] for token in tokenizer["model"]["vocab"] if re.fullmatch("Ġ[A-Za-z]+", token)]
    drawn = random.Random(1)
    columns, count = 20, LENGTH - 2
    lines = []
    for line in (folder / "train.jsonl").read_text(encoding="utf-8").splitlines():
        page = json.loads(line)
        across, down = page["width"] // columns, page["height"] // (count // columns + 1)
        page["words"] = drawn.choices(single, k=count)
        page["boxes"] = [[i % columns * across, i // columns * down, (i % columns + 1) * across - 1, (i // columns + 1) * down - 1]
                         for i in range(count)]
        kinds = ("B-ADDRESS", "B-COMPANY", "B-DATE", "B-TOTAL")
        page["labels"] = [kinds[i % len(kinds)] for i in range(count)]
        lines.append(json.dumps(page))
    (folder / "words.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def bf16_instructions():
    return any(word in Path("/proc/cpuinfo").read_text().split() for word in ("avx512_bf16", "amx_bf16"))


def collect(options):
    from compare_pytorch import make

    options.work.mkdir(parents=True, exist_ok=True)
    options.model = options.work / f"{options.shape}-{LABELS}-labels"
    if not (options.model / "config.json").exists():
        make("make_model.py", "--shape", options.shape, "--labels", LABELS, "--output", options.model)
    batch = options.work / f"filled-{PAGES}x{LENGTH}.safetensors"
    make("make_batch.py", "--batch", PAGES, "--length", LENGTH, "--labels", LABELS, "--output", batch, "--fill")
    if not (options.work / f"preset-{options.shape}").exists():  # options.model's shape, with a tokenizer
        run(options.plimsoll, "init", "--model", f"layoutlmv3-{options.shape}", "--output-dir",
            options.work / f"preset-{options.shape}")
    full_pages(options)
    places = {}
    for name, (kind, extra) in OURS.items():
        if "--bf16" in extra and not bf16_instructions():
            print(f"{name} is left out: this processor has no instructions for bfloat16", file=sys.stderr)
        elif kind in options.only:
            for i, budget in enumerate(budgets(options, extra)):
                places[kind, name, " ".join(extra), f"budget {i + 1} of 4"] = budget
    theirs = [(name, False) for name, form in PYTORCH.items()
              if form[0] in options.only and not any(word in name for word in options.skip)]
    theirs.sort(key=lambda one: PYTORCH[one[0]][2] != "fp32")  # the slow ones, where the processor has no bfloat16, last
    if options.ipex_python:
        theirs += [(name, True) for name in ("eager", "eager, 1 x 4", "bf16 weights, 1 x 4") if "full" in options.only]
    # What was measured is kept as it comes: a run that was stopped goes on where it was (--again forgets it). Figures count
    # for the same program, shape, threads and steps only.
    kept_file = options.work / "frontier-runs.jsonl"
    if options.again:
        kept_file.unlink(missing_ok=True)
    kept = [json.loads(line) for line in kept_file.read_text().splitlines()] if kept_file.exists() else []
    program = hashlib.sha256(options.plimsoll.read_bytes()).hexdigest()[:16]
    runs = {}

    def measure(round_, key, form, run_once):
        whole = [round_, options.shape, options.threads, options.steps, *form, *key]
        row = next((one["row"] for one in kept if one["key"] == whole), None)
        if row is None:
            row = run_once()
            if row is None:
                return
            with kept_file.open("a") as out:
                out.write(json.dumps({"key": whole, "row": row}) + "\n")
        runs.setdefault(tuple(key), []).append(row)

    for round_ in range(options.rounds):
        for (kind, name, extra, place), budget in places.items():
            measure(round_, ["plimsoll", kind, f"{name}, {place}"], [program],
                    lambda: run_ours(options, extra.split(), budget))
        for name, ipex in theirs:
            options.ipex_now = ipex
            measure(round_, ["pytorch", PYTORCH[name][0], name + (", IPEX" if ipex else "")], [],
                    lambda: run_pytorch(options, name, options.model, batch))
        print(f"round {round_ + 1} of {options.rounds} done", file=sys.stderr, flush=True)
    return [{"program": program, "class": kind, "name": name, "peak": max(one["peak"] for one in of),
             "seconds": statistics.median(one["seconds"] for one in of)} for (program, kind, name), of in runs.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="base", choices=("tiny", "small", "base"))
    parser.add_argument("--only", nargs="+", choices=("full", "adapters"), default=["full", "adapters"])
    parser.add_argument("--skip", nargs="+", default=[], metavar="WORDS", help="leave out PyTorch's programs with these in their names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "bench")
    parser.add_argument("--json", type=Path, default=REPOSITORY / "bench" / "out" / "frontier.json")
    parser.add_argument("--chart", type=Path, default=REPOSITORY / "docs" / "charts" / "frontier.svg")
    parser.add_argument("--draw", action="store_true", help="from the last figures")
    parser.add_argument("--again", action="store_true", help="measure everything again")
    parser.add_argument("--ipex-python", type=Path, help="a Python with Intel's extension 2.8 and its PyTorch")
    for hidden in ("--worker", "--model", "--batch"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--warm", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--ipex", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return pytorch_worker(options)
    if options.draw:
        rows = json.loads(options.json.read_text())["rows"]
    else:
        from compare_pytorch import processor

        rows = collect(options)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"processor": processor(), "threads": options.threads, "rows": rows}, indent=1) + "\n")
    print("| | program | peak, MiB | an update, s |\n| --- | --- | ---: | ---: |")
    for row in sorted(rows, key=lambda row: (row["class"], row["program"], row["peak"])):
        print(f"| {row['class']} | {row['program']}: {row['name']} | {row['peak'] / MIB:.0f} | {row['seconds']:.2f} |")
    chart(rows, options.chart)
    return 0 if judge(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
