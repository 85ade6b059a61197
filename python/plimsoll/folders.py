"""Temporary folders of data in memory, which end with the last process that needs them."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Optional

FOLDER, LOCK = "plimsoll-", "lock"
"""How the name of such a folder begins, and the file in it that its users hold locked."""


class Folder:
    """A folder that is removed by `close`, or when Python ends, but only in the process that made it.

    A process that was forked from it has this object, too, and may end first. What a killed Python has left is removed
    when the next folder is made: nobody holds its lock. A program that reads on without its Python holds the lock as
    well, because it is given `lock`.
    """

    def __init__(self) -> None:
        remove_left_folders(tempfile.gettempdir())
        self.path = tempfile.mkdtemp(prefix=FOLDER)
        self.lock = _locked(Path(self.path))
        self._remove = weakref.finalize(self, _remove, self.path, self.lock, os.getpid())

    def close(self) -> None:
        self._remove()

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove(path: str, lock: Optional[int], owner: int) -> None:
    if lock is not None:
        os.close(lock)
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def _locked(folder: Path) -> Optional[int]:
    """Returns a descriptor of the folder's lock, which is held while any copy of it is open; None if a disk has no locks."""
    unlocked = folder / (LOCK + ".new")
    lock = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:  # such a folder stays where Python was killed
        os.close(lock)
        return None
    unlocked.rename(folder / LOCK)  # another process looks only at a lock that is held already, or whose holders ended
    return lock


@functools.lru_cache(maxsize=None)  # once is enough for those of earlier processes
def remove_left_folders(directory: str) -> None:
    """Removes folders in `directory` whose lock nobody holds."""
    for path in Path(directory).glob(FOLDER + "*/" + LOCK):
        try:
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # another user's, or just removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:  # it is held
            pass
        finally:
            os.close(lock)
