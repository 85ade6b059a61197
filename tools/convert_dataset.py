#!/usr/bin/env python3
"""Turns a Hugging Face data set in parquet into Plimsoll's JSONL and image files.

  tools/convert_dataset.py --output DIR FILE.parquet ...       files, or folders to be searched for *.parquet
  tools/convert_dataset.py --self-test                         makes a small data set, converts it, compares

Reads the shapes that document data sets have:

  id, words|tokens, bboxes|boxes, ner_tags|labels, image       nielsr/funsd-layoutlmv3 and most others
  the same with image_path in place of image                   darentang/sroie
  image, ground_truth (JSON text with valid_line)              naver-clova-ix/cord-v1, -v2

Numbers among the labels get their names from the parquet's own metadata (ClassLabel), or from --labels FILE, one name per
line. Each split (train-00000-of-00001.parquet: train) becomes DIR/SPLIT.jsonl with DIR/images/SPLIT/; labels.txt holds the
names in their order, for `plimsoll --labels`. Boxes stay as they are; whether they are pixels or thousandths of the page is
worked out from the data, or said by --box-format, and printed with the next command to run.

Needs pyarrow alone. Exit codes as plimsoll's: 2 usage, 3 bad data or file, 5 disk or permissions.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import zlib

COLUMNS = {
    "id": ("id", "guid", "doc_id", "file_id"),
    "words": ("words", "tokens"),
    "boxes": ("bboxes", "boxes", "bbox"),
    "labels": ("ner_tags", "labels", "ner_labels", "tags"),
    "image": ("image", "image_path", "img", "file_name"),
}
MAGIC = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"II*\0", "tif"), (b"MM\0*", "tif"), (b"BM", "bmp"),
         (b"P4", "ppm"), (b"P5", "ppm"), (b"P6", "ppm"))


class Problem(Exception):
    """An error in plimsoll's form: what went wrong, where, what was found, what is allowed, what to do."""

    def __init__(self, what, where="", found="", allowed="", remedy="", code=3):
        lines = [f"error: {what}"]
        for name, value in (("where", where), ("found", found), ("allowed", allowed), ("to do", remedy)):
            if value != "":
                lines.append(f"  {name + ':':<8} {value}")
        super().__init__("\n".join(lines))
        self.code = code


def shown(value):
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."


# ---------------------------------------------------------------- images

def image_kind(data):
    for magic, kind in MAGIC:
        if data.startswith(magic):
            return kind
    return None


def image_size(data):
    """Returns (width, height) from the header of a PNG or JPEG; None for other kinds."""
    if data.startswith(MAGIC[0][0]) and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if not data.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF or marker == 1 or 0xD0 <= marker <= 0xD9:
            at += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    return None


def find_image(path, parquet, image_root):
    """Finds an image that the parquet only names: at its path, beside the parquet, or under --images."""
    given = pathlib.PurePath(path)
    places = [pathlib.Path(path), parquet.parent / path]
    if image_root is not None:
        # Paths are those of the machine that made the data set, so their trailing parts are tried, the longest first.
        places += [image_root.joinpath(*given.parts[i:]) for i in range(1 if given.is_absolute() else 0, len(given.parts))]
    for place in places:
        if place.is_file():
            return place
    return None


def read_image(value, where, parquet, image_root):
    if isinstance(value, dict):
        if value.get("bytes"):
            return value["bytes"]
        value = value.get("path")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if not isinstance(value, str) or not value:
        raise Problem("a page has no image", where, shown(value), "bytes of an image, or a path",
                      "omit the page, or convert from the data set's original files")
    place = find_image(value, parquet, image_root)
    if place is None:
        raise Problem("an image named in the data set is not found", where, value,
                      f"a file at that path, beside {parquet.name}, or under --images DIR",
                      "download the images too and name their folder with --images")
    return place.read_bytes()


# ---------------------------------------------------------------- columns and labels

def pick_columns(names, parquet):
    columns = {key: next((name for name in options if name in names), None) for key, options in COLUMNS.items()}
    if columns["image"] and "ground_truth" in names and not columns["words"]:
        return {"id": columns["id"], "image": columns["image"], "ground_truth": "ground_truth"}
    for key in ("words", "boxes", "image"):
        if columns[key] is None:
            raise Problem(f"the data set has no column of {key}", str(parquet), ", ".join(names),
                          " or ".join(COLUMNS[key]) + ("" if key == "image" else ", or image with ground_truth (CORD)"),
                          "is it a data set of words with boxes? images alone need OCR first")
    return columns


