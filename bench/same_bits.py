#!/usr/bin/env python3
"""Checks that two programs, of the commit before a change and the one after, train to the same bits.

  bench/same_bits.py OLD/plimsoll NEW/plimsoll [--work build/same_bits]

Every recipe below runs in both, on the same drawn pages; the losses and norms of every update, the evaluation and the
bytes of every weight file must be equal. Prints a line a recipe, with both predicted peaks; ends with 1 if one differs.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from program import REPOSITORY, run

LABELS = "O,B-ADDRESS,I-ADDRESS,B-COMPANY,I-COMPANY,B-DATE,I-DATE,B-TOTAL,I-TOTAL"
TINY = ["--model", "layoutlmv3-tiny", "--budget", "1GiB"]
TRAINED = ["--model", "model", "--budget", "1GiB"]
RECIPES = {
    **{
        f"{optimizer}, {precision}": [*TINY, "--optim", optimizer, *([f"--{precision}"] if precision != "fp32" else [])]
        for precision in ("fp32", "bf16", "fp16")
        for optimizer in ("adamw_torch", "adamw_8bit", "adafactor")
    },
    "adapters": [*TRAINED, "--lora-rank", "4", "--lora-dropout", "0.1"],
    "adapters on 4 bits, bf16": [*TRAINED, "--lora-rank", "4", "--load-in-4bit", "--bf16"],
    "adapters on 8 bits": [*TRAINED, "--lora-rank", "4", "--load-in-8bit"],
    "frozen embeddings": [*TRAINED, "--freeze", "layoutlmv3.embeddings.*"],
    "a page at a time": [*TINY, "--micro-batch-size", "1"],
    "no clipping": [*TINY, "--max-grad-norm", "0"],
    "a tight budget": ["--model", "layoutlmv3-small", "--budget", "150MiB", "--micro-batch-size", "1"],
    "offloaded": ["--model", "layoutlmv3-small", "--budget", "110MiB", "--offload", "offload"],
}
# Times and memory, which always differ, are left out.
COMPARED = ("step", "loss", "grad_norm", "learning_rate", "eval_loss", "f1")


def results(directory):
    """Returns what must be equal: the compared items of every line of metrics.jsonl, and every weight file's bytes."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    metrics = [{key: line[key] for key in COMPARED if key in line} for line in lines]
    return metrics, {file.name: file.read_bytes() for file in sorted(directory.glob("*.safetensors"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs=2, type=Path)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "same_bits")
    options = parser.parse_args()
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    (work / "offload").mkdir(parents=True)
    programs = [program.resolve() for program in options.programs]

    def at(argument):
        return work / argument if argument in ("model", "offload") else argument

    run(programs[0], "synth", "--output", work / "pages", "--count", 12, "--validation-fraction", 0.25)
    run(programs[0], "init", "--model", "layoutlmv3-tiny", "--output-dir", work / "model", "--labels", LABELS)
    different = 0
    for name, arguments in RECIPES.items():
        found, peaks = [], []
        for i, program in enumerate(programs):
            output = work / f"{name.replace(' ', '-').replace(',', '')}-{i}"
            run(program, "train", "--data", work / "pages" / "train.jsonl", "--eval-data",
                work / "pages" / "validation.jsonl", "--output-dir", output, "--train-batch-size", 4, "--threads", 2,
                "--learning-rate", 1e-3, "--logging-steps", 1, "--max-steps", 5, *map(at, arguments))
            found.append(results(output))
            peaks.append(json.loads((output / "plan.json").read_text())["predicted_peak_bytes"] / (1 << 20))
        same = found[0] == found[1]
        different += not same
        print(f"{name:26} {'the same bits' if same else 'DIFFERENT'}   predicted peaks {peaks[0]:.1f} and {peaks[1]:.1f} MiB",
              flush=True)
    print(f"{len(RECIPES) - different} of {len(RECIPES)} recipes train to the same bits")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
