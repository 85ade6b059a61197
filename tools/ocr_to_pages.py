#!/usr/bin/env python3
"""Turns Tesseract's output for pictures into Plimsoll's JSONL: words and their boxes, one page per line.

  tesseract scan.png scan tsv                                         writes scan.tsv
  tools/ocr_to_pages.py --output pages.jsonl scan.tsv ...             the picture is beside the TSV: scan.png
  tools/ocr_to_pages.py --output pages.jsonl --images DIR scan.tsv    the pictures are in DIR
  tools/ocr_to_pages.py --self-test

A PDF's pages become pictures with `pdftoppm -r 150 -png file.pdf page`. The lines have no labels: they can be predicted as
they are; to train, add "labels", one name for each word (O, B-TOTAL, I-TOTAL, ...), with the annotation tool of your choice.
Any other OCR engine works as well: write one JSON object per line with image, words, and boxes in pixels.

Needs only Python. Exit codes as plimsoll's: 2 usage, 3 bad data or file, 5 disk or permissions.
"""

import argparse
import csv
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from plimsoll.data_sets.problem import problem
from plimsoll.errors import PlimsollError

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".pnm", ".pbm", ".pgm", ".ppm")
COLUMNS = ("level", "page_num", "left", "top", "width", "height", "conf", "text")
PAGE, WORD = 1, 5  # levels of Tesseract's rows


def picture_of(tsv, images):
    folder = images or tsv.parent
    for extension in PICTURES:
        for name in (tsv.stem + extension, tsv.stem + extension.upper()):
            if (folder / name).is_file():
                return folder / name
    raise problem("the picture of a page is not found", str(tsv), f"no {tsv.stem}.png, .jpg, .tif in {folder}",
                  "a picture with the name of its TSV file", "pass the folder of the pictures with --images DIR")


def rows_of(tsv):
    """Returns Tesseract's rows as dictionaries. Text is never quoted: a quotation mark is a letter like any other."""
    with open(tsv, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or [])]
        if missing:
            raise problem("a file is not what tesseract ... tsv writes", str(tsv), "no column " + ", ".join(missing),
                          "the columns " + ", ".join(COLUMNS), f"tesseract {tsv.stem}.png {tsv.stem} tsv")
        for number, row in enumerate(reader, 2):
            try:
                for name in COLUMNS[:-2]:
                    row[name] = int(row[name])
                row["conf"] = float(row["conf"])
            except (TypeError, ValueError):
                raise problem("a row cannot be read", f"{tsv}:{number}", json.dumps(row)[:80], "numbers before the text")
            yield number, row


def page_of(tsv, images, least_confidence, folder):
    words, boxes, size, dropped = [], [], None, 0
    for number, row in rows_of(tsv):
        if row["page_num"] > 1:
            raise problem("a TSV file holds several pages", f"{tsv}:{number}", f"page {row['page_num']}", "one page per file",
                          "split the document into one picture a page first (tiffsplit, pdftoppm)")
        if row["level"] == PAGE:
            size = row["width"], row["height"]
        if row["level"] != WORD or not (row["text"] or "").strip():
            continue
        if row["conf"] < least_confidence:
            dropped += 1
            continue
        words.append(row["text"].strip())
        boxes.append([row["left"], row["top"], row["left"] + row["width"], row["top"] + row["height"]])
    page = {"id": tsv.stem, "image": os.path.relpath(picture_of(tsv, images), folder)}
    if size:
        page["width"], page["height"] = size
    return {**page, "words": words, "boxes": boxes}, dropped


def convert(files, output, images, least_confidence):
    folder = output.parent
    aside = output.with_name(output.name + ".tmp")
    pages, count, dropped, empty = 0, 0, 0, []
    try:
        with open(aside, "w", encoding="utf-8") as out:
            for tsv in files:
                page, left_out = page_of(tsv, images, least_confidence, folder)
                dropped += left_out
                if not page["words"]:
                    empty.append(str(tsv))
                    continue
                out.write(json.dumps(page, ensure_ascii=False) + "\n")
                pages, count = pages + 1, count + len(page["words"])
        if pages == 0:
            raise problem("no page has a word", ", ".join(empty[:3]), f"{len(empty)} pages without words", "at least one page",
                          "look at the pictures: are they blank, or turned?")
        os.replace(aside, output)
    finally:
        aside.unlink(missing_ok=True)
    return pages, count, dropped, empty


def self_test():
    header = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "scans").mkdir()
        (root / "scans" / "a.png").write_bytes(b"a picture")
        (root / "a.tsv").write_text(header + "1\t1\t0\t0\t0\t0\t0\t0\t640\t480\t-1\t\n" +
                                    "5\t1\t1\t1\t1\t1\t10\t20\t30\t40\t96.5\tTOTAL\n" +
                                    "5\t1\t1\t1\t1\t2\t50\t20\t30\t40\t12.0\t\"7\n" + "5\t1\t1\t1\t1\t3\t90\t20\t5\t5\t95\t \n",
                                    encoding="utf-8")
        assert convert([root / "a.tsv"], root / "pages.jsonl", root / "scans", 0) == (1, 2, 0, [])
        page = json.loads((root / "pages.jsonl").read_text())
        assert page == {"id": "a", "image": "scans/a.png", "width": 640, "height": 480, "words": ["TOTAL", '"7'],
                        "boxes": [[10, 20, 40, 60], [50, 20, 80, 60]]}, page
        assert convert([root / "a.tsv"], root / "sure.jsonl", root / "scans", 50)[1:3] == (1, 1)
        for bad, text in (("b", header.replace("conf", "sure")), ("c", header + "5\t1\t1\t1\t1\t1\tx\t0\t0\t0\t9\tw\n"),
                          ("d", header + "5\t2\t1\t1\t1\t1\t0\t0\t1\t1\t9\tw\n"), ("e", header)):
            (root / f"{bad}.tsv").write_text(text)
            (root / "scans" / f"{bad}.png").write_bytes(b"a picture")
            try:
                convert([root / f"{bad}.tsv"], root / "bad.jsonl", root / "scans", 0)
            except PlimsollError:
                assert not list(root.glob("bad.jsonl*"))
            else:
                raise AssertionError(f"{bad}.tsv is not refused")
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="TSV", help="what tesseract ... tsv wrote, one page each")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="the JSONL file")
    parser.add_argument("--images", type=pathlib.Path, metavar="DIR", help="where the pictures lie, if not beside the TSV files")
    parser.add_argument("--min-confidence", type=float, default=0, metavar="N",
                        help="omit words whose Tesseract confidence is lower, 0 to 100 (default: 0)")
    parser.add_argument("--self-test", action="store_true", help="convert a small page and compare")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if not options.files or options.output is None:
        parser.error("TSV files and --output are needed")
    if options.output.exists() and any(options.output.samefile(file) for file in options.files if file.exists()):
        parser.error("--output is one of the inputs")
    pages, words, dropped, empty = convert(options.files, options.output, options.images, options.min_confidence)
    print(f"{pages} pages, {words} words, written to {options.output}" +
          (f"; {dropped} words left out as uncertain" if dropped else ""))
    if empty:
        print(f"{len(empty)} pages have no words and are skipped: {', '.join(empty[:5])}", file=sys.stderr)
    print(f"next: plimsoll check --model MODEL --data {options.output}")


if __name__ == "__main__":
    try:
        main()
    except PlimsollError as error:
        print("error:", error, file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3 if isinstance(error, FileNotFoundError) else 5)
