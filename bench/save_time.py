#!/usr/bin/env python3
"""How long a checkpoint takes to save, against the disk's own time for the same bytes.

A run saves after every update; each save's time is that between its update's line and the checkpoint's, in the events that
`train --json` prints. After each save the program stops for a moment (SIGSTOP) while the same number of bytes is written to
a file beside it in parts of 4 MiB and synced, so that saves and plain writing take turns on the same disk.

  bench/save_time.py [--shape base] [--saves 5] [--folder DIR]

Prints both medians, their ratio, and whether it is within the bar of 1.2.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from program import MIB, PLIMSOLL, REPOSITORY, run

BAR = 1.2


def bytes_in(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def plain_write(path, count):
    """Seconds to write and sync `count` bytes."""
    part = os.urandom(4 * MIB)
    begin = time.monotonic()
    with open(path, "wb") as file:
        while count > 0:
            count -= file.write(part[:min(count, len(part))])
        file.flush()
        os.fsync(file.fileno())
    seconds = time.monotonic() - begin
    path.unlink()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="base", choices=("tiny", "small", "base"))
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "bench" / "saves", help="on the disk to measure")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not (options.folder / "pages").exists():
        run(options.plimsoll, "synth", "--output", options.folder / "pages", "--count", 8, "--validation-fraction", 0.25)
    output = options.folder / "run"
    command = [options.plimsoll, "train", "--json", "--model", f"layoutlmv3-{options.shape}", "--data",
               options.folder / "pages" / "train.jsonl", "--train-batch-size", 1, "--max-steps", options.saves,
               "--logging-steps", 1, "--save-steps", 1, "--save-total-limit", 1, "--output-dir", output,
               "--overwrite-output-dir"]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    saves, writes, updated = [], [], None
    for line in process.stdout:
        now, event = time.monotonic(), json.loads(line)
        if event.get("event") == "step":
            updated = now
        elif event.get("event") == "checkpoint" and updated is not None:
            process.send_signal(signal.SIGSTOP)
            try:
                count = bytes_in(Path(event["path"]))
                saves.append(now - updated)
                writes.append(plain_write(options.folder / "plain", count))
            except BaseException:
                process.kill()
                raise
            process.send_signal(signal.SIGCONT)
            print(f"  {count / MIB:.0f} MiB: saved in {saves[-1]:.2f} s, written in {writes[-1]:.2f} s", flush=True)
    if process.wait() != 0 or not saves:
        sys.exit("the run failed, or saved nothing")
    ratio = statistics.median(saves) / statistics.median(writes)
    print(f"a checkpoint is saved in {statistics.median(saves):.2f} s, the disk's own time is {statistics.median(writes):.2f} s: "
          f"{ratio:.2f} (bar {BAR}): {'holds' if ratio <= BAR else 'misses'}")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
