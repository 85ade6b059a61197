"""Labels of words: from numbers to names."""

import json
import pathlib
import re

from .problem import problem, shown


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
        raise problem("the file of labels cannot be read", path, str(error), "UTF-8 text, one label name per line")
    names = [name.strip() for name in re.split(r"[,\n]", text) if name.strip()]
    twice = {name for name in names if names.count(name) > 1}
    if not names or twice:
        raise problem("the file of labels is not a list of names", path, f"{sorted(twice)} twice" if twice else "no name",
                      "one label name per line, each once")
    return names


def word_label(value, names, where):
    """Returns the name of a word's label, or None if it is not known: null, or -100 as Hugging Face's losses have it."""
    if value is None or (isinstance(value, int) and value == -100):
        return None
    return label_name(value, names, where)


def class_label(value, names, where):
    """Returns the name of a page's class, or those of several; anything else than numbers as it is."""
    if isinstance(value, (list, tuple)):
        return [class_label(each, names, where) for each in value]
    return label_name(value, names, where) if isinstance(value, int) and not isinstance(value, bool) else value


def label_name(value, names, where):
    if isinstance(value, str):
        if not value:
            raise problem("a label has no name", where, "''", "a name such as O or B-TOTAL", "correct the data set")
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise problem("a label is neither a name nor a number", where, shown(value), "a string or a whole number",
                      "correct the data set")
    if names is None:
        raise problem("labels are numbers, but their names are not given", where, str(value),
                      "names in the parquet's metadata (ClassLabel), or --labels FILE",
                      "copy the names from the data set's card into a file, one per line, and pass --labels FILE")
    if not 0 <= value < len(names):
        raise problem("a label's number has no name", where, str(value), f"0 to {len(names) - 1} ({len(names)} labels)",
                      "name all labels, in their order, in --labels FILE")
    return names[value]
