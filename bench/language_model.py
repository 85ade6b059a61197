#!/usr/bin/env python3
"""Trains a causal language model of Qwen2.5-0.5B's shape, random weights, on texts of 1,024 tokens, and prints its peaks
beside their bars.

  bench/language_model.py [--only qlora full long] [--work DIR] [--updates 2]

qlora: adapters of rank 8 on weights in 4 bits (NF4), bf16. full: every weight, bf16, 8-bit AdamW, no clipping; the
embedding, which is tied to the head, has its moments in 8 bits, too, and its gradient part by part. Each runs at the
smallest budget that `plan` names: its peak may not exceed it, and is within 1 % or 8 MiB of what was predicted. Needs
.venv (tools/setup_venv.sh), which writes the model. Exit status 1 if a bar is missed.

long: a small model (llama-small) on texts of 8,192 tokens and of 1,024, whole layers recomputed: batch and activations of a
step, which grow as the tokens do, since no scores are kept; and one update of 8,192 tokens, measured.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, holds, run

SHAPE = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
             num_key_value_heads=2, max_position_embeddings=32768, rms_norm_eps=1e-6, tie_word_embeddings=True)
LENGTH = 1024
STEP_ITEMS = ("batch (step)", "activations (step)")
# name: (options of train, bar of the peak in GiB)
RUNS = {
    "qlora": (["--bf16", "--lora-rank", "8", "--load-in-4bit"], 0.8),
    "full": (["--bf16", "--optim", "adamw_8bit", "--max-grad-norm", "0"], 3.2),
}


def make_model(folder):
    import torch
    import transformers

    torch.set_default_dtype(torch.bfloat16)
    transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SHAPE)).save_pretrained(folder)
    tokenizer = REPOSITORY / "test" / "data" / "tokenizers" / "qwen.json"
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())


def smallest_budget(program, arguments):
    result = run(program, "train", *arguments, "--budget", "64MiB", "--output-dir", "none", "--json", allowed=(4,))
    return json.loads(result.stdout.strip().splitlines()[-1])["error"]["smallest_budget_bytes"]


def measure(options, work, name):
    extra, bar = RUNS[name]
    arguments = ["--model", work / "model", "--data", work / "texts.jsonl", "--max-length", LENGTH,
                 "--per-device-train-batch-size", 1, "--max-steps", options.updates, *extra]
    budget = smallest_budget(options.plimsoll, arguments)
    run(options.plimsoll, "train", *arguments, "--budget", budget, "--output-dir", work / f"run-{name}",
        "--overwrite-output-dir")
    summary = json.loads((work / f"run-{name}" / "summary.json").read_text(encoding="utf-8"))
    peak, predicted = summary["measured_peak_bytes"], summary["predicted_peak_bytes"]
    good = holds(f"{name}: peak", f"{peak / 2**30:.3f} GiB", f"{bar} GiB", peak <= bar * 2**30)
    good &= holds(f"{name}: measured beside planned", f"{peak / MIB:.1f} of {predicted / MIB:.1f} MiB",
                  "never above; within 1 % or 8 MiB", peak <= predicted and
                  predicted - peak <= max(0.01 * predicted, 8 * MIB))
    return good


# The preset with positions for longer texts.
def make_small_model(options, folder):
    run(options.plimsoll, "init", "--model", "llama-small", "--task", "causal-lm", "--output-dir", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = 8192
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "checksums.json").unlink()


def step_bytes(options, arguments, length):
    result = run(options.plimsoll, "plan", *arguments, "--max-length", length, "--budget", "16GiB", "--json")
    items = {item["name"]: item["bytes"] for item in json.loads(result.stdout)["items"]}
    return sum(items[name] for name in STEP_ITEMS)


def measure_long(options, work):
    arguments = ["--model", work / "small", "--data", work / "long.jsonl", "--per-device-train-batch-size", 1,
                 "--max-steps", 1, "--recompute", "layers", "--max-grad-norm", 0]
    short, long = (step_bytes(options, arguments, length) for length in (1024, 8192))
    good = holds("long: a step of 8,192 tokens beside 1,024", f"{long / MIB:.1f} and {short / MIB:.1f} MiB: "
                 f"{long / short:.2f} times", "8.2 times", long <= 8.2 * short)
    arguments += ["--max-length", 8192]
    budget = smallest_budget(options.plimsoll, arguments)
    run(options.plimsoll, "train", *arguments, "--budget", budget, "--output-dir", work / "run-long",
        "--overwrite-output-dir")
    summary = json.loads((work / "run-long" / "summary.json").read_text(encoding="utf-8"))
    peak, predicted = summary["measured_peak_bytes"], summary["predicted_peak_bytes"]
    return good & holds("long: measured beside planned", f"{peak / MIB:.1f} of {predicted / MIB:.1f} MiB",
                        "never above", peak <= predicted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*RUNS, "long"], default=[*RUNS, "long"])
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        if set(options.only) & set(RUNS) and not (work / "model" / "model.safetensors").exists():
            subprocess.run([sys.executable, __file__, "--make-model", str(work / "model")], check=True)
        if "long" in options.only and not (work / "small").exists():
            make_small_model(options, work / "small")
        for name, words in (("texts.jsonl", 2400), ("long.jsonl", 9600)):
            line = json.dumps({"text": "total cash receipt paid number tax " * (words // 6)}) + "\n"
            (work / name).write_text(8 * line, encoding="utf-8")
        good = [measure_long(options, work) if only == "long" else measure(options, work, only) for only in options.only]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make-model"]:  # in a process of its own, whose memory is free again
        Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        make_model(Path(sys.argv[2]))
    else:
        main()
