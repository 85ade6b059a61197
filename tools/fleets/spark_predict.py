#!/usr/bin/env python3
"""Predicts the pages of a JSONL file with Spark: every partition opens the model once, in a process of its own.

  pip install pyspark            # and PYTHONPATH=python, PLIMSOLL=build/release/plimsoll, or the wheel; Java 17 or later
  tools/fleets/spark_predict.py --model run --data pages.jsonl --output found --workers 2 [--compare one.jsonl]

Writes the folder --output with a file a partition (part-00000, ...), as Spark does; their lines follow one another in
the order of the pages. --compare: with what `plimsoll predict --output` wrote of the same pages; exit status 1 if a page
differs. --master spark://... names a cluster; model, data and output must be visible to all its machines.
"""

import argparse
import json
import sys
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from compared import compare


def predict_partition(lines, model, folder, threads, batch_size):
    import plimsoll

    with plimsoll.predictor(model, threads=threads) as predict:
        while batch := [json.loads(line) for line in islice(lines, batch_size)]:
            for page in batch:  # the predictor knows no file from which to name pictures
                if "image" in page:
                    page["image"] = str(Path(folder) / page["image"])
            for page in filter(None, predict(batch)):  # None: it could not be read
                yield json.dumps(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path, help="a new folder")
    parser.add_argument("--master", help="default: this machine, with --workers threads")
    parser.add_argument("--workers", type=int, default=2, help="partitions that are worked on at the same time")
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--batch-size", type=int, default=32, help="pages that the model is given at once")
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    model, data = str(options.model.resolve()), options.data.resolve()
    folder, threads, batch_size = str(data.parent), options.threads, options.batch_size
    spark = SparkSession.builder.master(options.master or f"local[{options.workers}]").appName("plimsoll").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lines = spark.sparkContext.textFile(str(data), options.workers).filter(lambda line: line.strip())
    found = lines.mapPartitions(lambda part: predict_partition(part, model, folder, threads, batch_size))
    found.saveAsTextFile(str(options.output.resolve()))
    spark.stop()
    sys.exit(compare(options.output, options.compare) if options.compare else 0)


if __name__ == "__main__":
    main()
