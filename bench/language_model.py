#!/usr/bin/env python3
"""Trains a causal language model of Qwen2.5-0.5B's shape, random weights, on texts of 1,024 tokens, and prints its peaks
beside their bars.

  bench/language_model.py [--only qlora full] [--work DIR] [--updates 2]

qlora: adapters of rank 8 on weights in 4 bits (NF4), bf16. full: every weight, bf16, 8-bit AdamW, no clipping; moments of
embeddings in 32 bits, as Hugging Face keeps them. Each runs at the smallest budget that `plan` names: its peak may not
exceed it, and is within 1 % or 8 MiB of what was predicted. Needs .venv (tools/setup_venv.sh), which writes the model. Exit status 1
if a bar is missed.
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
# name: (options of train, bar of the peak in GiB)
RUNS = {
    "qlora": (["--bf16", "--lora-rank", "8", "--load-in-4bit"], 0.8),
    "full": (["--bf16", "--optim", "adamw_8bit", "--max-grad-norm", "0"], 4.0),
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "model" / "model.safetensors").exists():
            subprocess.run([sys.executable, __file__, "--make-model", str(work / "model")], check=True)
        with (work / "texts.jsonl").open("w", encoding="utf-8") as out:
            for _ in range(8):
                out.write(json.dumps({"text": "total cash receipt paid number tax " * 400}) + "\n")
        good = [measure(options, work, name) for name in options.only]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make-model"]:  # in a process of its own, whose memory is free again
        Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        make_model(Path(sys.argv[2]))
    else:
        main()
