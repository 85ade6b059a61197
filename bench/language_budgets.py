#!/usr/bin/env python3
"""Plans and trains small language models of every family at budgets from the smallest that works to the largest that helps.

  bench/language_budgets.py [--families gpt2 llama qwen2 qwen3] [--points 40] [--work DIR]

Forty plans of an update of one text, as `plan --sweep` makes them, with an offload file in --work: more memory is never
slower. Four of them run, and end with the same weights, bit for bit; none takes more than its budget. Needs .venv
(tools/setup_venv.sh), which writes the models. Exit status 1 if a bar is missed.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import decoders
from program import MIB, PLIMSOLL, holds, run

WIDTH, LAYERS, VOCABULARY, LENGTH = 384, 6, 20000, 512
SHAPE = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=3 * WIDTH, num_hidden_layers=LAYERS,
             num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=1024)
FAMILIES = {"gpt2": dict(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=6, n_positions=1024, bos_token_id=0,
                         eos_token_id=0),
            "llama": SHAPE, "qwen2": dict(SHAPE, tie_word_embeddings=True), "qwen3": dict(SHAPE, head_dim=64)}
RUNS = 4


def check_family(options, work, family):
    model, folder = work / family, work / "run"
    decoders.make(model, family, FAMILIES[family])
    arguments = ["--model", model, "--data", work / "texts.jsonl", "--max-length", LENGTH, "--train-batch-size", 1,
                 "--offload", work]
    sweep = json.loads(run(options.plimsoll, "plan", *arguments, "--sweep", "--points", options.points,
                           "--json").stdout)["sweep"]
    slower = sum(1 for less, more in zip(sweep, sweep[1:]) if more["seconds_per_update"] > less["seconds_per_update"])
    ends = f"{sweep[0]['budget_bytes'] / MIB:.0f} to {sweep[-1]['budget_bytes'] / MIB:.0f} MiB"
    good = holds(f"{family}: {len(sweep)} plans of {ends}, slower with more memory", slower, "0 of at least 40",
                 slower == 0 and len(sweep) >= min(options.points, 40))
    above, weights, text = 0, set(), []
    for point in range(RUNS):
        budget = sweep[point * (len(sweep) - 1) // (RUNS - 1)]["budget_bytes"]
        shutil.rmtree(folder, ignore_errors=True)
        run(options.plimsoll, "train", *arguments, "--max-steps", 2, "--budget", budget, "--output-dir", folder)
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        above += summary["measured_peak_bytes"] > budget
        weights.add(hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
        text.append(f"{summary['measured_peak_bytes'] / MIB:.0f} of {budget / MIB:.0f}")
    shutil.rmtree(folder)
    good &= holds(f"{family}: runs above their budget ({', '.join(text)} MiB)", above, "0", above == 0)
    return good & holds(f"{family}: different weights of {RUNS} runs", len(weights), "1", len(weights) == 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--points", type=int, default=40)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = options.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        decoders.write_texts(work / "texts.jsonl", 2 * LENGTH)
        good = [check_family(options, work, family) for family in options.families]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
