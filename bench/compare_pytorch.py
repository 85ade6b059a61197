#!/usr/bin/env python3
"""One fp32 training step, PyTorch eager with transformers beside Plimsoll: time and peak resident set.

Both train the same model on the same batch (S = 709: 512 text tokens, no padding, and 197 of the image) with the same
threads: forward, backward, clipping to 1.0, AdamW with weight decay, dropout as in config.json. Each run is a process of
its own, and the two alternate (A B A B ...), so that a slow minute of the machine hits both. The first step of a process
warms up and is not counted. PyTorch: transformers' eager attention (the only one it has for this model), fused AdamW as
its Trainer takes by default, gradients set to None between steps.

  bench/compare_pytorch.py [--batch-sizes 2 4] [--rounds 3] [--steps 3] [--only pytorch|plimsoll]

Plimsoll's half is `plimsoll bench-step --model M --batch FILE --steps K --threads N --json`, which prints
{"step_seconds": [...], "measured_peak_bytes": ..., "predicted_peak_bytes": ...}; its first step is dropped as well. The
peak compared is the kernel's figure for the whole process (getrusage's maximum resident set), the same for both.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

GIB = 1 << 30


def pytorch_worker(options):
    import torch

    import reference

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = reference.load_model(options.model).train()
    batch = reference.read_batch(options.batch)
    trainer = reference.Trainer(model, learning_rate=1e-5, updates=1000)
    seconds, losses = [], []
    for _ in range(options.steps + 1):
        begin = time.perf_counter()
        losses.append(trainer.step([batch])[0])
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"step_seconds": seconds, "losses": losses, "versions": reference.versions()}))


def run(command, threads):
    """Runs to the end; adds the kernel's own figures of the process: peak resident set and processor time."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    command = [str(part) for part in command]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            sys.exit(f"{' '.join(command)}\nexit {process.returncode}\n{errors.read()}")
        # The result is the last line; a program may have logged before it.
        result = json.loads(output.read().strip().splitlines()[-1])
    result["step_seconds"] = result["step_seconds"][1:]
    result["peak_resident_bytes"] = usage.ru_maxrss * 1024
    result["processor_seconds"] = usage.ru_utime + usage.ru_stime
    return result


def summary(results):
    seconds = [second for result in results for second in result["step_seconds"]]
    peak = max(result["peak_resident_bytes"] for result in results)
    row = {"median_seconds": statistics.median(seconds), "fastest_seconds": min(seconds),
           "slowest_seconds": max(seconds), "steps": len(seconds), "peak_bytes": peak}
    predicted = [result["predicted_peak_bytes"] for result in results if "predicted_peak_bytes" in result]
    if predicted:
        row["predicted_peak_bytes"] = max(predicted)
    return row


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="base", choices=("tiny", "small", "base", "large"))
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--length", type=int, default=512, help="T, text tokens; the image adds 197")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each program")
    parser.add_argument("--steps", type=int, default=3, help="counted steps a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=("pytorch", "plimsoll"))
    parser.add_argument("--plimsoll", type=Path, default=REPOSITORY / "build" / "release" / "plimsoll")
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "bench")
    parser.add_argument("--json", type=Path, default=REPOSITORY / "bench" / "out" / "compare_pytorch.json")
    parser.add_argument("--worker", choices=("pytorch",), help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return pytorch_worker(options)

    model = options.work / f"{options.shape}-7-labels"
    if not (model / "config.json").exists():
        run_quietly(["make_model.py", "--shape", options.shape, "--labels", 7, "--output", model])
    programs = [options.only] if options.only else ["pytorch", "plimsoll"]
    report = {"shape": options.shape, "length": options.length, "threads": options.threads, "processor": processor(),
              "cores": os.cpu_count(), "rounds": options.rounds, "batches": []}
    for size in options.batch_sizes:
        batch = options.work / f"filled-{size}x{options.length}.safetensors"
        run_quietly(["make_batch.py", "--batch", size, "--length", options.length, "--labels", 7, "--fill",
                     "--output", batch])
        commands = {
            "pytorch": [sys.executable, __file__, "--worker", "pytorch", "--model", model, "--batch", batch,
                        "--steps", options.steps, "--threads", options.threads],
            "plimsoll": [options.plimsoll, "bench-step", "--model", model, "--batch", batch,
                         "--steps", options.steps + 1, "--threads", options.threads, "--json"],
        }
        results = {program: [] for program in programs}
        for _ in range(options.rounds):
            for program in programs:
                results[program].append(run(commands[program], options.threads))
        rows = {program: summary(results[program]) for program in programs}
        if len(rows) == 2:
            rows["time_ratio"] = rows["plimsoll"]["median_seconds"] / rows["pytorch"]["median_seconds"]
            rows["peak_ratio"] = rows["plimsoll"]["peak_bytes"] / rows["pytorch"]["peak_bytes"]
        if "pytorch" in results:
            report["versions"] = results["pytorch"][0]["versions"]
        report["batches"].append({"batch": size, **rows, "runs": results})
        print_rows(options, size, rows, first=size == options.batch_sizes[0], report=report)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.json}")
    return 0


def run_quietly(command):
    subprocess.run([sys.executable, str(REPOSITORY / "tools" / command[0]), *map(str, command[1:])], check=True,
                   stdout=subprocess.DEVNULL)


def print_rows(options, size, rows, first, report):
    if first:
        print(f"{options.shape}, fp32, T = {options.length}, {options.threads} threads on {report['processor']}, "
              f"{options.rounds} x {options.steps} steps each, alternating")
        print(f"{'batch':>5}  {'program':<9} {'median step':>12} {'fastest':>9} {'slowest':>9} {'peak':>10} {'predicted':>10}")
    for program in ("pytorch", "plimsoll"):
        if program not in rows:
            continue
        row = rows[program]
        predicted = f"{row['predicted_peak_bytes'] / GIB:.2f} GiB" if "predicted_peak_bytes" in row else "-"
        print(f"{size:>5}  {program:<9} {row['median_seconds']:>10.3f} s {row['fastest_seconds']:>7.3f} s "
              f"{row['slowest_seconds']:>7.3f} s {row['peak_bytes'] / GIB:>6.2f} GiB {predicted:>10}")
    if "time_ratio" in rows:
        print(f"{size:>5}  plimsoll / pytorch: time {rows['time_ratio']:.3f}, peak {rows['peak_ratio']:.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
