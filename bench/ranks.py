#!/usr/bin/env python3
"""Trains by several processes on this machine, and holds the results to the bars of docs/scale.md.

  bench/ranks.py stages [--steps 100]     losses of every stage of ZeRO, 2 and 4 ranks, against each other and one process
  bench/ranks.py peaks                    each rank's resident set against its plan, base shape, stages 0 to 3
  bench/ranks.py bytes                    parameters, gradients, optimizer state at stage 3, 4 ranks, against one process
  bench/ranks.py speed [--rounds 3]       2 ranks of one thread against one process of two, base, in turns
  bench/ranks.py time [--rounds 3]        an update's time as planned against its time as measured, base, 2 ranks
  bench/ranks.py traffic                  bytes sent and received, against what the plan says
  bench/ranks.py kills [--count 100]      kill -9 of a random rank at a random moment; the run resumes on 1, 2 or 4 ranks
  bench/ranks.py predict [--pages 500]    what 4 ranks, and three shards that are joined, predict, against one process

Needs the built program and Open MPI's mpirun. Python's standard library only. Exit status 1 if a bar is missed.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import MIB, PLIMSOLL, run

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
STAGES = (0, 1, 2, 3)
# What is trained, and how far its losses may be from those of one process (relative).
VARIANTS = {
    "fp32": ([], 1e-5),
    "accumulation": (["--micro-batch-size", 1, "--gradient-sync", "update"], 1e-5),
    "accumulation summed in each micro-batch": (["--micro-batch-size", 1, "--gradient-sync", "micro-batch"], 1e-5),
    "bf16": (["--bf16"], 1e-2),
    "8-bit AdamW": (["--optim", "adamw_8bit"], 1e-2),
    "adapters": (["--lora-rank", 8], 1e-5),
    "adapters on 8 bits": (["--lora-rank", 8, "--load-in-8bit"], 1e-2),
}


class Bars:
    def __init__(self):
        self.missed = 0

    def tell(self, what, found, bar, holds):
        self.missed += not holds
        print(f"{what:<62}{found:>24}   bar {bar:<12}{'holds' if holds else 'MISSED'}", flush=True)


def train(options, data, output, ranks, *arguments, threads=1, saves=("--save-steps", 0), allowed=(0,)):
    """Trains; returns the process's result."""
    shutil.rmtree(output, ignore_errors=True)
    command = [*(MPIRUN + ["-n", ranks] if ranks > 1 else []), options.plimsoll, "train", "--data", data,
               "--output-dir", output, "--threads", threads, "--logging-steps", 1, *saves, "--no-decode-images",
               "--dataloader-num-workers", 1, *arguments]
    return run(*command, allowed=allowed)


def metrics(output):
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def losses(output):
    return [line["loss"] for line in metrics(output)]


def summary(output):
    return json.loads((output / "summary.json").read_text())


def plan(output):
    return json.loads((output / "plan.json").read_text())


def drawn(folder, options, count):
    run(options.plimsoll, "synth", "--output", folder / "receipts", "--count", count)
    return folder / "receipts" / "train.jsonl"


def check_stages(options, folder, bars):
    data = drawn(folder, options, 80)
    # Adapters want weights that are stored; then the others start from them too.
    run(options.plimsoll, "init", "--model", options.model, "--output-dir", folder / "model")
    common = ["--model", folder / "model", "--train-batch-size", 8, "--max-steps", options.steps, "--learning-rate", 5e-4]
    for name, (more, tolerance) in VARIANTS.items():
        if options.variants and name not in options.variants.split(","):
            continue
        # One process has as many micro-batches, of as many pages, as the ranks together.
        alone = folder / "alone"
        single = [a for i, a in enumerate(more) if a not in ("--gradient-sync", "update", "micro-batch")]
        train(options, data, alone, 1, *common, *single)
        expected = losses(alone)
        for ranks in (2, 4):
            found = []
            for stage in STAGES:
                output = folder / f"stage{stage}"
                train(options, data, output, ranks, *common, *more, "--zero-stage", stage)
                found.append(losses(output))
            far = max(abs(a - b) / abs(b) for a, b in zip(found[0], expected))
            bars.tell(f"{name}, {ranks} ranks: losses of {options.steps} updates, all stages",
                      "identical" if all(f == found[0] for f in found) else "differ", "identical",
                      all(f == found[0] for f in found))
            bars.tell(f"{name}, {ranks} ranks: against one process", f"{far:.1e}", f"{tolerance:.0e}",
                      far <= tolerance and len(found[0]) == len(expected))


