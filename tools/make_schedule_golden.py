#!/usr/bin/env python3
"""Writes test/train/schedules.json: the learning rates of every schedule of transformers, for test/train/learning_rate_test.cpp.

Each case has the schedule's name and arguments, peak, warm-up and length, and the rate of each update; those that go by
evaluations have a metric after each update instead, and the rate after it.
"""

import json
import math
import random
from pathlib import Path

import torch
from transformers import get_scheduler

FILE = Path(__file__).resolve().parent.parent / "test" / "train" / "schedules.json"
PEAK, TOTAL = 3e-3, 37
STEPWISE = [("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.25}), ("cosine_with_restarts", {}),
            ("cosine_with_restarts", {"num_cycles": 3}), ("polynomial", {}),
            ("polynomial", {"lr_end": 1e-4, "power": 2.5}), ("constant", {}), ("constant_with_warmup", {}),
            ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 50}), ("cosine_with_min_lr", {"min_lr": 2e-4}),
            ("cosine_with_min_lr", {"min_lr_rate": 0.25, "num_cycles": 0.75}),
            ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}),
            ("cosine_warmup_with_min_lr", {"min_lr": 1e-4, "warmup_lr_rate": 0.2}),
            ("warmup_stable_decay", {"num_decay_steps": 9}),
            ("warmup_stable_decay", {"num_decay_steps": 7, "num_stable_steps": 11, "warmup_type": "cosine",
                                     "decay_type": "linear", "min_lr_ratio": 0.1}),
            ("warmup_stable_decay", {"num_decay_steps": 12, "warmup_type": "1-sqrt", "decay_type": "1-sqrt"})]
ADAPTED = [("reduce_lr_on_plateau", {"mode": "min", "patience": 2}),
           ("reduce_lr_on_plateau", {"mode": "max", "patience": 1, "factor": 0.5, "threshold": 0.02,
                                     "threshold_mode": "abs", "cooldown": 2, "min_lr": 4e-4}),
           ("greedy", {"mode": "min", "patience": 1, "min_lr": 1e-4, "max_lr": 1e-2}),
           ("greedy", {"mode": "max", "patience": 1, "factor": 0.5, "cooldown": 1, "warmup": 2, "min_lr": 1e-3,
                       "threshold_mode": "rel", "threshold": 0.01, "reset_start": 2}),
           ("greedy", {"mode": "min", "patience": 0, "factor": 0.7, "min_lr": 5e-4, "smooth": True, "window_size": 3,
                       "reset_start": 3})]


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)


def stepwise(name, arguments, warmup):
    steps = optimizer()
    scheduler = get_scheduler(name, steps, num_warmup_steps=warmup, num_training_steps=TOTAL,
                              scheduler_specific_kwargs=arguments or None)
    rates = []
    for _ in range(TOTAL):
        rates.append(steps.param_groups[0]["lr"])
        steps.step()
        scheduler.step()
    return {"name": name, "arguments": arguments, "warmup": warmup, "rates": rates}


def adapted(name, arguments, metrics):
    steps = optimizer()
    scheduler = get_scheduler(name, steps, scheduler_specific_kwargs=arguments)
    rates = []
    for metric in metrics:
        scheduler.step(metric)
        rates.append(steps.param_groups[0]["lr"])
    return {"name": name, "arguments": arguments, "metrics": metrics, "rates": rates}


def main():
    draw = random.Random(1)
    metrics = [round(1 + 0.5 * math.sin(step / 7) * draw.random() + 0.2 * draw.random(), 6) for step in range(60)]
    metrics += [round(metrics[-1] - 0.05 * step, 6) for step in range(12)] + [0.7] * 20
    cases = [stepwise(name, arguments, warmup) for name, arguments in STEPWISE for warmup in (0, 1, 6)]
    cases += [adapted(name, arguments, metrics) for name, arguments in ADAPTED]
    lines = ",\n".join(json.dumps(case) for case in cases)
    FILE.write_text(f'{{"peak": {PEAK}, "total": {TOTAL}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
