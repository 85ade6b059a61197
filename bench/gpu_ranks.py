#!/usr/bin/env python3
"""Trains on several GPUs of this machine, a process each, in every stage, beside one GPU.

  bench/gpu_ranks.py [--ranks 2] [--steps 20] [--model layoutlmv3-small] [--plimsoll FILE] [--json FILE]

Bars: the losses of all stages are the same numbers; against one GPU they differ by 1e-4 at most (relative), at bf16 by
2e-2; no GPU holds more than its plan. The processes get the variables that torchrun sets, so that neither torchrun nor
MPI is needed. With --emulated the program is plimsoll_emulated, and PLIMSOLL_NCCL names the stand-in; --precisions fp32
spares the emulator the timing of halves, which takes it minutes. Exit status 1 if a bar is missed. Python's standard
library only.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import nvidia
from program import MIB, PLIMSOLL, REPOSITORY, holds, run

STAGES = (0, 1, 2, 3)
TOLERANCES = {"fp32": 1e-4, "bf16": 2e-2}


def free_port():
    """Returns a port with a free one behind it, where the ranks meet."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            try:
                two.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except (OSError, OverflowError):
                continue
            return one.getsockname()[1]


def start_ranks(command, ranks, seconds, output):
    """Runs the command once for each rank; returns the first exit status that is not 0, and the output of all."""
    launch = {"TORCHELASTIC_RUN_ID": uuid.uuid4().hex, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks,
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    processes, logs = [], [output.with_suffix(f".rank{rank}.txt") for rank in range(ranks)]
    for rank, log in enumerate(logs):
        environment = {**os.environ, **{name: str(value) for name, value in {**launch, "RANK": rank, "LOCAL_RANK": rank}.items()}}
        with log.open("w") as file:
            processes.append(subprocess.Popen([str(part) for part in command], stdout=file, stderr=subprocess.STDOUT,
                                              env=environment))
    statuses = []
    for process in processes:
        try:
            statuses.append(process.wait(seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            statuses.append(124)
    text = "".join(log.read_text() for log in logs)
    return next((status for status in statuses if status), 0), text


def losses(output):
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def train(options, pages, precision, ranks, stage):
    """Returns what is reported of a run."""
    output = options.work / f"{precision}-{ranks}-{stage}"
    shutil.rmtree(output, ignore_errors=True)
    command = [options.plimsoll, "train", "--device", "cuda", "--model", options.model, "--data", pages, "--output-dir", output,
               "--train-batch-size", options.batch, "--max-steps", options.steps, "--learning-rate", "1e-4",
               "--logging-steps", 1, "--save-steps", 0, "--no-decode-images", *(["--bf16"] if precision == "bf16" else []),
               *(["--zero-stage", stage] if ranks > 1 else ["--launcher", "none"])]
    status, text = start_ranks(command, ranks, options.seconds, output)
    if status:
        sys.exit(f"plimsoll {' '.join(map(str, command[1:]))}\n{ranks} ranks, ended with {status}:\n{text}")
    summary = json.loads((output / "summary.json").read_text())
    of_ranks = summary.get("ranks", [summary])
    return {"precision": precision, "ranks": ranks, "stage": stage, "losses": losses(output), "seconds": summary["seconds"],
            "predicted_peak_bytes": [rank["predicted_peak_bytes"] for rank in of_ranks],
            "measured_peak_bytes": [rank["measured_peak_bytes"] for rank in of_ranks],
            "sent_bytes": [rank.get("sent_bytes", 0) + rank.get("sent_row_bytes", 0) for rank in of_ranks]}


def measured(options):
    options.work.mkdir(parents=True, exist_ok=True)
    run(options.plimsoll, "synth", "--output", options.work / "pages", "--count", 4 * options.batch)
    pages = options.work / "pages" / "train.jsonl"
    rows = []
    for precision in options.precisions:
        tolerance = TOLERANCES[precision]
        alone = train(options, pages, precision, 1, 0)
        staged = [train(options, pages, precision, options.ranks, stage) for stage in STAGES]
        same = all(row["losses"] == staged[0]["losses"] for row in staged)
        far = max((abs(a - b) / abs(b) for a, b in zip(staged[0]["losses"], alone["losses"])), default=1.0)
        above = max(held - planned for row in staged
                    for held, planned in zip(row["measured_peak_bytes"], row["predicted_peak_bytes"]))
        rows.append({"precision": precision, "same_losses": same, "largest_difference": far, "tolerance": tolerance,
                     "updates": len(alone["losses"]), "above_plan_bytes": above, "runs": [alone, *staged]})
    return {"ranks": options.ranks, "model": options.model, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--device", default="cuda", choices=["cuda"])
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--precisions", nargs="+", default=list(TOLERANCES), choices=list(TOLERANCES))
    parser.add_argument("--seconds", type=int, default=240, help="the most that a run may take")
    parser.add_argument("--model", default="layoutlmv3-small")
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "gpu_ranks")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.emulated:
        os.environ["PLIMSOLL_EMULATED_GPUS"] = str(options.ranks)
    elif nvidia.device_count() < options.ranks:
        sys.exit(f"{nvidia.device_count()} GPUs, and {options.ranks} ranks")
    report = measured(options)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    good = True
    for row in report["rows"]:
        name = f"{row['precision']}, {report['ranks']} ranks, {row['updates']} updates"
        good &= holds(f"{name}: losses of all stages", "the same" if row["same_losses"] else "differ", "the same", row["same_losses"])
        good &= holds(f"{name}: against one GPU", f"{row['largest_difference']:.1e}", f"{row['tolerance']:.0e}",
                      row["largest_difference"] <= row["tolerance"])
        good &= holds(f"{name}: above the plan", f"{row['above_plan_bytes'] / MIB:.1f} MiB", "never", row["above_plan_bytes"] <= 0)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
