#!/usr/bin/env python3
"""Predicts the shards of a JSONL file as tasks of Ray, and joins them: the bytes are those of one process.

  tools/fleets/ray_shards.py --shards 4 -- --model run --data pages.jsonl --output found.jsonl

What follows -- are options of `plimsoll predict`. A task that is lost is repeated by Ray; a shard that is finished is
not run again, so the command can be repeated too. Output, model and data must be visible to all machines.
"""

import argparse
import os
import subprocess
import sys

import ray

PLIMSOLL = os.environ.get("PLIMSOLL", "plimsoll")
BAD_PAGES = 3  # pages that could not be read are left out; merge-parts names them


@ray.remote(max_retries=3, retry_exceptions=True)
def run_shard(shard, shards, arguments):
    command = [PLIMSOLL, "predict", *arguments, "--shard", f"{shard}/{shards}", "--launcher", "none"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode not in (0, BAD_PAGES):
        raise RuntimeError(result.stderr)
    return result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each shard")
    parser.add_argument("arguments", nargs="+", metavar="-- ARGUMENT")
    options = parser.parse_args()
    arguments = [*options.arguments, "--threads", str(options.threads)]
    tasks = [run_shard.options(num_cpus=options.threads).remote(shard + 1, options.shards, arguments)
             for shard in range(options.shards)]
    for text in ray.get(tasks):
        print(text, end="")
    output = options.arguments[options.arguments.index("--output") + 1]
    sys.exit(subprocess.run([PLIMSOLL, "merge-parts", "--output", output]).returncode)


if __name__ == "__main__":
    main()
