"""A model that stays in memory between calls."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from .data import Data, write_data
from .errors import from_json
from .program import Process, arguments_of, log

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Path, ServeOptions


class Predictor:
    """Predicts pages in a process of its own, which holds the model until `close`.

        with plimsoll.predictor("run") as predict:
            for batch in batches:
                pages = predict(batch)

    Calls from several threads wait for one another. A predictor can be pickled: what is unpickled, on another worker of
    Ray or Spark, begins a process of its own there.
    """

    def __init__(self, model: Path, options: Optional[Dict[str, Any]] = None):
        self._given = (os.fspath(model), dict(options or {}))
        self._lock = threading.Lock()
        self._process = Process([*arguments_of("serve", {"model": model, **self._given[1]}), "--json"],
                                takes_requests=True)
        self._lines: Iterator[str] = self._process.lines()
        try:
            self._answer()  # whether the model can be opened
        except BaseException:
            self._process.kill()
            raise

    def __call__(self, data: Data) -> List[Dict[str, Any]]:
        """Returns the predictions of the pages, as docs/predictions.md has them, in their order.

        `data` is what `predict` takes: a path, dicts, or a data set. A page that cannot be read is left out, with a
        warning. Raises DataError if all are refused.
        """
        if isinstance(data, (list, tuple)) and not data:
            return []
        with self._lock, tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
            request: Dict[str, Any] = {}
            if isinstance(data, (str, os.PathLike)):
                request["data"] = os.path.abspath(os.fspath(data))
            else:
                written = write_data(data, os.path.join(folder, "pages"), self._given[1].get("box_format"))
                request["data"] = written.path
                if written.box_format:
                    request["box_format"] = written.box_format
            self._process.send(json.dumps(request))
            return self._answer()

    def _answer(self) -> List[Dict[str, Any]]:
        pages: List[Dict[str, Any]] = []
        for line in self._lines:
            if line.rstrip() == "{":  # an error that ends the program has several lines
                raise from_json(json.loads(line + "".join(self._lines))["error"])
            answer = json.loads(line)
            if "error" in answer:
                raise from_json(answer["error"])
            for skipped in answer.get("done", {}).get("skipped_pages", ()):
                log.warning("%s: %s (found: %s); the page is left out", skipped["where"], skipped["what"], skipped["found"])
            if "ready" in answer or "done" in answer:
                return pages
            pages.append(answer)
        raise self._process.failure(self._process.wait())

    def close(self) -> None:
        """Ends the process and frees its memory."""
        self._process.end_requests()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Predictor, self._given)


def predictor(model: Path, **options: Unpack[ServeOptions]) -> Predictor:
    """Opens a model once for many calls, with the options of `plimsoll serve`."""
    return Predictor(model, dict(options))
