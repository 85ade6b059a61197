"""Keywords as the command line has them."""

from __future__ import annotations

import enum
import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional

from ._options import ACCEPTED, OPTIONS, Option
from .errors import PlimsollError, UsageError
from .program import run_json


_PATHS = ("model", "tokenizer")  # of which transformers takes objects


def arguments_of(command: str, options: Dict[str, Any]) -> List[str]:
    """Returns `options` as the command line has them. Raises UsageError for a keyword that the command lacks."""
    known = OPTIONS[command]
    line = [command]
    for name, given in options.items():
        value = plain(given)
        if name in known:
            line.extend([] if value is None else _arguments(name, known[name], value))
        elif name not in ACCEPTED or command not in ("train", "plan"):
            raise _unknown(command, name)
        elif value is not None:
            # Of TrainingArguments, and without a meaning here: the program says why, or refuses the value.
            line.append(f"{_option(name)}={_json_or_text(value)}")
    return line


def _arguments(name: str, option: Option, value: Any) -> List[str]:
    if option.type == "flag":
        return [f"{option.option}={_truth(value, name)}"]
    if name in _PATHS and not isinstance(value, (str, bytes, os.PathLike)):
        raise UsageError("a keyword takes a path, not an object", where=name, found=type(value).__name__,
                         allowed="a directory, as save_pretrained writes it, or a preset's name",
                         remedy=f"save it first: {name}.save_pretrained('DIR'), then pass {name}='DIR'", exit_code=2)
    if name == "labels" and isinstance(value, Mapping):
        value = _names_by_number(value)
    several = None if isinstance(value, Mapping) else _several(value)
    values = [_json_or_text(value, option.type)] if several is None else [_text(each, option.type) for each in several]
    if not option.option.startswith("-"):
        return values
    if option.several or not values:  # an empty list asks for nothing, as in a config file
        return [f"{option.option}={each}" for each in values]
    # A name with a comma stands in a list in JSON.
    has_comma = several is not None and any("," in each for each in values)
    return [f"{option.option}={json.dumps(values, ensure_ascii=False) if has_comma else ','.join(values)}"]


def plain(value: Any) -> Any:
    """Returns an enumeration's value, and a number of NumPy or PyTorch as Python's own; anything else as it is."""
    if isinstance(value, enum.Enum):
        return value.value
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _several(value: Any) -> Optional[List[Any]]:
    """Returns the parts of a list, an array, a view or whatever else has some, in an order that is always the same."""
    if not _has_parts(value):
        return None
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)


def _has_parts(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes, os.PathLike))


def _json_or_text(value: Any, kind: str = "str") -> str:
    """Returns dicts, lists and booleans as JSON, as the program reads them, and anything else as text."""
    if isinstance(value, bool) or _has_parts(value):
        return json.dumps(value, default=_of_json, ensure_ascii=False)
    return _text(value, kind)


def _of_json(value: Any) -> Any:
    """Returns what stands in JSON for a value that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    several, single = _several(value), plain(value)
    if several is not None:
        return several
    return str(value) if single is value else single


def _names_by_number(labels: Mapping[Any, Any]) -> List[Any]:
    """Returns the names of `id2label` or `label2id` in the order of their numbers."""
    has_numbers = all(isinstance(plain(number), int) for number in labels.values())
    names = {str(number): name for name, number in labels.items()} if has_numbers else {str(key): labels[key] for key in labels}
    try:
        return [names[str(number)] for number in range(len(labels))]
    except KeyError as missing:
        raise UsageError("labels lack a name", where="labels",
                         found=f"no name of number {missing.args[0]} among {len(labels)}",
                         allowed="a list of names, or a dict as id2label or label2id, whose numbers count from 0",
                         remedy="pass the names as a list, in the order of their numbers", exit_code=2) from None


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _unknown(command: str, name: str) -> UsageError:
    return UsageError(f"unknown keyword {name}", where=f"plimsoll.{command}", found=name,
                      allowed=f"an option listed by plimsoll {command} --help, with underscores",
                      remedy=_remedy_for_unknown(command, name), exit_code=2)


def _remedy_for_unknown(command: str, name: str) -> str:
    """Returns what the program says to an option that it lacks: it knows those of other programs, too."""
    try:
        run_json([command, f"{_option(name)}=?"])
    except PlimsollError as error:
        if error.what.startswith("unknown option"):
            return re.sub(r"--[a-z0-9][a-z0-9-]*", lambda found: _keyword(command, found.group()), error.remedy)
    return f"omit it, or see plimsoll {command} --help"


def _keyword(command: str, option: str) -> str:
    name = option[2:].replace("-", "_")
    return name if name in OPTIONS[command] else option


def _truth(value: Any, name: str) -> str:
    """Returns a flag's value as the command line has it: True, 1 and "yes" say the same there. Raises UsageError."""
    text = str(value).lower()
    if text in ("true", "yes", "t", "y", "1"):
        return "true"
    if text in ("false", "no", "f", "n", "0"):
        return "false"
    raise UsageError("a keyword has an invalid value", where=name, found=repr(value), allowed="True or False",
                     remedy="pass a boolean", exit_code=2)


def _text(value: Any, kind: str) -> str:
    value = plain(value)
    if kind == "size" and isinstance(value, int):
        return f"{value}b"
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
