"""Data that is no file: lists of dicts and `datasets.Dataset`, written as the program reads it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from .data_sets.boxes import BoxEvidence
from .data_sets.cord import cord_page
from .data_sets.docvqa import is_docvqa, question_of
from .data_sets.images import image_kind, image_size
from .data_sets.labels import label_name, word_label
from .data_sets.parquet import COLUMNS
from .data_sets.problem import problem, shown
from .log import log
from .places import FILE, Places

if TYPE_CHECKING:
    import datasets

Data = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]], Iterable[Mapping[str, Any]],
             "datasets.Dataset"]

# What the program reads of a page; whatever else a row has is left out.
KEYS = ("id", "image", "width", "height", "words", "boxes", "labels", "label", "questions", "entities", "links", "document",
        "a", "b", "text", "prompt", "completion", "messages", "chat_template_kwargs", "tools")
# Any of these, or all of a group, stands where pages have words.
TEXTS = (("text",), ("prompt", "completion"), ("messages",))


@dataclass(frozen=True)
class Written:
    path: str  # of the JSONL file
    box_format: Optional[str] = None  # where the data showed it
    labels: Optional[List[str]] = None  # in the order of the data set's numbers
    has_boxes: bool = True


def write_data(data: Any, directory: str, box_format: Optional[str] = None, places: Optional[Places] = None) -> Written:
    """Writes a file of pages and its images to a new directory. `box_format` as the caller has said it; `places` gets
    each page.

    A list has pages, pairs or texts as the program's JSONL has them, with Pillow images, bytes or paths as `image`. A
    `datasets.Dataset` may also have the columns of FUNSD, CORD, SROIE or DocVQA, and numbers for labels.
    """
    folder = Path(directory)
    (folder / "images").mkdir(parents=True)
    if hasattr(data, "features") and hasattr(data, "column_names"):
        return _Dataset(data, folder).write(box_format, places)
    if hasattr(data, "columns") and hasattr(data, "to_dicts"):  # a DataFrame of polars
        data = data.to_dicts()
    elif hasattr(data, "columns") and hasattr(data, "to_dict"):  # of pandas, where NaN is no value
        data = [{key: value for key, value in row.items() if not (isinstance(value, float) and value != value)}
                for row in data.to_dict("records")]
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        is_page = isinstance(data, Mapping) and any(key in data for key in ("words", "text", "messages", "a"))
        raise problem("data is neither a path nor pages", "data", shown(data),
                      "a path, a list of dicts, a DataFrame, or a datasets.Dataset (one split)",
                      "pass a list, [page]" if is_page else "pass dataset['train']", 2)
    has_boxes = False
    with open(folder / FILE, "w", encoding="utf-8") as out:
        for number, row in enumerate(data):
            where = f"page {number}"
            if not isinstance(row, Mapping):
                raise problem("a page is not a dict", where, shown(row), "a dict with image, words and boxes, or with a text", code=2)
            page = _page_of(row)
            if not any(key in page for key in ("words", "a", "b", *sum(TEXTS, ()))):
                raise problem("a page has neither words nor a text", where, "keys " + ", ".join(map(str, row)),
                              "words, text, prompt and completion, messages, or the pages a and b of a pair",
                              "rename the key that holds it")
            if "image" in page:
                page["image"] = _image(page["image"], folder, str(number), where)
            has_boxes = has_boxes or "boxes" in page
            for side in ("a", "b"):  # a pair that holds its pages
                if isinstance(page.get(side), Mapping):
                    page[side] = _page_of(page[side])
                    has_boxes = has_boxes or "boxes" in page[side]
                    if "image" in page[side]:
                        page[side]["image"] = _image(page[side]["image"], folder, f"{number}{side}", f"{where}, `{side}`")
            if places is not None:
                places.add(page)
            write_line(out, page, where)
    return Written(str(folder / FILE), has_boxes=has_boxes)


def _page_of(row: Mapping[str, Any]) -> Dict[str, Any]:
    page = {key: row[key] for key in KEYS if row.get(key) is not None}
    for other in ("image_path", "file_name"):  # as in a file of pages
        if "image" not in page and row.get(other) is not None:
            page["image"] = row[other]
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


def _image(value: Any, folder: Path, number: str, where: str) -> str:
    """Returns the path of an image: its own, or that of a copy in `folder`."""
    if isinstance(value, Mapping):  # of `datasets` without decoding
        value = value.get("bytes") or value.get("path")
    if isinstance(value, (str, os.PathLike)):
        return str(Path(value).absolute())
    if isinstance(value, (bytes, bytearray)):
        kind = image_kind(bytes(value))
        if kind is None:
            raise problem("an image has an unsupported format", where, shown(bytes(value[:16])),
                          "PNG, JPEG, TIFF, BMP or PNM")
        path = folder / "images" / f"{number}.{kind}"
        path.write_bytes(bytes(value))
        return str(path)
    if not hasattr(value, "save"):
        raise problem("an image is of no known kind", where, shown(value), "a Pillow image, bytes, or a path", code=2)
    path = folder / "images" / f"{number}.png"
    if value.mode in ("I", "F"):  # Pillow would cut off what is below 0 or above 255
        raise problem("an image has pixels of no known range", where, f"Pillow's mode {value.mode}",
                      "1, L, P, RGB, RGBA, I;16", "scale them to 0 to 255, and convert: image.convert('L')", 2)
    image = _upright(value, where)
    if image.mode not in ("1", "L", "RGB", "RGBA", "P", "I;16"):
        image = image.convert("RGB")
    image.save(path, compress_level=1)
    return str(path)


def _upright(image: Any, where: str) -> Any:
    """Returns a Pillow image turned by its EXIF orientation, as the program turns a file: boxes are as a viewer shows it."""
    orientation = 0x0112
    exif = image.getexif() if hasattr(image, "getexif") else {}
    if exif.get(orientation, 1) in (0, 1):
        return image
    from PIL import ImageOps

    log.info("%s: the image is turned by its EXIF orientation, %s", where, exif[orientation])
    return ImageOps.exif_transpose(image)


class _Dataset:
    """A `datasets.Dataset`, whose columns may have other names than ours."""

    def __init__(self, data: Any, folder: Path):
        self.folder, self.evidence = folder, BoxEvidence()
        self.features = data.features
        names = list(data.column_names)
        self.docvqa = is_docvqa(names)
        columns = {key: next((name for name in (key, *options) if name in names), None)
                   for key, options in {**COLUMNS, **({"boxes": ("bounding_boxes",)} if self.docvqa else {})}.items()}
        if columns["image"] and "ground_truth" in names and not columns["words"]:
            columns["ground_truth"] = "ground_truth"
        elif columns["words"] is None and not any(set(keys) <= set(names) for keys in TEXTS):
            raise problem("the data set has neither a column of words nor one of texts", "data", ", ".join(names),
                          " or ".join((*COLUMNS["words"], "text", "prompt and completion", "messages")),
                          "rename the column that holds the text; images alone need OCR first")
        self.columns = {key: name for key, name in columns.items() if name}
        self.columns.update({key: key for key in KEYS if key in names and key not in self.columns})
        # The image as it is stored, not decoded and encoded again.
        image = self.columns.get("image")
        if hasattr(data, "with_format"):
            data = data.with_format(None)  # lists, not arrays
        self.data = data
        if image and type(self.features[image]).__name__ == "Image":
            self.data = data.cast_column(image, type(self.features[image])(decode=False))
        self.labels = self._names("labels")
        self.classes = self._names("label")

    def _names(self, key: str) -> Optional[List[str]]:
        feature = self.features.get(self.columns.get(key, ""))
        while feature is not None and not hasattr(feature, "names"):
            feature = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
        return list(feature.names) if feature is not None else None

    def write(self, box_format: Optional[str], places: Optional[Places]) -> Written:
        path = self.folder / FILE
        with open(path, "w", encoding="utf-8") as out:
            for number, row in enumerate(self.data):
                where = f"row {number}"
                page = self._page(row, number, where)
                if places is not None:
                    places.add(page)
                write_line(out, page, where)
        if box_format is None and self.evidence.largest:
            box_format = self.evidence.decide()[0]
        return Written(str(path), box_format, self.labels, "boxes" in self.columns or "ground_truth" in self.columns)

    def _page(self, row: Mapping[str, Any], number: int, where: str) -> Dict[str, Any]:
        page = {key: row[name] for key, name in self.columns.items() if row[name] is not None}
        if "ground_truth" in page:
            page["words"], page["boxes"], page["labels"] = cord_page(page.pop("ground_truth"), where)
        elif self.docvqa:
            page["questions"] = [question_of(row, where)]
        if "labels" in page and not isinstance(page["labels"], (list, tuple)):  # Hugging Face's collators call it so, too
            page["label"] = label_name(page.pop("labels"), self.labels, where)
        if "labels" in page:
            page["labels"] = [word_label(value, self.labels, where) for value in page["labels"]]
        if "label" in page and self.classes is not None and isinstance(page["label"], int):
            page["label"] = label_name(page["label"], self.classes, where)
        if "image" in page:
            page["image"] = _image(page["image"], self.folder, str(number), where)
            if "boxes" in page and page["boxes"]:
                with open(page["image"], "rb") as file:
                    size = image_size(file.read(1 << 16))
                self.evidence.add(page["boxes"], size, where)
        page.setdefault("id", str(number))
        return page
