"""Helpers that the benchmarks share: they find the built program and run it. Python's standard library only."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PLIMSOLL = REPOSITORY / "build" / "release" / "plimsoll"
MIB = 1 << 20


def run(program, *arguments, allowed=(0,)):
    """Runs to the end, output kept; any other exit code than those allowed (None: all) ends the script with what was
    printed."""
    command = [str(program), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True)
    if allowed is not None and result.returncode not in allowed:
        sys.exit(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result


def words_of(result):
    """Returns the message of a failed program, without the warnings before it."""
    text = (result.stderr or result.stdout).strip()
    return text[max(0, text.find("error: ")):][-2000:]


def holds(name, found, bar, does):
    """Prints a figure beside its bar, and returns whether it holds."""
    print(f"{name}: {found}; bar: {bar}; {'holds' if does else 'MISSED'}", flush=True)
    return does
