"""A training run: events while it goes, and its end."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any, Dict, Generator, Iterable, Iterator, Optional, Protocol, Sequence

from . import events
from .errors import Interrupted, from_json
from .events import Event
from .folders import Folder
from .log import log
from .program import Process
from .progress import ProgressBar
from .results import Training


class Callback(Protocol):
    """Whatever takes an event, and the run that it is of: `run.stop()` ends it with a checkpoint.

    If it has a method `close`, that is called once the run has ended, in whatever way.
    """

    def __call__(self, event: Event, run: "Run") -> None: ...


class Run:
    """A run that goes on in a process of its own.

        for event in run:            # each event as it happens; the loop ends with the run
            ...
        training = run.wait()        # to the end, without looking at events

    Ctrl-C, and an error of a callback, stop the run as `stop` does. An error of the run is raised from the loop or from
    `wait`. A loop that is left early leaves the run waiting for its reader: go on with `wait`, or end it with `close`,
    which another thread may call, too.
    """

    def __init__(self, arguments: Sequence[str], output_dir: str, callbacks: Iterable[Callback], progress: bool,
                 directory: Optional[Folder] = None):
        self.output_dir = output_dir
        self._callbacks = list(callbacks)
        self._directory = directory  # of data that was written for this run
        self._bar = ProgressBar() if progress else None
        self._result: Optional[Training] = None
        self._stopped = False
        self._interrupted = False
        self._code: Optional[int] = None
        self._failure: Optional[Exception] = None
        # A run that outlives Python still reads the data while it saves.
        self._process = Process([*arguments, "--json"], at_exit=self._end_with_python,
                                locks=[directory.lock] if directory is not None and directory.lock is not None else [])
        self._lock = threading.RLock()  # of those that read events, or close their source
        self._events = self._read()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        with self._lock:
            try:
                return next(self._events)
            except StopIteration:
                raise
            except Exception as error:
                self._failure = error
                raise

    def _read(self) -> Generator[Event, None, None]:
        failure: Optional[Exception] = None
        try:
            for line in self._process.lines():
                raw: Dict[str, Any] = json.loads(line)
                if raw.get("event") == "error":
                    failure = from_json(raw["error"])
                    continue
                event = events.from_json(raw)
                if isinstance(event, events.End):
                    self._result = Training.from_json(self.output_dir, raw)
                if self._bar:
                    self._bar.show(event)
                for callback in self._callbacks:
                    callback(event, self)
                yield event
        except BaseException:  # of a callback, Ctrl-C, or a loop that was left
            self._interrupt()
            raise
        finally:
            code = self._end()
        # A signal before the first update ends the program without a word.
        if self._stopped and (isinstance(failure, Interrupted) or code == -signal.SIGINT):
            return
        if failure is not None:
            raise failure
        if self._result is None:
            raise self._process.failure(code)

    def _end(self) -> int:
        if self._code is not None:
            return self._code
        for _ in self._process.lines():  # what it still writes while it saves
            pass
        self._code = self._process.wait()
        if self._bar:
            self._bar.close()
        if self._directory is not None:
            self._directory.close()
        for callback in self._callbacks:  # those that hold something
            close = getattr(callback, "close", None)
            if close is not None:
                close()
        return self._code

    def stop(self) -> None:
        """Ends the run after the update that it is in, with a checkpoint to resume from. Returns at once."""
        self._stopped = True
        self._interrupt()

    def _end_with_python(self) -> None:
        if self._process.is_running():
            log.warning("Python ends before the run in %s does: it ends with a checkpoint. run.wait() waits for its end",
                        self.output_dir)
        self._interrupt()
        self._end()

    def _interrupt(self) -> None:
        if not self._interrupted:  # a second signal would end the program before it has saved
            self._interrupted = True
            self._process.interrupt(signal.SIGINT)

    def close(self) -> None:
        """Stops the run, waits for its checkpoint, and forgets what it still says. A callback's call only stops it."""
        self.stop()
        with self._lock:
            if not self._events.gi_running:  # it runs while it calls a callback, and then ends the run itself
                self._events.close()
                self._end()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def wait(self) -> Optional[Training]:
        """Goes through the remaining events and returns the result; None after `stop`.

        Raises the error that has ended the run, however often it is called.
        """
        for _ in self:
            pass
        if self._failure is not None:
            raise self._failure
        return self._result

    @property
    def result(self) -> Optional[Training]:
        """The result, once the run has ended by itself."""
        return self._result