def check_peaks(options, folder, bars):
    data = drawn(folder, options, 24)
    for ranks, stage in ((ranks, stage) for ranks in (2, 4) for stage in STAGES):
        output = folder / "peaks"
        train(options, data, output, ranks, "--model", options.base, "--train-batch-size", 4, "--max-steps", 3,
              "--zero-stage", stage, "--budget", options.budget)
        for rank in summary(output)["ranks"]:
            predicted, measured = rank["predicted_peak_bytes"], rank["measured_peak_bytes"]
            off = measured - predicted
            close = abs(off) <= max(8 * MIB, predicted / 100)
            bars.tell(f"{options.base}, {ranks} ranks, stage {stage}, rank {rank['rank']}: "
                      f"{predicted / MIB:.0f} MiB predicted", f"{off / MIB:+.1f} MiB", "1 % or 8",
                      close and measured <= rank["budget_bytes"])


def held(output):
    """Parameters, gradients, optimizer state, and what is fetched of them, of a plan."""
    # "activations" hold fetched parameters and staging buffers as well; they are told apart by arena.json.
    return {item["name"]: item["bytes"] for item in plan(output)["items"]}


def persistent(items):
    return sum(size for name, size in items.items()
               if name.startswith(("parameters", "optimizer state", "accumulated gradients")))


def check_bytes(options, folder, bars):
    data = drawn(folder, options, 24)
    micro = ["--model", options.base, "--train-batch-size", 8, "--micro-batch-size", 1, "--max-steps", 1]
    alone, shared = folder / "alone", folder / "shared"
    train(options, data, alone, 1, *micro)
    train(options, data, shared, 4, *micro, "--zero-stage", 3)
    of_one, of_four = persistent(held(alone)), persistent(held(shared))
    fetched = largest_fetched(shared)
    share = (of_four + fetched) / of_one
    bars.tell(f"stage 3, 4 ranks: {of_four / MIB:.0f} MiB kept, {fetched / MIB:.0f} fetched, of {of_one / MIB:.0f} MiB",
              f"{share:.3f}", "0.35", share <= 0.35)


def largest_fetched(output):
    """The most bytes of fetched parameters that are alive at the same time, from the map of the arena."""
    most = 0
    for program in json.loads((output / "arena.json").read_text())["programs"]:
        events = []
        for band in program["tensors"]:
            name, _, _, _, size, begin, end = band
            if "gather_shards_begin" in name or "all_to_all_rows_begin" in name:
                events += [(begin, size), (end, -size)]
        alive = 0
        for _, size in sorted(events, key=lambda event: (event[0], event[1])):
            alive += size
            most = max(most, alive)
    return most


def check_speed(options, folder, bars):
    data = drawn(folder, options, 60)
    common = ["--model", options.base, "--train-batch-size", 8, "--max-steps", options.updates]
    rates = {key: [] for key in ("one", 0, 3)}
    waits = []
    for _ in range(options.rounds):
        for key in rates:
            output = folder / "speed"
            if key == "one":
                train(options, data, output, 1, *common, threads=2)
            else:
                train(options, data, output, 2, *common, "--zero-stage", key)
            facts = summary(output)
            rates[key].append(facts["pages_per_second"])
            if key == 0:
                waits += [rank["exchange_wait_seconds"] / facts["seconds"] for rank in facts["ranks"]]
    for stage, bar in ((0, 0.92), (3, 0.85)):
        ratios = [a / b for a, b in zip(rates[stage], rates["one"])]
        ratio = statistics.median(ratios)
        bars.tell(f"2 ranks x 1 thread over 1 x 2, stage {stage}, pages/s (of {len(ratios)} rounds)", f"{ratio:.3f}",
                  f"{bar}", ratio >= bar)
    hidden = statistics.median(waits)
    bars.tell("stage 0: time in which a rank waits for messages", f"{100 * hidden:.1f} %", "5 %", hidden <= 0.05)


