"""A model that stays in memory between calls."""

from __future__ import annotations

import json
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from ._options import OPTIONS
from .arguments import arguments_of
from .data import Data, without_images_of, write_data
from .errors import PlimsollError, UsageError, from_json
from .folders import Folder
from .log import log
from .places import Places
from .program import Process

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Path, ServeOptions


class _Refused(Exception):
    """A request was refused, and the program waits for the next one."""

    def __init__(self, error: PlimsollError):
        super().__init__(str(error))
        self.error = error


_predictors: "weakref.WeakSet[Predictor]" = weakref.WeakSet()


def _renew_predictors() -> None:
    for each in list(_predictors):
        each._renew()


os.register_at_fork(after_in_child=_renew_predictors)


def _absolute(path: Any) -> Any:
    """Returns the absolute path of what exists; anything else, such as a preset's name, as it is."""
    is_path = isinstance(path, (str, bytes, os.PathLike))
    return os.path.abspath(os.fsdecode(path)) if is_path and os.path.exists(path) else path


class Predictor:
    """Predicts pages in a process of its own, which holds the model until `close`.

        with plimsoll.predictor("run") as predict:
            for batch in batches:
                pages = predict(batch)

    Calls from several threads wait for one another. A predictor can be pickled: what is unpickled, on another worker of
    Ray or Spark, begins a process of its own there, and so does the first call in a process that was forked. A call
    that is interrupted ends the process, because its answer is still to come; the next call begins another one.
    """

    def __init__(self, model: Path, options: Optional[Dict[str, Any]] = None):
        # Where it begins again, after os.chdir or on another worker, relative paths would lead elsewhere.
        paths = {name for name, option in OPTIONS["serve"].items() if option.type == "path"}
        self._given = (_absolute(model), {name: _absolute(value) if name in paths else value
                                          for name, value in (options or {}).items()})
        self._closed = False
        self._renew()
        self._open()
        _predictors.add(self)

    def _renew(self) -> None:
        """Begins as a process that was forked does: the program and its pipes are the parent's."""
        self._lock = threading.Lock()
        self._process: Optional[Process] = None

    def _open(self) -> None:
        self._process = Process([*arguments_of("serve", {"model": self._given[0], **self._given[1]}), "--json"],
                                takes_requests=True)
        self._lines: Iterator[str] = self._process.lines()
        try:
            self._answer(self._process)  # whether the model can be opened
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        """Ends a program that gives no further answer; the next call begins another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def __call__(self, data: Data) -> List[Optional[Dict[str, Any]]]:
        """Returns the predictions of the pages, as docs/predictions.md has them, in their order.

        `data` is what `predict` takes: a path, dicts, or a data set. A page that cannot be read has a warning. A path
        has no result for it; dicts and data sets have None, and otherwise a result for each page, or for pages that
        follow one another and share a `document`. Raises DataError if all are refused.
        """
        if self._closed:
            raise UsageError("a predictor was called after it was closed", where="plimsoll.predictor",
                             found=self._given[0], remedy="open another one", exit_code=2)
        if isinstance(data, (list, tuple)) and not data:
            return []
        with self._lock, Folder() as folder:
            if self._process is None:
                self._open()
            process = self._process
            assert process is not None
            request: Dict[str, Any] = {}
            places = Places()
            if isinstance(data, (str, os.PathLike)):
                request["data"] = os.path.abspath(os.fspath(data))
            else:
                written = write_data(data, os.path.join(folder.path, "data"), self._given[1].get("box_format"), places)
                request["data"] = written.path
                if written.box_format:
                    request["box_format"] = written.box_format
            done = False
            try:
                process.send(json.dumps(request))
                pages = self._answer(process, "its result is None" if places else "the page is left out")
                done = True
            except _Refused as refused:  # the program answers the next request
                done = True
                raise refused.error from None
            finally:
                if not done:  # Ctrl-C, say, or the program has ended
                    self._end()
            pages = [without_images_of(page, folder.path) for page in pages]
            return list(places.results(pages)) if places else list(pages)

    def _answer(self, process: Process, left: str = "") -> List[Dict[str, Any]]:
        """Returns the lines of an answer. `left` says what becomes of a page that could not be read."""
        pages: List[Dict[str, Any]] = []
        for line in self._lines:
            if line.rstrip() == "{":  # an error that ends the program has several lines
                raise from_json(json.loads(line + "".join(self._lines))["error"])
            answer = json.loads(line)
            if "error" in answer:
                raise _Refused(from_json(answer["error"]))
            for skipped in answer.get("done", {}).get("skipped_pages", ()):
                log.warning("%s: %s (found: %s); %s", skipped["where"], skipped["what"], skipped["found"], left)
            if "ready" in answer or "done" in answer:
                return pages
            pages.append(answer)
        raise process.failure(process.wait())

    def close(self) -> None:
        """Ends the process and frees its memory."""
        self._closed = True
        process, self._process = self._process, None
        if process is not None:
            process.end_requests()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Predictor, self._given)


def predictor(model: Path, **options: Unpack[ServeOptions]) -> Predictor:
    """Opens a model once for many calls, with the options of `plimsoll serve`."""
    return Predictor(model, dict(options))
