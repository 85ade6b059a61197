#!/usr/bin/env python3
"""Predicts the pages of a JSONL file with Ray Data: every worker holds the model in a process of its own.

  pip install "ray[data]"        # and PYTHONPATH=python, PLIMSOLL=build/release/plimsoll, or the wheel of docs/python.md
  tools/fleets/ray_predict.py --model run --data pages.jsonl --output found.jsonl --workers 2 [--compare one.jsonl]

Lines come in the order of the pages. --compare: with what `plimsoll predict --output` wrote of the same pages; exit
status 1 if a page differs. On a cluster, RAY_ADDRESS names it; model and pictures must be visible to all its machines.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import ray

from compared import compare


class Predict:
    """A worker of Ray: opens the model once, and keeps it from batch to batch."""

    def __init__(self, model, folder, threads):
        import plimsoll

        self.folder = Path(folder)
        self.predict = plimsoll.predictor(model, threads=threads)

    def __call__(self, batch):
        pages = [json.loads(line) for line in batch["text"]]
        for page in pages:  # the predictor knows no file from which to name pictures
            if "image" in page:
                page["image"] = str(self.folder / page["image"])
        return {"line": [json.dumps(page) for page in self.predict(pages) if page is not None]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--batch-size", type=int, default=32, help="pages that a worker is given at once")
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    if "RAY_ADDRESS" not in os.environ:  # reading the file takes a core too, while the workers keep theirs
        ray.init(num_cpus=options.workers * options.threads + 1)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    data = options.data.resolve()
    lines = ray.data.read_text(str(data), drop_empty_lines=True).repartition(4 * options.workers)
    found = lines.map_batches(Predict, fn_constructor_args=(str(options.model.resolve()), str(data.parent), options.threads),
                              batch_size=options.batch_size, concurrency=options.workers, num_cpus=options.threads)
    with open(options.output, "w") as output:
        for row in found.iter_rows():
            output.write(row["line"] + "\n")
    sys.exit(compare(options.output, options.compare) if options.compare else 0)


if __name__ == "__main__":
    main()