def check_time(options, folder, bars):
    data = drawn(folder, options, 60)
    for stage in STAGES:
        ratios = []
        for _ in range(options.rounds):
            output = folder / "time"
            train(options, data, output, 2, "--model", options.base, "--train-batch-size", 8, "--max-steps", options.updates,
                  "--zero-stage", stage)
            # The first update touches pages of memory that the later ones find.
            rates = [line["pages_per_second"] for line in metrics(output)][1:]
            ratios.append(8 / statistics.median(rates) / plan(output)["seconds_per_update"])
        ratio = statistics.median(ratios)
        bars.tell(f"2 ranks, stage {stage}: time of an update over the plan's (of {len(ratios)} rounds)", f"{ratio:.3f}",
                  "15 %", abs(ratio - 1) <= 0.15)


def check_traffic(options, folder, bars):
    data = drawn(folder, options, 40)
    for ranks in (2, 4):
        for stage in STAGES:
            output = folder / "traffic"
            updates = 4
            train(options, data, output, ranks, "--model", options.model, "--train-batch-size", 8, "--max-steps", updates,
                  "--zero-stage", stage)
            said = plan(output)["ranks"]
            all_ranks = summary(output)["ranks"]
            rank = all_ranks[0]
            same = all(rank[key] == updates * said[key] for key in ("sent_bytes", "received_bytes", "sent_messages"))
            # The word embedding's rows are as many as the data have; the plan says how many there may be.
            rows = sum(rank["sent_row_bytes"] for rank in all_ranks)
            same = same and 0 < rows <= updates * ranks * said["row_bytes"]
            bars.tell(f"{ranks} ranks, stage {stage}: {rank['sent_bytes'] / MIB:.1f} MiB sent, "
                      f"{rank['received_bytes'] / MIB:.1f} received", "as planned" if same else "otherwise", "exact", same)


