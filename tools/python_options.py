#!/usr/bin/env python3
"""Writes python/plimsoll/_options.py from the table that `plimsoll --options` prints, so that the two cannot differ.

  tools/python_options.py [--plimsoll PROGRAM]            writes the file
  tools/python_options.py [--plimsoll PROGRAM] --check    exits 1 if the file is another than would be written

Python's standard library only.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FILE = REPOSITORY / "python" / "plimsoll" / "_options.py"
# What the package says itself: its results are always JSON, and a file of options is the caller's own business.
OWN = {"json", "config"}
COMMANDS = ("check", "doctor", "eval", "generate", "plan", "predict", "serve", "train")
TYPES = {"flag": "bool", "int": "int", "float": "float", "str": "str", "path": "Path", "size": "Size"}

HEAD = '''"""The options of each command as keywords: the table that `plimsoll --options` prints.

Made by tools/python_options.py; do not edit.
"""

from __future__ import annotations

import os
from typing import Dict, FrozenSet, Literal, NamedTuple, Sequence, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
Size = Union[str, int]  # "3GiB", or bytes


class Option(NamedTuple):
    option: str  # as the command line has it
    type: str  # flag, int, float, str, path or size
    several: bool  # takes a list


'''


def annotation(option):
    kind = TYPES[option["type"]]
    if "choices" in option:
        kind = f"Literal[{', '.join(json.dumps(choice) for choice in option['choices'])}]"
    if option.get("several"):
        return f"Union[{kind}, Sequence[{kind}]]"
    return f"Union[{kind}, Sequence[str]]" if option["type"] == "str" and "choices" not in option else kind


def sentence(option):
    """Returns the option's description with its default, as the text of a docstring."""
    text = option["description"].replace("\\", "\\\\").replace('"""', "'''")
    return text + (f" (default: {option['default']})" if "default" in option else "")


def keywords(command):
    return [option for option in command["options"] if option["name"] not in OWN]


def typed(option):
    return [f"    {option['name']}: {annotation(option)}", f'    """{sentence(option)}"""']


def row(option):
    fields = (option["option"], option["type"], bool(option.get("several")))
    return f'    "{option["name"]}": Option{fields!r},'.replace("'", '"')


def text_of(table):
    """Writes a class and a table for each command; those of `plan` add to train's, whose options it takes."""
    commands = {command["name"]: keywords(command) for command in table["commands"] if command["name"] in COMMANDS}
    parts = [HEAD]
    for name in sorted(commands, key=lambda name: name == "plan"):
        options, base = commands[name], "TypedDict"
        if name == "plan":
            shared = [typed(option) for option in commands["train"]]
            options, base = [option for option in options if typed(option) not in shared], "TrainOptions"
        lines = [f"class {name.capitalize()}Options({base}, total=False):"]
        lines += [line for option in options for line in typed(option)]
        lines += ["", "", f"{name.upper()}: Dict[str, Option] = {{"]
        lines += ["    **TRAIN,"] if name == "plan" else []
        lines += [row(option) for option in options]
        parts.append("\n".join([*lines, "}", "", "", ""]))
    names = ", ".join(f'"{name}": {name.upper()}' for name in sorted(commands))
    accepted = "".join(f'    "{option["name"]}",\n' for option in table["elsewhere"]
                       if option["accepted"] != "never")
    return ("".join(parts) + f"OPTIONS: Dict[str, Dict[str, Option]] = {{{names}}}\n\n"
            "# Keywords of other programs that `train` and `plan` look at, though nothing here depends on them.\n"
            f"ACCEPTED: FrozenSet[str] = frozenset((\n{accepted}))\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", type=Path, default=REPOSITORY / "build" / "release" / "plimsoll")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    printed = subprocess.run([options.plimsoll, "--options"], capture_output=True, text=True, check=True).stdout
    text = text_of(json.loads(printed))
    if not options.check:
        FILE.write_text(text, encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
        sys.exit(f"{FILE} is another than the program's options: run tools/python_options.py")


if __name__ == "__main__":
    main()
