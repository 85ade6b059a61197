"""CORD: the ground truth of a page is JSON text, in which a line has a category and words with corners."""

import json

from .problem import problem


def cord_page(text, where):
    """Returns words, boxes and labels of one CORD ground truth: a line's words have its category, keys are "O"."""
    try:
        truth = json.loads(text)
        lines = truth["valid_line"]
    except (TypeError, ValueError, KeyError) as error:
        raise problem("a ground truth is not CORD's", where, f"{type(error).__name__}: {error}",
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
        raise problem("a ground truth is not CORD's", where, f"{type(error).__name__}: {error}",
                      'lines with "category" and "words", words with "text" and "quad"',
                      "convert such a data set by a script of its own")
    size = (truth.get("meta") or {}).get("image_size") or {}
    # Corners were measured by hand and may lie a little outside the picture.
    if isinstance(size.get("width"), int) and isinstance(size.get("height"), int):
        edges = (size["width"], size["height"]) * 2
        boxes = [[min(max(value, 0), edge) for value, edge in zip(box, edges)] for box in boxes]
    return words, boxes, labels
