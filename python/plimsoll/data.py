"""Data that is no file: lists of dicts, tables and `datasets.Dataset`, written as the program reads it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from .data_sets.boxes import BoxEvidence
from .data_sets.cord import cord_page
from .data_sets.docvqa import is_docvqa, question_of
from .data_sets.images import image_size
from .data_sets.labels import class_label, word_label
from .data_sets.parquet import COLUMNS
from .data_sets.problem import problem, shown
from .places import FILE, Places
from .pictures import path_of_image
from .tables import Table, class_names

if TYPE_CHECKING:
    import datasets

Data = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Iterable[Mapping[str, Any]],
             "datasets.Dataset"]

# What the program reads of a page, a pair or a text; whatever else a row has is left out, because columns of tensors or
# raw scans would make the file many times larger.
KEYS = ("id", "image", "width", "height", "words", "boxes", "labels", "label", "questions", "entities", "links", "form",
        "fields", "document", "group", "a", "b", "text", "prompt", "completion", "messages", "chat_template_kwargs", "tools")
# Other names that the program reads where a page lacks ours.
OTHER_NAMES = {"words": ("tokens",), "boxes": ("bboxes", "bbox"), "labels": ("ner_tags",),
               "image": ("image_path", "file_name")}
# Any of these, or all of a group, stands where pages have words.
TEXTS = (("text",), ("prompt", "completion"), ("messages",))


@dataclass(frozen=True)
class Written:
    path: str  # of the JSONL file
    box_format: Optional[str] = None  # where the data showed it
    labels: Optional[List[str]] = None  # of words, in the order of the data set's numbers
    classes: Optional[List[str]] = None  # of whole pages or pairs
    has_boxes: bool = True

    def labels_of(self, task: Optional[str]) -> Optional[List[str]]:
        """Returns the names that a task takes as its labels; without a task those of words, as models begin."""
        if task in ("sequence-classification", "pair-classification"):
            return self.classes
        return self.labels if task in (None, "token-classification", "relation-extraction") else None


def write_data(data: Any, directory: str, box_format: Optional[str] = None, places: Optional[Places] = None,
               task: Optional[str] = None) -> Written:
    """Writes a file of pages and its images to a new directory. `box_format` and `task` as the caller has said them;
    `places` gets each page.

    A list has pages, pairs or texts as the program's JSONL has them, with Pillow images, bytes or paths as `image`. A
    `datasets.Dataset` may also have the columns of FUNSD, CORD, SROIE or DocVQA, and numbers for labels.
    """
    folder = Path(directory)
    (folder / "images").mkdir(parents=True)
    if hasattr(data, "features") and hasattr(data, "column_names"):
        table = Table(data)
        if {"a", "b"} <= set(table.names):
            classes = class_names(table.features.get("label"))
            # Pairs of classes have their names; pages that belong together have the number 1, whatever it is called.
            rows = _with_names(table.rows, classes) if classes and task == "pair-classification" else table.rows
            return replace(_write_rows(rows, folder, places), classes=classes)
        return _Dataset(table, folder).write(box_format, places)
    return _write_rows(_rows_of(data), folder, places)


def _with_names(rows: Iterable[Mapping[str, Any]], classes: List[str]) -> Iterator[Mapping[str, Any]]:
    for number, row in enumerate(rows):
        yield {**row, "label": class_label(row.get("label"), classes, f"page {number}")}


def _rows_of(data: Any) -> Iterable[Any]:
    if hasattr(data, "columns") and hasattr(data, "to_dicts"):  # a DataFrame of polars
        data = data.to_dicts()
    elif hasattr(data, "columns") and hasattr(data, "to_dict"):  # of pandas, where NaN is no value
        data = [{key: value for key, value in row.items() if not (isinstance(value, float) and value != value)}
                for row in data.to_dict("records")]
    elif not isinstance(data, (Mapping, Iterable)) and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        data = [data[index] for index in range(len(data))]  # a map-style data set of PyTorch
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        is_page = isinstance(data, Mapping) and any(key in data for key in ("words", "text", "messages", "a"))
        raise problem("data is neither a path nor pages", "data", shown(data),
                      "a path, a list of dicts, a DataFrame, or a datasets.Dataset (one split)",
                      "pass a list, [page]" if is_page else "pass dataset['train']", 2)
    return data


def _write_rows(rows: Iterable[Any], folder: Path, places: Optional[Places]) -> Written:
    """Writes pages, pairs or texts as they are."""
    has_boxes = False
    with open(folder / FILE, "w", encoding="utf-8") as out:
        for number, row in enumerate(rows):
            where = f"page {number}"
            if not isinstance(row, Mapping):
                raise problem("a page is not a dict", where, shown(row), "a dict with image, words and boxes, or with a text", code=2)
            page = _page_of(row)
            if not any(key in page for key in ("words", "a", "b", *sum(TEXTS, ()))):
                raise problem("a page has neither words nor a text", where, "keys " + ", ".join(map(str, row)),
                              "words, text, prompt and completion, messages, or the pages a and b of a pair",
                              "rename the key that holds it")
            if "image" in page:
                page["image"] = path_of_image(page["image"], folder, str(number), where)
            has_boxes = has_boxes or "boxes" in page
            for side in ("a", "b"):  # a pair that holds its pages
                if isinstance(page.get(side), Mapping):
                    page[side] = _page_of(page[side])
                    has_boxes = has_boxes or "boxes" in page[side]
                    if "image" in page[side]:
                        page[side]["image"] = path_of_image(page[side]["image"], folder, f"{number}{side}",
                                                                f"{where}, `{side}`")
            if places is not None:
                places.add(page)
            write_line(out, page, where)
    return Written(str(folder / FILE), has_boxes=has_boxes)


def _page_of(row: Mapping[str, Any]) -> Dict[str, Any]:
    page: Dict[str, Any] = {}
    for key in KEYS:
        value = next((row[name] for name in (key, *OTHER_NAMES.get(key, ())) if row.get(name) is not None), None)
        if value is not None:
            page[key] = value
    return page


def without_images_of(page: Dict[str, Any], folder: Optional[str]) -> Dict[str, Any]:
    """Returns a prediction without paths of images that were written to `folder`, and are gone with it."""
    if folder is None:
        return page
    for each in (page, *(page.get("pages") or ())):
        if each and str(each.get("image", "")).startswith(folder + os.sep):
            del each["image"]
    return page


def leave_out_images(output: str, folder: str) -> None:
    """Does the same with the lines of a file that predict has written."""
    image = re.compile(rb'"image":\s*' + re.escape(json.dumps(folder + os.sep)[:-1].encode()) + rb'[^"]*",?')
    if not os.path.isfile(output):
        return
    with open(output, "rb") as read, open(output + ".part", "wb") as out:
        for line in read:
            out.write(image.sub(b"", line))
    os.replace(output + ".part", output)


def write_line(out: Any, page: Dict[str, Any], where: str) -> None:
    """Writes a line of JSON. Raises DataError for text that UTF-8 cannot hold."""
    def plain(value: Any) -> Any:
        """Returns arrays and their numbers as Python's own."""
        if isinstance(value, (bytes, bytearray)):
            raise problem("a value is bytes, not text", where, shown(bytes(value)), "str", "decode it: value.decode()", 2)
        return value.tolist() if hasattr(value, "tolist") else str(value)

    line = json.dumps(page, ensure_ascii=False, default=plain)
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise problem("a text has half of a surrogate pair, which UTF-8 cannot hold", where,
                      shown(line[max(error.start - 20, 0):error.end + 20]), "whole characters",
                      "repair it, or drop what is broken: text.encode('utf-8', 'ignore').decode()") from None
    out.write(line + "\n")


