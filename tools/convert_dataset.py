#!/usr/bin/env python3
"""Turns a Hugging Face data set in parquet, or FUNSD's own folders, into Plimsoll's JSONL and image files.

  tools/convert_dataset.py --output DIR FILE.parquet ...       files, or folders to be searched for *.parquet
  tools/convert_dataset.py --output DIR funsd/dataset          folders with annotations/*.json and images/ (FUNSD)
  tools/convert_dataset.py --self-test                         makes small data sets, converts them, compares

Reads the shapes that document data sets have:

  id, words|tokens, bboxes|boxes, ner_tags|labels, image       nielsr/funsd-layoutlmv3 and most others
  the same with image_path in place of image                   darentang/sroie
  image, ground_truth (JSON text with valid_line)              naver-clova-ix/cord-v1, -v2
  annotations/*.json with "form", images/                      FUNSD as its authors publish it

The last alone says which entities are linked: its pages get `entities` and `links` for --task relation-extraction.

Numbers among the labels get their names from the parquet's own metadata (ClassLabel), or from --labels FILE, one name per
line. Each split (train-00000-of-00001.parquet: train; training_data: train) becomes DIR/SPLIT.jsonl with DIR/images/SPLIT/; labels.txt holds the
names in their order, for `plimsoll --labels`. Boxes stay as they are; whether they are pixels or thousandths of the page is
worked out from the data, or said by --box-format, and printed with the next command to run.

Needs pyarrow alone, and that for parquet only. Exit codes as plimsoll's: 2 usage, 3 bad data or file, 5 disk or permissions.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from plimsoll.data_sets.converter import convert, report
from plimsoll.data_sets.problem import problem
from plimsoll.data_sets.self_test import self_test
from plimsoll.errors import PlimsollError


def parser():
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("inputs", nargs="*", metavar="PATH", help="parquet files, or folders to be searched for them or for FUNSD's annotations")
    result.add_argument("--output", metavar="DIR", help="folder for SPLIT.jsonl, images/ and labels.txt")
    result.add_argument("--labels", metavar="FILE",
                        help="label names in order, one per line, instead of the parquet's own")
    result.add_argument("--images", metavar="DIR", help="where images lie that the data set only names")
    result.add_argument("--box-format", choices=("auto", "pixel", "1000"), default="auto",
                        help="what boxes are (default: worked out from the data)")
    result.add_argument("--self-test", action="store_true", help="make small data sets, convert them, compare")
    return result


def main():
    arguments = parser().parse_args()
    try:
        if arguments.self_test:
            return self_test(parser())
        if not arguments.inputs or not arguments.output:
            raise problem("the data set or the output is missing", "command line", " ".join(sys.argv[1:]) or "nothing",
                          "convert_dataset.py --output DIR FILE.parquet ...", "see --help", 2)
        report(convert(arguments))
    except PlimsollError as error:
        print("error:", error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print("error:", problem("a file cannot be written or read", error.filename or "", error.strerror or str(error),
                      remedy="check the path, its permissions and the disk"), file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