def class_names(feature):
    """Returns the names of the ClassLabel somewhere inside a feature of the `huggingface` metadata."""
    if isinstance(feature, list):
        return next((found for found in map(class_names, feature) if found), None)
    if not isinstance(feature, dict):
        return None
    names = feature.get("names")
    if isinstance(names, dict):  # {"0": "O", …} as in a data set's card
        names = [names[key] for key in sorted(names, key=int)]
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    return next((found for found in map(class_names, feature.values()) if found), None)


def metadata_labels(schema, column):
    metadata = (schema.metadata or {}).get(b"huggingface")
    if not metadata or column is None:
        return None
    try:
        features = json.loads(metadata)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return None
    return class_names(features.get(column))


def read_label_file(path):
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem("the file of labels cannot be read", path, str(error), "UTF-8 text, one label name per line")
    names = [name.strip() for name in re.split(r"[,\n]", text) if name.strip()]
    twice = {name for name in names if names.count(name) > 1}
    if not names or twice:
        raise Problem("the file of labels is not a list of names", path, f"{sorted(twice)} twice" if twice else "no name",
                      "one label name per line, each once")
    return names


def label_name(value, names, where):
    if isinstance(value, str):
        if not value:
            raise Problem("a label has no name", where, "''", "a name such as O or B-TOTAL", "correct the data set")
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise Problem("a label is neither a name nor a number", where, shown(value), "a string or a whole number",
                      "correct the data set")
    if names is None:
        raise Problem("labels are numbers, but their names are not given", where, str(value),
                      "names in the parquet's metadata (ClassLabel), or --labels FILE",
                      "copy the names from the data set's card into a file, one per line, and pass --labels FILE")
    if not 0 <= value < len(names):
        raise Problem("a label's number has no name", where, str(value), f"0 to {len(names) - 1} ({len(names)} labels)",
                      "name all labels, in their order, in --labels FILE")
    return names[value]


# ---------------------------------------------------------------- pages

def cord_page(text, where):
    """Returns words, boxes and labels of one CORD ground truth: a line's words have its category, keys are "O"."""
    try:
        truth = json.loads(text)
        lines = truth["valid_line"]
    except (TypeError, ValueError, KeyError) as error:
        raise Problem("a ground truth is not CORD's", where, f"{type(error).__name__}: {error}",
                      'JSON text with "valid_line"', "convert such a data set by a script of its own")
    words, boxes, labels = [], [], []
    try:
        for line in lines:
            first = True
            for word in line["words"]:
                if not word["text"].strip():
                    continue
                quad = word["quad"]
                xs, ys = [quad[f"x{i}"] for i in range(1, 5)], [quad[f"y{i}"] for i in range(1, 5)]
                words.append(word["text"])
                boxes.append([min(xs), min(ys), max(xs), max(ys)])
                if word.get("is_key"):
                    labels.append("O")
                    continue
                labels.append(("B-" if first else "I-") + line["category"].upper())
                first = False
    except (TypeError, KeyError) as error:
        raise Problem("a ground truth is not CORD's", where, f"{type(error).__name__}: {error}",
                      'lines with "category" and "words", words with "text" and "quad"',
                      "convert such a data set by a script of its own")
    size = (truth.get("meta") or {}).get("image_size") or {}
    # Corners were measured by hand and may lie a little outside the picture.
    if isinstance(size.get("width"), int) and isinstance(size.get("height"), int):
        edges = (size["width"], size["height"]) * 2
        boxes = [[min(max(value, 0), edge) for value, edge in zip(box, edges)] for box in boxes]
    return words, boxes, labels


