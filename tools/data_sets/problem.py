"""Errors in plimsoll's form."""


class Problem(Exception):
    """An error in plimsoll's form: what went wrong, where, what was found, what is allowed, what to do."""

    def __init__(self, what, where="", found="", allowed="", remedy="", code=3):
        lines = [f"error: {what}"]
        for name, value in (("where", where), ("found", found), ("allowed", allowed), ("to do", remedy)):
            if value != "":
                lines.append(f"  {name + ':':<8} {value}")
        super().__init__("\n".join(lines))
        self.code = code


def shown(value):
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."
