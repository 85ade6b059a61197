#!/usr/bin/env python3
"""Measures a training step of language models beside PyTorch's, eager with its default attention, and PEFT's for adapters.

  bench/language_steps.py [--shapes gpt2 smollm2-135m qwen2.5-0.5b] [--ways full adapters] [--precisions fp32 bf16]
                          [--tokens 1024] [--rounds 5] [--steps 1] [--native] [--work DIR]

Random weights of published shapes; one text of --tokens an update; AdamW, gradients clipped at norm 1. bf16 is what
transformers' Trainer makes of --bf16: weights in fp32, products in bfloat16 (torch.autocast). Adapters of rank 16 are at
every linear layer but the head. Each run is a process, they take turns, and the first step of each is not counted; the
ratio is the median over rounds. Bar: 0.8 of PyTorch's time. --native also times PyTorch with weights in bfloat16, which
the bar is not about. Needs .venv (tools/setup_venv.sh). Exit status 1 if a bar is missed.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import decoders
from program import PLIMSOLL, holds, run

BAR, RANK = 0.8, 16
TARGETS = {"gpt2": ["c_attn", "c_proj", "c_fc"],
           "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}


def targets_of(shape):
    return TARGETS["gpt2" if decoders.SHAPES[shape][0] == "gpt2" else "llama"]


def our_seconds(options, work, shape, way, precision):
    more = ["--bf16"] if precision == "bf16" else []
    if way == "adapters":
        more += ["--lora-rank", RANK, "--lora-target-modules", ",".join(targets_of(shape))]
    folder = work / "run"
    run(options.plimsoll, "train", "--model", work / shape, "--data", work / "texts.jsonl", "--max-length", options.tokens,
        "--per-device-train-batch-size", 1, "--max-steps", options.steps + 1, "--logging-steps", 1, "--save-strategy",
        "no", *more, "--output-dir", folder, "--overwrite-output-dir")
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    shutil.rmtree(folder)
    steps = [json.loads(line) for line in lines if '"loss"' in line]
    return statistics.median(1 / step["pages_per_second"] for step in steps[1:])


def their_seconds(options, work, shape, way, precision):
    told = subprocess.run([sys.executable, __file__, "--pytorch", work / shape, shape, way, precision, str(options.tokens),
                           str(options.steps)], capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(f"PyTorch on {shape}, {way}, {precision}:\n{told.stderr[-2000:]}")
    return float(told.stdout.strip().splitlines()[-1])


def pytorch_steps(folder, shape, way, precision, tokens, steps):
    import torch
    import transformers

    dtype = torch.bfloat16 if precision == "native" else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).train()
    if way == "adapters":
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=targets_of(shape),
                                                           task_type="CAUSAL_LM"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01)
    ids = torch.randint(0, 8000, (1, tokens), generator=torch.Generator().manual_seed(1))
    seconds = []
    for _ in range(steps + 1):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(statistics.median(seconds[1:]))


def compare(options, work, shape, way, precision):
    theirs = [precision] + (["native"] if options.native and precision == "bf16" else [])
    times = {name: [] for name in ["ours", *theirs]}
    for _ in range(options.rounds):
        times["ours"].append(our_seconds(options, work, shape, way, precision))
        for name in theirs:
            times[name].append(their_seconds(options, work, shape, way, name))
    ratios = {name: [a / b for a, b in zip(times["ours"], times[name])] for name in theirs}
    for name in theirs[1:]:
        print(f"  beside weights in bfloat16 ({statistics.median(times[name]):.2f} s) {statistics.median(ratios[name]):.2f}")
    its = ratios[precision]
    ratio = statistics.median(its)
    return holds(f"{shape}, {way}, {precision}: {statistics.median(times['ours']):.2f} s of "
                 f"{statistics.median(times[precision]):.2f}", f"{ratio:.2f} ({min(its):.2f} to {max(its):.2f})", BAR,
                 ratio <= BAR)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=decoders.SHAPES, default=["gpt2", "smollm2-135m", "qwen2.5-0.5b"])
    parser.add_argument("--ways", nargs="+", choices=("full", "adapters"), default=["full", "adapters"])
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = options.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        decoders.write_texts(work / "texts.jsonl", 2 * options.tokens)
        good = []
        for shape in options.shapes:
            decoders.make(work / shape, shape)
            good += [compare(options, work, shape, way, precision) for way in options.ways
                     for precision in options.precisions]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pytorch"]:
        folder, shape, way, precision, tokens, steps = sys.argv[2:]
        pytorch_steps(folder, shape, way, precision, int(tokens), int(steps))
    else:
        main()