def plain_page(row, columns, names, where):
    words, boxes = row[columns["words"]], row[columns["boxes"]]
    for key, value in (("words", words), ("boxes", boxes)):
        if not isinstance(value, list):
            raise Problem(f"a page has no {key}", where, shown(value), "a list with one entry per word",
                          "correct the data set")
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise Problem("a word is not text", f"{where}, word {i}", shown(word), "a string", "correct the data set")
    if len(boxes) != len(words):
        raise Problem("a page's number of boxes differs from its number of words", where,
                      f"{len(boxes)} boxes, {len(words)} words", "a box for each word", "correct the data set")
    for i, box in enumerate(boxes):
        good = isinstance(box, list) and len(box) == 4 and all(
            isinstance(value, (int, float)) and value == value and abs(value) < 1e9 for value in box)
        if not good:
            raise Problem("a box does not have four coordinates", f"{where}, word {i} ({words[i]!r})", shown(box),
                          "[left, top, right, bottom]", "correct the data set")
    labels = None
    if columns["labels"] is not None and row[columns["labels"]] is not None:
        values = row[columns["labels"]]
        if not isinstance(values, list) or len(values) != len(words):
            found = f"{len(values)} labels" if isinstance(values, list) else shown(values)
            raise Problem("a page's number of labels differs from its number of words", where,
                          f"{found}, {len(words)} words", "a label for each word", "correct the data set")
        labels = [label_name(value, names, f"{where}, word {i} ({words[i]!r})") for i, value in enumerate(values)]
    return words, boxes, labels


class BoxEvidence:
    """Collects facts that distinguish pixels from thousandths of the page."""

    def __init__(self):
        self.largest = 0
        self.beyond_image = ""  # a page with a box outside its own picture: the boxes cannot be pixels
        self.above_1000 = ""    # a page with a coordinate above 1000: the boxes cannot be thousandths
        self.largest_image = 0

    def add(self, boxes, size, where):
        for box in boxes:
            self.largest = max(self.largest, *box)
            if max(box) > 1000:
                self.above_1000 = self.above_1000 or where
            if size and (max(box[0], box[2]) > size[0] or max(box[1], box[3]) > size[1]):
                self.beyond_image = self.beyond_image or where
        if size:
            self.largest_image = max(self.largest_image, *size)

    def decide(self):
        if self.above_1000 and self.beyond_image and self.above_1000 == self.beyond_image:
            raise Problem("boxes fit neither pixels nor thousandths of the page", self.above_1000,
                          "a box outside its own image, with a coordinate above 1000", "0 to 1000, or 0 to the image's size",
                          "look at that page; --box-format pixel or 1000 converts all the same, for plimsoll check to list")
        if self.above_1000:
            return "pixel", f"{self.above_1000} has coordinates above 1000"
        if self.beyond_image:
            return "1000", f"{self.beyond_image} has boxes beyond its image"
        # No real data has pages of 1,500 pixels and more with nothing below pixel 1,000.
        if self.largest_image >= 1500:
            return "1000", f"no coordinate is above 1000, images have up to {self.largest_image} pixels"
        raise Problem("boxes could be pixels or thousandths of the page", "all pages",
                      f"coordinates up to {self.largest}, images of up to {self.largest_image} pixels",
                      "--box-format pixel, or --box-format 1000", "look it up on the data set's card (LayoutLM's own is 1000)", 2)


# ---------------------------------------------------------------- conversion

def split_of(parquet):
    """Returns train for train-00000-of-00001.parquet and data/train/0000.parquet; else the file's name."""
    stem = re.sub(r"[-_.]?\d+([-_]of[-_]\d+)?([-_][0-9a-f]{8,})?$", "", parquet.stem)
    name = stem or parquet.parent.name or "pages"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".") or "pages"


def find_parquets(inputs):
    found = []
    for name in inputs:
        path = pathlib.Path(name)
        if path.is_dir():
            inside = sorted(path.rglob("*.parquet"))
            if not inside:
                raise Problem("a folder has no parquet file in it", name, allowed="*.parquet, at any depth",
                              remedy="download the data set's parquet files: on its page, Files, or the branch refs/convert/parquet")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise Problem("no such file", name, allowed="a parquet file, or a folder of them", remedy="check the path")
    return found


def write_image(folder, name, data, where):
    kind = image_kind(data)
    if kind is None:
        raise Problem("an image has an unsupported format", where, shown(bytes(data[:16])),
                      "PNG, JPEG, TIFF, BMP or PNM", "convert the images to PNG first")
    name = re.sub(r"[^\w.-]", "_", name)[:120].lstrip(".") or "page"
    path, number = folder / f"{name}.{kind}", 2
    while path.exists():
        path, number = folder / f"{name}-{number}.{kind}", number + 1
    path.write_bytes(data)
    return path


