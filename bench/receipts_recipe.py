"""The recipe that compare_f1.py and compare_tasks.py train by, in Plimsoll and in PyTorch, on the real receipts."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy

from program import PLIMSOLL

RESAMPLES = 20_000


def run(command):
    command = [str(part) for part in command]
    print("+", " ".join(command), flush=True)
    if subprocess.run(command).returncode:
        sys.exit("the command above failed")


def add_options(parser, work):
    parser.add_argument("--model", default="layoutlmv3-small", help="the preset that both begin from")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--micro-batch", type=int, default=4, help="of the PyTorch half, to spare memory")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--warmup-percent", type=int, default=10)
    parser.add_argument("--budget", default="4GiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=work)
    parser.add_argument("--reuse", action="store_true", help="keep finished prediction files of --work")


def train_plimsoll(options, initial, directory, *more):
    shutil.rmtree(directory, ignore_errors=True)
    begin = time.perf_counter()
    run([options.plimsoll, "train", "--model", initial, "--data", options.train, "--output-dir", directory,
         "--budget", options.budget, "--num-train-epochs", options.epochs, "--train-batch-size", options.batch,
         "--learning-rate", options.learning_rate, "--warmup-ratio", options.warmup_percent / 100,
         "--weight-decay", 0.01, "--max-grad-norm", 1.0, "--lr-scheduler-type", "linear", "--log-order",
         "--logging-steps", 10, "--seed", options.seed, "--threads", options.threads, *more])
    print(f"plimsoll trained in {time.perf_counter() - begin:.0f} s", flush=True)


def warmup_updates(options, updates):
    return -(-updates * options.warmup_percent // 100)


def resamples(options, pages):
    """Returns how often each page is drawn, [resample, page]."""
    return numpy.random.default_rng(options.seed).multinomial(pages, [1 / pages] * pages, size=RESAMPLES)
