"""Finds and runs the program."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from pathlib import Path
from typing import Any, Callable, Deque, Dict, Iterator, Optional, Sequence

from .errors import EnvironmentFailure, PlimsollError, ProgramError, UsageError, from_json
from .log import log
from .places import by_number

BUNDLED = Path(__file__).parent / "bin" / "plimsoll"
"""Where a wheel has the program."""


def main() -> None:
    """Becomes the program: what the command `plimsoll` of an installed package runs."""
    if not BUNDLED.is_file():
        sys.exit(f"error: this package was installed without its program: {BUNDLED} is missing")
    os.execve(BUNDLED, ["plimsoll", *sys.argv[1:]], environment())


def environment() -> Dict[str, str]:
    """Returns this process's environment, in which the program finds the Python that has this package (plimsoll.pdf)."""
    # An embedded interpreter may not know its own path.
    return {"PLIMSOLL_PDF_PYTHON": sys.executable, **os.environ} if sys.executable else dict(os.environ)


def executable() -> str:
    """Returns the path of `plimsoll`: $PLIMSOLL, else the one in this package, else PATH's."""
    given = os.environ.get("PLIMSOLL")
    if given:
        if not os.path.isfile(given) or not os.access(given, os.X_OK):
            raise EnvironmentFailure("$PLIMSOLL names no program", where="PLIMSOLL", found=given,
                                     allowed="the path of a built plimsoll",
                                     remedy="correct the variable, or unset it to use the package's program", exit_code=5)
        return given
    if BUNDLED.is_file():
        return str(BUNDLED)
    found = shutil.which("plimsoll")
    if found:
        return found
    raise EnvironmentFailure("the program plimsoll is not installed", where="PATH", found="no such file",
                             remedy="set $PLIMSOLL to the path of a built plimsoll, or pip install the wheel file that "
                                    "scripts/build_wheel.sh makes", exit_code=5)


@functools.lru_cache(maxsize=None)
def version_of(program: str) -> str:
    """Returns what that program says its version is."""
    said = subprocess.run([program, "--version"], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    words = said.stdout.decode(errors="replace").split()
    if said.returncode != 0 or len(words) < 2:
        raise ProgramError("the program does not say its version", where=program,
                           found=f"exit code {said.returncode}, {' '.join(words[:4]) or 'no output'}",
                           remedy="build or install it again", exit_code=said.returncode)
    return words[1]


_processes: "weakref.WeakSet[Process]" = weakref.WeakSet()


def _forget_processes() -> None:
    """Closes what a process that was forked has of its parent's programs: they end when the parent closes its end."""
    for process in list(_processes):
        process.forget()


os.register_at_fork(after_in_child=_forget_processes)


class Process:
    """The program while it runs: its lines of JSON on one side, what it says to people on the other."""

    def __init__(self, arguments: Sequence[str], takes_requests: bool = False,
                 at_exit: Optional[Callable[[], None]] = None, locks: Sequence[int] = ()):
        """`at_exit` ends the program if Python ends first; by default it is killed. It holds `locks` as long as it runs."""
        if any("\0" in argument for argument in arguments):
            raise UsageError("a keyword has a NUL, which no argument of a program can hold", where="plimsoll",
                             found=repr(next(each for each in arguments if "\0" in each)), remedy="remove it", exit_code=2)
        # A session of its own: Ctrl-C reaches Python alone, which then stops the program (Run.stop).
        self._process = subprocess.Popen([executable(), *arguments], stdin=subprocess.PIPE if takes_requests else subprocess.DEVNULL,
                                         stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
                                         start_new_session=True, pass_fds=locks,
                                         # A run whose Python is killed saves and ends, too.
                                         env={**environment(), "PLIMSOLL_PARENT": str(os.getpid())})
        self._said: Deque[str] = deque(maxlen=40)
        # Before the interpreter ends, which would abort if the thread below were writing a warning then.
        self._owner = os.getpid()
        _processes.add(self)
        self._at_exit = at_exit or self.kill
        atexit.register(self._end_at_exit)
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def _read_errors(self) -> None:
        error = False  # an error's further lines follow it; they come as an exception
        assert self._process.stderr is not None
        for line in self._process.stderr:
            line = by_number(line.rstrip("\n"))
            self._said.append(line)
            error = error and line.startswith("  ") or line.startswith("error: ")
            if error:
                continue
            if line.startswith("warning: "):
                log.warning(line[len("warning: "):])
            else:
                log.info(line)

    def forget(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                stream.buffer.raw.close()  # takes no lock, which another thread may have held

    def _end_at_exit(self) -> None:
        if os.getpid() != self._owner:  # the process that was forked is not the program's
            return
        try:
            self._at_exit()
        except Exception:  # another thread is reading its lines
            self.kill()

    def lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        return map(by_number, self._process.stdout)

    def send(self, line: str) -> None:
        """Sends a request, of a program that takes them."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self.failure(self.wait()) from None

    def end_requests(self) -> None:
        """Ends a program that takes requests, and waits for it. May be called twice."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        self._close_requests()
        self.wait()

    def _close_requests(self) -> None:
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
        except BrokenPipeError:  # it has ended already
            pass

    def is_running(self) -> bool:
        return self._process.poll() is None

    def interrupt(self, signal_number: int = signal.SIGINT) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal_number)

    def wait(self) -> int:
        code = self._process.wait()
        self._reader.join()
        atexit.unregister(self._end_at_exit)
        self._close_requests()
        assert self._process.stdout is not None and self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()
        return code

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()

    def failure(self, code: int) -> PlimsollError:
        """Returns what a process that left no "error" object failed with."""
        if code == -signal.SIGKILL:
            return ProgramError("plimsoll was killed", found="signal 9, as the system sends it for want of memory",
                                remedy="see `dmesg | plimsoll doctor -`; pass a smaller budget", exit_code=code)
        what = f"plimsoll died of signal {-code}" if code < 0 else f"plimsoll ended with exit code {code}"
        return ProgramError(what, found="\n".join(self._said), exit_code=code)


def run_json(arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> Dict[str, Any]:
    """Runs a command to its end and returns the object that it printed. Raises its error."""
    process = Process([*arguments, "--json"])
    try:
        text = "".join(process.lines())
        code = process.wait()
    except BaseException:
        process.kill()
        raise
    result: Optional[Dict[str, Any]] = None
    try:
        result = json.loads(text)
    except ValueError:
        pass
    if result is not None and "error" in result and isinstance(result["error"], dict):
        raise from_json(result["error"])
    if code not in accepted or result is None:
        raise process.failure(code)
    return result
