"""The places of pages in data in memory: which page a result is of, and what messages call a page."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter, deque
from itertools import repeat
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from .errors import ProgramError
from .folders import FOLDER

FILE = "pages-in-memory.jsonl"
"""What files of data in memory are called. The folder of each is named as the keyword:
plimsoll-x1y2z3/eval_data/pages-in-memory.jsonl."""


def by_number(text: str) -> str:
    """Names pages of data in memory by their numbers in it, "page 1", not by lines of a file that nobody has seen.

    A page without an id has one of the program's, "line 2", which is left out, and so are copies of images.
    """
    if FILE not in text:
        return text

    def place(found: re.Match[str]) -> str:
        keyword, line, has_id = found.groups()
        if line is None:
            return keyword
        number = f"page {int(line) - 1}"
        return (number if keyword == "data" else f"{keyword}, {number}") + (", id '" if has_id else "")

    folder = re.escape(os.path.join(tempfile.gettempdir(), FOLDER))
    text = re.sub(rf", image {folder}\w+/\w+/images/[\w.]+", "", text)
    return re.sub(rf"{folder}\w+/(\w+)/{re.escape(FILE)}(?::(\d+)(?:, page 'line \d+')?(, page ')?)?", place, text)


Key = Union[str, Tuple[Optional[str], Optional[str]]]  # a page's id, or those of a pair


class Places:
    """Finds the place of each result in a list of pages. The program leaves out a page that it cannot read.

        places.add(page)                        # each page, before it is written
        for result in places.results(lines):    # None in the place of a page without a result
    """

    def __init__(self) -> None:
        self._results: List[Tuple[Optional[str], int]] = []  # the document of each, and the number of its pages
        self._pages: Dict[Key, Deque[Tuple[int, int, Optional[str]]]] = {}  # result, page in it, and its own id
        self._copies: Counter[str] = Counter()
        self._lines = 0

    def __len__(self) -> int:
        return len(self._results)

    def add(self, page: Dict[str, Any]) -> None:
        """Adds the next page or pair, and gives it an id of its own where an earlier one has the same."""
        self._lines += 1
        is_pair = not any(key in page for key in ("words", "text", "prompt", "completion", "messages"))
        document = None if is_pair else _name(page.get("document")) or None
        if document is None or not self._results or self._results[-1][0] != document:
            self._results.append((document, 0))
        pages = self._results[-1][1]
        self._results[-1] = (document, pages + 1)
        key, own = self._name_pair(page) if is_pair else self._name_page(page)
        self._pages.setdefault(key, deque()).append((len(self._results) - 1, pages, own))

    def _name_page(self, page: Dict[str, Any]) -> Tuple[Key, Optional[str]]:
        """Returns the id that the page is written with, and its own."""
        own = _id(page, f"line {self._lines}")
        if own is None:  # the program refuses the page
            return (None, None), None
        name = self._unused(own, lambda name: name)
        if "id" in page or name != own:
            page["id"] = name
        if name != own and isinstance(page.get("questions"), (list, tuple)):  # ids of questions are made of the page's
            page["questions"] = [_with_id(each, f"{own}-{n}") for n, each in enumerate(page["questions"])]
        return name, own

    def _name_pair(self, pair: Dict[str, Any]) -> Tuple[Key, Optional[str]]:
        """Returns the ids that the pair is written with, and the first one's own."""
        a, b = (_id(page, f"line {self._lines} {side}") if isinstance(page, Mapping) else _name(page)
                for side, page in (("a", pair.get("a")), ("b", pair.get("b"))))
        if a is None or not isinstance(pair["a"], Mapping):  # pairs that only name their pages are equal if their ids are
            return (a, b), a
        first = self._unused(a, lambda name: (name, b))
        if first != a:
            pair["a"] = {**pair["a"], "id": first}
        return (first, b), a

    def _unused(self, name: str, key: Callable[[str], Key]) -> str:
        free = name
        while key(free) in self._pages:
            self._copies[name] += 1
            free = f"{name}-{self._copies[name] + 1}"
        return free

    def results(self, lines: Iterable[Dict[str, Any]]) -> Iterator[Optional[Dict[str, Any]]]:
        """Yields a result for each page, or for pages that follow one another and share a document."""
        done = 0
        for line in lines:
            found: Dict[int, List[Optional[Dict[str, Any]]]] = {}
            for page in line["pages"] if "document" in line else [line]:
                if page is not None:
                    result, place = self._take(page)
                    found.setdefault(result, [None] * self._results[result][1])[place] = page
            for result, pages in found.items():
                yield from repeat(None, result - done)
                document = self._results[result][0]
                yield pages[0] if document is None else _document(document, pages)
                done = result + 1
        yield from repeat(None, len(self) - done)

    def _take(self, page: Dict[str, Any]) -> Tuple[int, int]:
        """Returns whose result it is, which is not asked for again, and restores the id."""
        is_pair = "id" not in page
        key: Key = (page["a"], page["b"]) if is_pair else page["id"]
        waiting = self._pages.get(key)
        if not waiting:
            raise ProgramError("a prediction is of no page of the list", found=str(key))
        result, place, own = waiting.popleft()
        page["a" if is_pair else "id"] = own
        return result, place


def _document(name: str, pages: List[Optional[Dict[str, Any]]]) -> Dict[str, Any]:
    """Joins the pages of a document as the program does, also where it has not counted the first or the last."""
    fields = [{**field, "page": number} for number, page in enumerate(pages) if page is not None
              for field in page.get("fields", ())]
    return {"document": name, "fields": fields, "pages": pages}


def _name(value: Any) -> Optional[str]:
    """Returns an id or a document's name as the program has it: a number as text; None for what is no name."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if value is None or isinstance(value, (bool, bytes, bytearray, list, tuple, dict)):
        return None
    return str(value)


def _id(page: Mapping[str, Any], otherwise: str) -> Optional[str]:
    """Returns a page's id as the program has it; None for one that it refuses."""
    value = page.get("id")
    return otherwise if value is None or value == "" else _name(value)


def _with_id(question: Any, name: str) -> Any:
    if not isinstance(question, Mapping) or question.get("id") is not None:
        return question
    return {**question, "id": name}