class Converter:
    def __init__(self, output, labels, image_root, box_format):
        self.output, self.image_root, self.box_format = output, image_root, box_format
        self.given_labels = labels
        self.names, self.seen = None, []
        self.evidence = BoxEvidence()
        self.pages, self.words, self.empty = {}, 0, []
        self.begun = []  # folders of images and unfinished JSONL files that this run has made

    def rows(self, parquet):
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(parquet)
            columns = pick_columns(file.schema_arrow.names, parquet)
            names = self.given_labels or metadata_labels(file.schema_arrow, columns.get("labels"))
            if names and self.names and names != self.names:
                raise Problem("two files name the labels differently", str(parquet), ", ".join(names), ", ".join(self.names),
                              "convert them one after the other, or give one list with --labels FILE")
            self.names = self.names or names
            wanted = [name for name in columns.values() if name]
            number = 0
            for batch in file.iter_batches(batch_size=16, columns=wanted):
                for row in batch.to_pylist():
                    yield number, row, columns
                    number += 1
        except (pyarrow.ArrowException, OSError) as error:
            raise Problem("a parquet file cannot be read", str(parquet), str(error).splitlines()[0], "a whole parquet file",
                          "the file is torn, or is no parquet: download it again")

    def page(self, parquet, number, row, columns, folder):
        identity = row[columns["id"]] if columns["id"] else None
        name = f"{split_of(parquet)}-{number:05}" if identity is None else str(identity)
        where = f"{parquet}, row {number}" + ("" if identity is None else f" (id {identity!r})")
        if "ground_truth" in columns:
            words, boxes, labels = cord_page(row["ground_truth"], where)
        else:
            words, boxes, labels = plain_page(row, columns, self.names, where)
        if not words:
            self.empty.append(where)
            return None
        data = read_image(row[columns["image"]], where, parquet, self.image_root)
        size = image_size(data)
        self.evidence.add(boxes, size, where)
        image = write_image(folder, name, data, where)
        page = {"id": name, "image": image.relative_to(self.output).as_posix()}
        if size:
            page["width"], page["height"] = size
        page["words"], page["boxes"] = words, boxes
        if labels is not None:
            page["labels"] = labels
            self.seen += [label for label in dict.fromkeys(labels) if label not in self.seen]
        self.words += len(words)
        return page

    def run(self, parquets):
        splits = {}
        for parquet in parquets:
            splits.setdefault(split_of(parquet), []).append(parquet)
        for split in splits:
            for left in (self.output / f"{split}.jsonl", self.output / "images" / split):
                if left.exists():
                    raise Problem("the output is already there", str(left), remedy="name another --output, or remove it", code=2)
        aside = []
        for split, files in splits.items():
            folder = self.output / "images" / split
            aside.append(self.output / f"{split}.jsonl.tmp")
            self.begun += [folder, aside[-1]]
            folder.mkdir(parents=True)
            with open(aside[-1], "w", encoding="utf-8") as out:
                self.pages[split] = 0
                for parquet in files:
                    for number, row, columns in self.rows(parquet):
                        page = self.page(parquet, number, row, columns, folder)
                        if page is not None:
                            out.write(json.dumps(page, ensure_ascii=False) + "\n")
                            self.pages[split] += 1
        if not sum(self.pages.values()):
            raise Problem("there is no page with words", ", ".join(map(str, parquets)), f"{len(self.empty)} pages without",
                          "at least one", "is it the right data set?")
        if self.box_format == "auto":
            self.box_format, self.reason = self.evidence.decide()
        else:
            self.reason = "as --box-format says"
        names = self.names or self.tidy(self.seen)
        if names:
            (self.output / "labels.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        for path in aside:  # renamed last: an existing .jsonl is complete
            os.replace(path, path.with_suffix(""))

    def remove_output(self):
        for path in self.begun:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if self.begun and not any((self.output / "images").iterdir()):
            (self.output / "images").rmdir()

    @staticmethod
    def tidy(seen):
        """Returns O, then B- and I- of each entity, then all others."""
        entities = sorted({name[2:] for name in seen if name[:2] in ("B-", "I-")})
        rest = sorted(name for name in seen if name != "O" and name[:2] not in ("B-", "I-"))
        return (["O"] if "O" in seen or entities else []) + [p + e for e in entities for p in ("B-", "I-")] + rest


def convert(arguments):
    labels = read_label_file(arguments.labels) if arguments.labels else None
    parquets = find_parquets(arguments.inputs)
    output = pathlib.Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    converter = Converter(output, labels, pathlib.Path(arguments.images) if arguments.images else None, arguments.box_format)
    try:
        converter.run(parquets)
    except BaseException:  # removes partial output, also after Ctrl-C
        converter.remove_output()
        raise
    return converter


def report(converter):
    output = converter.output
    for split, pages in converter.pages.items():
        print(f"{output / (split + '.jsonl')}: {pages} pages")
    names = (output / "labels.txt").read_text(encoding="utf-8").split() if (output / "labels.txt").exists() else []
    print(f"{converter.words} words; {len(names)} labels" + (f" in {output / 'labels.txt'}: {', '.join(names[:12])}"
                                                           + (", ..." if len(names) > 12 else "") if names else ""))
    if converter.empty:
        print(f"{len(converter.empty)} pages without words are skipped, {converter.empty[0]} the first")
    print(f"boxes: {'pixels' if converter.box_format == 'pixel' else 'thousandths of the page'} ({converter.reason})")
    first = output / (next(iter(converter.pages)) + ".jsonl")
    print(f"next: plimsoll check --model layoutlmv3-base --data {first}"
          + (" --box-format 1000" if converter.box_format == "1000" else ""))


# ---------------------------------------------------------------- self-test

def tiny_png(width, height, shade):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([shade]) * width) * height
    return (MAGIC[0][0] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def self_test():
    import pyarrow
    import pyarrow.parquet

    failures = []

    def expect(name, condition):
        print(f"{'ok  ' if condition else 'FAIL'} {name}")
        if not condition:
            failures.append(name)

    def write(path, rows, features=None):
        table = pyarrow.Table.from_pylist(rows)
        if features:
            table = table.replace_schema_metadata({b"huggingface": json.dumps({"info": {"features": features}}).encode()})
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table, path)
        return str(path)

    def run(*arguments):
        return convert(parser().parse_args([str(each) for each in arguments]))

    def pages(path):
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def refused(name, parts, *arguments):
        output = pathlib.Path(arguments[1])
        try:
            run(*arguments)
            expect(f"{name} is refused", False)
        except Problem as problem:
            expect(f"{name} is refused, and says {parts}", all(part in str(problem) for part in parts))
            expect(f"{name} leaves nothing behind", not any(output.rglob("*")))

    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        names = ["O", "B-QUESTION", "I-QUESTION"]
        tags = {"ner_tags": {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}}
        picture = tiny_png(60, 40, 200)
        row = {"id": "7", "tokens": ["Größe", "42"], "bboxes": [[10, 20, 500, 40], [510, 20, 990, 40]], "ner_tags": [1, 0],
               "image": {"bytes": picture, "path": "0.png"}}
        empty = dict(row, id="8", tokens=[], bboxes=[], ner_tags=[])
        train = write(root / "funsd/train-00000-of-00001.parquet", [row, dict(row, ner_tags=[0, 2]), empty], tags)
        write(root / "funsd/test-00000-of-00001.parquet", [row], tags)
        done = run("--output", root / "out", root / "funsd")
        found = pages(root / "out/train.jsonl")
        expect("a split a file", sorted(done.pages.items()) == [("test", 1), ("train", 2)])
        expect("words, boxes and label names", [found[0][key] for key in ("id", "words", "boxes", "labels")] ==
               ["7", row["tokens"], row["bboxes"], ["B-QUESTION", "O"]] and found[1]["labels"] == ["O", "I-QUESTION"])
        expect("images byte for byte, one each", (root / "out" / found[0]["image"]).read_bytes() == picture
               and found[0]["image"] != found[1]["image"])
        expect("sizes from the image's header", (found[0]["width"], found[0]["height"]) == (60, 40))
        expect("thousandths are recognised", done.box_format == "1000")
        expect("the page without words is left out", len(done.empty) == 1)
        expect("labels in their order", (root / "out/labels.txt").read_text().split() == names)

        (root / "sroie/images").mkdir(parents=True)
        (root / "sroie/images/a.png").write_bytes(tiny_png(30, 1800, 9))
        plain = {"id": 3, "words": ["TOTAL", "9.00"], "bboxes": [[1, 2, 3, 4], [5, 1500, 29, 1520]],
                 "ner_tags": ["O", "B-TOTAL"], "image_path": "/home/someone/data/images/a.png"}
        path = write(root / "sroie/validation/0000.parquet", [plain])
        done = run("--output", root / "out2", "--images", root / "sroie", path)
        found = pages(root / "out2/validation.jsonl")
        expect("images by path, labels by name, pixels", found[0]["labels"] == ["O", "B-TOTAL"]
               and done.box_format == "pixel" and (root / "out2" / found[0]["image"]).stat().st_size > 0)
        expect("labels of the data", (root / "out2/labels.txt").read_text().split() == ["O", "B-TOTAL", "I-TOTAL"])

        quad = {"x1": 1, "y1": 2, "x2": 9, "y2": 1, "x3": 9, "y3": 1200, "x4": -1, "y4": 8}
        words = [{"text": text, "quad": quad, "is_key": key} for text, key in (("Tea", 0), ("x2", 1), ("hot", 0))]
        truth = {"valid_line": [{"category": "menu.nm", "words": words}], "meta": {"image_size": {"width": 30, "height": 1800}}}
        path = write(root / "cord/test-00000-of-00001-0123456789abcdef.parquet",
                     [{"image": {"bytes": tiny_png(30, 1800, 3), "path": None}, "ground_truth": json.dumps(truth)}])
        run("--output", root / "out3", path)
        found = pages(root / "out3/test.jsonl")[0]
        expect("CORD's ground truth", found["words"] == ["Tea", "x2", "hot"] and found["boxes"][0] == [0, 1, 9, 1200]
               and found["labels"] == ["B-MENU.NM", "O", "I-MENU.NM"])

        bare = write(root / "bare/train.parquet", [row])
        refused("numbers without names", ["numbers", "--labels", "row 0"], "--output", root / "e1", bare)
        (root / "labels.txt").write_text("O\nB-A\n")
        expect("names from a file", run("--output", root / "out4", "--labels", root / "labels.txt", bare).names == ["O", "B-A"])
        refused("a number without a name", ["0 to 1"], "--output", root / "e2", "--labels", root / "labels.txt",
                write(root / "b/train.parquet", [dict(row, ner_tags=[0, 2])]))
        refused("unequal lengths", ["2 words", "1 boxes"], "--output", root / "e3",
                write(root / "c/train.parquet", [dict(row, bboxes=[[1, 2, 3, 4]])], tags))
        refused("an image that is none", ["PNG"], "--output", root / "e4",
                write(root / "d/train.parquet", [dict(row, image={"bytes": b"GIF89a", "path": None})], tags))
        refused("boxes of either kind", ["--box-format"], "--output", root / "e5",
                write(root / "e/train.parquet", [dict(row, bboxes=[[1, 2, 3, 4]] * 2)], tags))
        torn = root / "torn.parquet"
        torn.write_bytes(pathlib.Path(train).read_bytes()[:300])
        refused("a torn file", ["torn"], "--output", root / "e6", torn)
        refused("no column of words", ["column of words"], "--output", root / "e7", write(root / "f/x.parquet", [{"image": "a"}]))
        try:
            run("--output", root / "out", train)
            expect("an output that is there is kept", False)
        except Problem as problem:
            expect("an output that is there is kept", "already there" in str(problem) and len(pages(root / "out/train.jsonl")) == 2)
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


