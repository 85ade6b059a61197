"""Data sets in parquet: a row is a page, with words, boxes and labels in columns, or with CORD's ground truth."""

import re

from .cord import cord_page
from .images import read_image
from .labels import metadata_labels, word_label
from .page import Page
from .problem import problem, shown

COLUMNS = {
    "id": ("id", "guid", "doc_id", "file_id"),
    "words": ("words", "tokens"),
    "boxes": ("bboxes", "boxes", "bbox"),
    "labels": ("ner_tags", "labels", "ner_labels", "tags"),
    "image": ("image", "image_path", "img", "file_name"),
}


def pick_columns(names, parquet):
    columns = {key: next((name for name in options if name in names), None) for key, options in COLUMNS.items()}
    if columns["image"] and "ground_truth" in names and not columns["words"]:
        return {"id": columns["id"], "image": columns["image"], "ground_truth": "ground_truth"}
    for key in ("words", "boxes", "image"):
        if columns[key] is None:
            raise problem(f"the data set has no column of {key}", str(parquet), ", ".join(names),
                          " or ".join(COLUMNS[key]) + ("" if key == "image" else ", or image with ground_truth (CORD)"),
                          "is it a data set of words with boxes? images alone need OCR first")
    return columns


def plain_page(row, columns, names, where):
    words, boxes = row[columns["words"]], row[columns["boxes"]]
    for key, value in (("words", words), ("boxes", boxes)):
        if not isinstance(value, list):
            raise problem(f"a page has no {key}", where, shown(value), "a list with one entry per word",
                          "correct the data set")
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise problem("a word is not text", f"{where}, word {i}", shown(word), "a string", "correct the data set")
    if len(boxes) != len(words):
        raise problem("a page's number of boxes differs from its number of words", where,
                      f"{len(boxes)} boxes, {len(words)} words", "a box for each word", "correct the data set")
    for i, box in enumerate(boxes):
        good = isinstance(box, list) and len(box) == 4 and all(
            isinstance(value, (int, float)) and value == value and abs(value) < 1e9 for value in box)
        if not good:
            raise problem("a box does not have four coordinates", f"{where}, word {i} ({words[i]!r})", shown(box),
                          "[left, top, right, bottom]", "correct the data set")
    labels = None
    if columns["labels"] is not None and row[columns["labels"]] is not None:
        values = row[columns["labels"]]
        if not isinstance(values, list) or len(values) != len(words):
            found = f"{len(values)} labels" if isinstance(values, list) else shown(values)
            raise problem("a page's number of labels differs from its number of words", where,
                          f"{found}, {len(words)} words", "a label for each word", "correct the data set")
        labels = [word_label(value, names, f"{where}, word {i} ({words[i]!r})") for i, value in enumerate(values)]
    return words, boxes, labels


def split_of(parquet):
    """Returns train for train-00000-of-00001.parquet and data/train/0000.parquet; else the file's name."""
    stem = re.sub(r"[-_.]?\d+([-_]of[-_]\d+)?([-_][0-9a-f]{8,})?$", "", parquet.stem)
    name = stem or parquet.parent.name or "pages"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".") or "pages"


def import_pyarrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise problem("the Python package pyarrow is missing", "import pyarrow", remedy="tools/setup_venv.sh installs it "
                      "into .venv; then .venv/bin/python tools/convert_dataset.py …", code=5)
    return pyarrow


class ParquetFile:
    """One parquet file. It does not say whether its boxes are pixels or thousandths of the page."""

    box_format = None

    def __init__(self, path, image_root):
        self.path, self.image_root = path, image_root
        self.split = split_of(path)

    def __str__(self):
        return str(self.path)

    def rows(self, choose_names):
        pyarrow = import_pyarrow()
        try:
            file = pyarrow.parquet.ParquetFile(self.path)
            columns = pick_columns(file.schema_arrow.names, self.path)
            names = choose_names(metadata_labels(file.schema_arrow, columns.get("labels")))
            wanted = [name for name in columns.values() if name]
            for batch in file.iter_batches(batch_size=16, columns=wanted):
                for row in batch.to_pylist():
                    yield row, columns, names
        except (pyarrow.ArrowException, OSError) as error:
            raise problem("a parquet file cannot be read", str(self.path), str(error).splitlines()[0], "a whole parquet file",
                          "the file is torn, or is no parquet: download it again")

    def pages(self, choose_names):
        """Yields pages. `choose_names` gets the label names in the file's metadata, or None, and returns those to use."""
        for number, (row, columns, names) in enumerate(self.rows(choose_names)):
            identity = row[columns["id"]] if columns["id"] else None
            name = f"{self.split}-{number:05}" if identity is None else str(identity)
            where = f"{self.path}, row {number}" + ("" if identity is None else f" (id {identity!r})")
            if "ground_truth" in columns:
                words, boxes, labels = cord_page(row["ground_truth"], where)
            else:
                words, boxes, labels = plain_page(row, columns, names, where)
            image = read_image(row[columns["image"]], where, self.path, self.image_root) if words else b""
            yield Page(where, name, words, boxes, labels, image)
