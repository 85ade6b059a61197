#!/usr/bin/env python3
"""Measures a training step of language models beside PyTorch's, eager with its default attention, and PEFT's for adapters.

  bench/language_steps.py [--shapes gpt2 smollm2-135m qwen2.5-0.5b] [--ways full adapters] [--precisions fp32 bf16]
                          [--tokens 1024] [--batch-size 1] [--rounds 5] [--steps 1] [--native] [--work DIR] [--json FILE]
  bench/language_steps.py --device cuda --batch-size 8 --steps 20 --rounds 3 --precisions bf16

Random weights of published shapes; --batch-size texts of --tokens an update; AdamW, gradients clipped at norm 1. bf16 is
what transformers' Trainer makes of --bf16: weights in fp32, products in bfloat16 (torch.autocast). Adapters of rank 16
are at every linear layer but the head. Each run is a process, they take turns, and the first steps of each are not
counted: one, on a GPU five; the ratio is the median over rounds. Bar: 0.8 of PyTorch's time. On a GPU PyTorch's AdamW is
the fused one, and the most device memory that NVML saw of each is told. --native also times PyTorch with weights in
bfloat16, which the bar is not about. Needs PyTorch, transformers and PEFT. Exit status 1 if a bar is missed.
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
import nvidia
from program import MIB, PLIMSOLL, holds, run

BAR, RANK = 0.8, 16
WARM = {"cpu": 1, "cuda": 5}  # steps that are not counted
TARGETS = {"gpt2": ["c_attn", "c_proj", "c_fc"],
           "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}


def targets_of(shape):
    return TARGETS["gpt2" if decoders.SHAPES[shape][0] == "gpt2" else "llama"]


def our_seconds(options, work, shape, way, precision):
    more = ["--bf16"] if precision == "bf16" else []
    if way == "adapters":
        more += ["--lora-rank", RANK, "--lora-target-modules", ",".join(targets_of(shape))]
    folder, warm = work / "run", WARM[options.device]
    run(options.plimsoll, "train", "--model", work / shape, "--data", work / "texts.jsonl", "--max-length", options.tokens,
        "--per-device-train-batch-size", options.batch_size, "--max-steps", options.steps + warm, "--logging-steps", 1,
        "--save-strategy", "no", "--device", options.device, *more, "--output-dir", folder, "--overwrite-output-dir")
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    shutil.rmtree(folder)
    # The rate of a line is that of all steps until then.
    ends = {line["step"]: line["step"] * options.batch_size / line["pages_per_second"]
            for line in map(json.loads, lines) if "pages_per_second" in line}
    return (ends[options.steps + warm] - ends[warm]) / options.steps


def their_seconds(options, work, shape, way, precision):
    told = subprocess.run([sys.executable, __file__, "--pytorch", work / shape, shape, way, precision, options.device,
                           *map(str, (options.tokens, options.batch_size, options.steps))], capture_output=True, text=True)
    if told.returncode != 0:
        sys.exit(f"PyTorch on {shape}, {way}, {precision}:\n{told.stderr[-2000:]}")
    return float(told.stdout.strip().splitlines()[-1])


def pytorch_steps(folder, shape, way, precision, device, tokens, batch_size, steps):
    import torch
    import transformers

    dtype = torch.bfloat16 if precision == "native" else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).train()
    if way == "adapters":
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=targets_of(shape),
                                                           task_type="CAUSAL_LM"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01, fused=device == "cuda")
    ids = torch.randint(0, 8000, (batch_size, tokens), generator=torch.Generator().manual_seed(1)).to(device)
    for number in range(steps + WARM[device]):
        if number == WARM[device]:
            begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        loss.item()  # the loss of each step is told, as ours is; a GPU has ended the step then
    print((time.perf_counter() - begin) / steps)


def watched(options, work_out, *arguments):
    """Returns the seconds of a step, and the MiB of device memory that NVML saw."""
    with nvidia.watch(options) as watch:
        seconds = work_out(options, *arguments)
    return seconds, watch.bytes // MIB if watch else None


def compare(options, work, shape, way, precision):
    theirs = [precision] + (["native"] if options.native and precision == "bf16" else [])
    times, peaks = {name: [] for name in ["ours", *theirs]}, {}
    for _ in range(options.rounds):
        for name in times:
            seconds, peaks[name] = watched(options, *((our_seconds, work, shape, way, precision) if name == "ours" else
                                                      (their_seconds, work, shape, way, name)))
            times[name].append(seconds)
    ratios = {name: [a / b for a, b in zip(times["ours"], times[name])] for name in theirs}
    medians = {name: statistics.median(its) for name, its in times.items()}
    for name in theirs[1:]:
        print(f"  beside weights in bfloat16 ({medians[name]:.3g} s) {statistics.median(ratios[name]):.2f}")
    its = ratios[precision]
    ratio = statistics.median(its)
    memory = f"; {peaks['ours']} of {peaks[precision]} MiB" if peaks["ours"] is not None else ""
    good = holds(f"{shape}, {way}, {precision}: {medians['ours']:.3g} s of {medians[precision]:.3g}{memory}",
                 f"{ratio:.2f} ({min(its):.2f} to {max(its):.2f})", BAR, ratio <= BAR)
    return {"shape": shape, "way": way, "precision": precision, "ratio": ratio, "bar": BAR, "holds": good,
            "seconds": medians["ours"], "their_seconds": medians[precision], "peak_mib": peaks["ours"],
            "their_peak_mib": peaks[precision]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=decoders.SHAPES, default=["gpt2", "smollm2-135m", "qwen2.5-0.5b"])
    parser.add_argument("--ways", nargs="+", choices=("full", "adapters"), default=["full", "adapters"])
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--json", type=Path)
    nvidia.add_device_options(parser)
    options = parser.parse_args()
    nvidia.on_gpu(options)
    with tempfile.TemporaryDirectory() as name:
        work = options.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        decoders.write_texts(work / "texts.jsonl", 2 * options.tokens)
        rows = []
        for shape in options.shapes:
            decoders.make(work / shape, shape)
            rows += [compare(options, work, shape, way, precision) for way in options.ways
                     for precision in options.precisions]
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}) + "\n", encoding="utf-8")
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pytorch"]:
        pytorch_steps(*sys.argv[2:7], *map(int, sys.argv[7:]))
    else:
        main()