class _Dataset:
    """A `datasets.Dataset` of pages or texts, whose columns may have other names than ours."""

    def __init__(self, table: Table, folder: Path):
        self.folder, self.table, self.evidence = folder, table, BoxEvidence()
        names = table.names
        self.docvqa = is_docvqa(names)
        columns = {key: next((name for name in (key, *options) if name in names), None)
                   for key, options in {**COLUMNS, **({"boxes": ("bounding_boxes",)} if self.docvqa else {})}.items()}
        if columns["image"] and "ground_truth" in names and not columns["words"]:
            columns["ground_truth"] = "ground_truth"
        elif columns["words"] is None and not any(set(keys) <= set(names) for keys in TEXTS):
            raise problem("the data set has neither a column of words nor one of texts", "data", ", ".join(names),
                          " or ".join((*COLUMNS["words"], "text", "prompt and completion", "messages", "a and b (pairs)")),
                          "rename the column that holds the text; images alone need OCR first")
        self.columns = {key: name for key, name in columns.items() if name}
        self.columns.update({key: key for key in KEYS if key in names and key not in self.columns})
        self.labels, self.classes = (class_names(table.features.get(self.columns.get(key))) for key in ("labels", "label"))
        if hasattr(table.features.get(self.columns.get("labels")), "names"):  # one of the page, not of each word
            self.labels, self.classes = None, self.labels

    def write(self, box_format: Optional[str], places: Optional[Places]) -> Written:
        path = self.folder / FILE
        with open(path, "w", encoding="utf-8") as out:
            for number, row in enumerate(self.table.rows):
                where = f"row {number}"
                page = self._page(row, number, where)
                if places is not None:
                    places.add(page)
                write_line(out, page, where)
        if box_format is None and self.evidence.largest:
            box_format = self.evidence.decide()[0]
        return Written(str(path), box_format, self.labels, self.classes,
                       "boxes" in self.columns or "ground_truth" in self.columns)

    def _page(self, row: Mapping[str, Any], number: int, where: str) -> Dict[str, Any]:
        page = {key: row[name] for key, name in self.columns.items() if row.get(name) is not None}
        if "ground_truth" in page:
            page["words"], page["boxes"], page["labels"] = cord_page(page.pop("ground_truth"), where)
        elif self.docvqa:
            page["questions"] = [question_of(row, where)]
        if "labels" in page and not isinstance(page["labels"], (list, tuple)):  # Hugging Face's collators call it so, too
            page["label"] = page.pop("labels")
        if "labels" in page:
            page["labels"] = [self._word_label(value, where) for value in page["labels"]]
        if "label" in page and self.classes is not None:
            page["label"] = class_label(page["label"], self.classes, where)
        if "image" in page:
            page["image"] = path_of_image(page["image"], self.folder, str(number), where)
            if page.get("boxes") and "ground_truth" not in self.columns:  # CORD's are pixels
                self.evidence.add(page["boxes"], _size_of(page["image"]), where)
        page.setdefault("id", str(number))
        return page

    def _word_label(self, value: Any, where: str) -> Any:
        """Numbers without names stay numbers: the names are the model's, or those of the option `labels`."""
        if self.labels is None and isinstance(value, int) and not isinstance(value, bool):
            return value
        return word_label(value, self.labels, where)


def _size_of(image: Optional[str]) -> Any:
    """Returns an image's width and height; None where they are not known, or the program will refuse the file."""
    try:
        with open(image or "", "rb") as file:
            return image_size(file.read(1 << 16))
    except OSError:
        return None
