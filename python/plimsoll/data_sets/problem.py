"""Errors of conversion, in the program's form."""

from ..errors import from_json


def problem(what, where="", found="", allowed="", remedy="", code=3):
    """Returns the exception for an exit code of the program: 2 usage, 3 bad data or file, 5 disk or packages."""
    return from_json({"exit_code": code, "what": what, "where": where, "found": found, "allowed": allowed,
                      "remedy": remedy})


def shown(value):
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."