def parser():
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("inputs", nargs="*", metavar="PARQUET", help="parquet files, or folders to be searched for them")
    result.add_argument("--output", metavar="DIR", help="folder for SPLIT.jsonl, images/ and labels.txt")
    result.add_argument("--labels", metavar="FILE",
                        help="label names in order, one per line, instead of the parquet's own")
    result.add_argument("--images", metavar="DIR", help="where images lie that the data set only names")
    result.add_argument("--box-format", choices=("auto", "pixel", "1000"), default="auto",
                        help="what boxes are (default: worked out from the data)")
    result.add_argument("--self-test", action="store_true", help="make a small data set, convert it, compare")
    return result


def main():
    arguments = parser().parse_args()
    try:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise Problem("the Python package pyarrow is missing", "import pyarrow", remedy="tools/setup_venv.sh installs it "
                          "into .venv; then .venv/bin/python tools/convert_dataset.py …", code=5)
        if arguments.self_test:
            return self_test()
        if not arguments.inputs or not arguments.output:
            raise Problem("the data set or the output is missing", "command line", " ".join(sys.argv[1:]) or "nothing",
                          "convert_dataset.py --output DIR FILE.parquet ...", "see --help", 2)
        report(convert(arguments))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return problem.code
    except OSError as error:
        print(Problem("a file cannot be written or read", error.filename or "", error.strerror or str(error),
                      remedy="check the path, its permissions and the disk"), file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