def check_kills(options, folder, bars):
    data = drawn(folder, options, 40)
    common = ["--model", options.model, "--train-batch-size", 4, "--max-steps", 8, "--learning-rate", 1e-3]
    saves = ("--save-steps", 2, "--save-total-limit", 2)
    draw = random.Random(options.seed)
    expected = {}
    for ranks in (2, 4):
        output = folder / f"whole{ranks}"
        begin = time.monotonic()
        train(options, data, output, ranks, *common, saves=saves)
        expected[ranks] = ((output / "model.safetensors").read_bytes(), losses(output), time.monotonic() - begin)
    resumed = same = due = slow = 0
    for number in range(options.count):
        ranks = draw.choice((2, 4))
        output = folder / "killed"
        shutil.rmtree(output, ignore_errors=True)
        command = [*MPIRUN, "-n", ranks, options.plimsoll, "train", "--data", data, "--output-dir", output, "--threads", 1,
                   "--logging-steps", 1, *saves, "--no-decode-images", *common]
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        time.sleep(draw.uniform(0.3, expected[ranks][2]))
        victims = children(process.pid)
        if victims:
            try:
                os.kill(draw.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                pass
        begin = time.monotonic()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            slow += 1
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if time.monotonic() - begin > 30:
            slow += 1
        again = draw.choice((1, 2, 4))
        resume = [*(MPIRUN + ["-n", again] if again > 1 else []), options.plimsoll, "train", "--data", data, "--output-dir",
                  output, "--threads", 1, "--logging-steps", 1, *saves, "--no-decode-images", "--resume-from-checkpoint", "latest", *common]
        result = run(*resume, allowed=None)
        ended = result.returncode == 0 and len(losses(output)) == 8
        resumed += ended
        if not ended:
            print(result.stdout[-2000:], result.stderr[-2000:], file=sys.stderr)
        if again == ranks:
            due += 1
            same += (output / "model.safetensors").read_bytes() == expected[ranks][0] and losses(output) == expected[ranks][1]
    bars.tell(f"{options.count} runs with a rank killed: resumed on 1, 2 or 4 ranks", f"{resumed} of {options.count}",
              "all", resumed == options.count)
    bars.tell("  of these, on as many ranks: the same bits", f"{same} of {due}", "all", same == due)
    bars.tell("  the other ranks ended within 30 s", f"{options.count - slow} of {options.count}", "all", slow == 0)


def check_predict(options, folder, bars):
    run(options.plimsoll, "synth", "--output", folder / "receipts", "--count", options.pages, "--validation-fraction", 0)
    data = folder / "receipts" / "train.jsonl"
    labels = ",".join(["O"] + [f"{tag}-{name}" for name in ("ADDRESS", "COMPANY", "DATE", "TOTAL") for tag in "BI"])
    run(options.plimsoll, "init", "--model", options.model, "--output-dir", folder / "model", "--labels", labels)

    def predict(output, *more, ranks=1):
        begin = time.monotonic()
        run(*(MPIRUN + ["-n", ranks] if ranks > 1 else []), options.plimsoll, "predict", "--model", folder / "model",
            "--data", data, "--output", output, "--threads", 1, "--return-all-scores", *more)
        return time.monotonic() - begin

    seconds = predict(folder / "alone.jsonl")
    expected = (folder / "alone.jsonl").read_bytes()
    pages = expected.count(b"\n")

    def compare(what, output):
        same = output.read_bytes() == expected
        bars.tell(f"{pages} pages predicted by {what}, against one process ({seconds:.1f} s)",
                  "identical" if same else "differ", "identical", same)

    shared = predict(folder / "ranks.jsonl", ranks=4)
    compare(f"4 ranks in {shared:.1f} s", folder / "ranks.jsonl")
    output = folder / "shards.jsonl"
    in_shards = sum(predict(output, "--shard", f"{shard}/3") for shard in (1, 2, 3))
    run(options.plimsoll, "merge-parts", "--output", output)
    compare(f"3 shards in {in_shards:.1f} s, joined", output)
    begin = output.stat().st_mtime
    predict(output, "--shard", "2/3")
    run(options.plimsoll, "merge-parts", "--output", output)
    bars.tell("  a shard that is finished, again, and joined again", "identical" if output.read_bytes() == expected
              else "differ", "identical", output.read_bytes() == expected and output.stat().st_mtime >= begin)


def children(pid):
    """The processes of the program below mpirun."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
            program = os.readlink(status.parent / "exe")
        except OSError:
            continue
        if int(fields[1]) == pid and Path(program).name == "plimsoll":
            found.append(int(status.parent.name))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+",
                        choices=["stages", "peaks", "bytes", "speed", "time", "traffic", "kills", "predict"])
    parser.add_argument("--plimsoll", default=PLIMSOLL)
    parser.add_argument("--model", default="layoutlmv3-tiny", help="of stages, traffic, kills and predict")
    parser.add_argument("--base", default="layoutlmv3-base", help="of peaks, bytes and speed")
    parser.add_argument("--budget", default="3500MiB")
    parser.add_argument("--variants", help=f"of stages, separated by commas: {', '.join(VARIANTS)}")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--pages", type=int, default=500, help="of predict")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bars = Bars()
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            globals()[f"check_{part}"](options, Path(folder), bars)
    sys.exit(1 if bars.missed else 0)


if __name__ == "__main__":
    main()
