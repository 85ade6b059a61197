"""Compares predictions with those of one process: the same pages in the same order, with the same numbers."""

import json
from pathlib import Path


def pages_of(path):
    path = Path(path)
    files = sorted(path.glob("part-*")) if path.is_dir() else [path]
    pages = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    for page in pages:  # named from another folder
        page.pop("image", None)
    return pages


def compare(found, expected):
    """Prints how many pages agree, and returns the exit status."""
    found, expected = pages_of(found), pages_of(expected)
    same = sum(a == b for a, b in zip(found, expected))
    print(f"{same} of {len(expected)} pages as one process predicts them; {len(found)} written")
    return 0 if same == len(expected) == len(found) else 1
