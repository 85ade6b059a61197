"""FUNSD as it is published: folders with annotations/*.json and images/, where entities are linked.

    {"form": [{"id": 0, "label": "question", "box": [...], "words": [{"text": "Date:", "box": [...]}], "linking": [[0, 3]]}]}

A pair in `linking` leads from a header to its question, or from a question to its answer. It stands at both entities.
"""

import json

from .page import Page
from .problem import problem, shown

SPLITS = {"training_data": "train", "testing_data": "test"}
IMAGES = ("png", "jpg", "jpeg", "tif", "tiff")


def wrong(where, found, allowed):
    return problem("an annotation is not FUNSD's", where, found, allowed,
                   "correct the file, or download the data set again")


def field(entity, key, kind, where):
    value = entity.get(key) if isinstance(entity, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise wrong(where, f"{key!r}: {shown(value)}", f"{key!r}, a " + {list: "list", str: "text", int: "number"}[kind])
    return value


def read_box(word, where):
    box = field(word, "box", list, where)
    if len(box) != 4 or not all(isinstance(value, (int, float)) and abs(value) < 1e9 for value in box):
        raise wrong(where, f"'box': {shown(box)}", "[left, top, right, bottom] in pixels")
    return box


def read_links(form, numbers, where):
    """Returns the links between the entities with words, each once, and how many others there are."""
    links, dropped = set(), set()
    for i, entity in enumerate(form):
        for pair in field(entity, "linking", list, f"{where}, entity {i}"):
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(end, int) for end in pair):
                raise wrong(f"{where}, entity {i}", f"'linking': {shown(pair)}", "pairs of entities' ids")
            start, end = numbers.get(pair[0]), numbers.get(pair[1])
            if start is None or end is None or start == end:
                dropped.add(tuple(pair))
            else:
                links.add((start, end))
    return [list(link) for link in sorted(links)], len(dropped)


def annotations(folder):
    return sorted(path for path in (folder / "annotations").glob("*.json") if not path.name.startswith("."))


class FunsdFolder:
    box_format = "pixel"

    def __init__(self, path):
        self.path = path
        self.split = SPLITS.get(path.resolve().name, path.resolve().name)

    def __str__(self):
        return str(self.path)

    def image(self, name, where):
        for kind in IMAGES:
            path = self.path / "images" / f"{name}.{kind}"
            if path.is_file():
                return path.read_bytes()
        raise problem("an annotation has no image", where, "none", f"{self.path / 'images' / name}.png",
                      "download the images too")

    def page(self, path):
        where = str(path)
        try:
            form = field(json.loads(path.read_text(encoding="utf-8")), "form", list, where)
        except ValueError as error:
            raise wrong(where, str(error), 'JSON text with "form"')
        words, boxes, labels, entities, numbers = [], [], [], [], {}
        for i, entity in enumerate(form):
            here, start = f"{where}, entity {i}", len(words)
            label, number = field(entity, "label", str, here), field(entity, "id", int, here)
            for word in field(entity, "words", list, here):
                text = field(word, "text", str, here)
                if not text.strip():
                    continue
                boxes.append(read_box(word, here))
                labels.append("O" if label.upper() == "OTHER" else ("B-" if start == len(words) else "I-") + label.upper())
                words.append(text)
            if start == len(words):
                continue  # FUNSD has entities without words
            if number in numbers:
                raise wrong(here, f"id {number}, as another entity has", "an id for each entity")
            numbers[number] = len(entities)
            entities.append({"label": label, "start_word": start, "end_word": len(words)})
        links, dropped = read_links(form, numbers, where)
        return Page(where, path.stem, words, boxes, labels, self.image(path.stem, where) if words else b"", entities, links,
                    dropped)

    def pages(self, choose_names):
        choose_names(None)  # labels have names here
        for path in annotations(self.path):
            yield self.page(path)


def funsd_folders(path):
    """Returns the folders at or below a path that have annotations/*.json."""
    inside = [path / "annotations"] + sorted(path.rglob("annotations"))
    return list(dict.fromkeys(each.parent for each in inside if annotations(each.parent)))
