"""The program's errors as exceptions, each with the five fields of its message."""

from __future__ import annotations

from typing import Dict, Optional, Type


class PlimsollError(Exception):
    """What went wrong, where, what was found, what is allowed, and what to do; `exit_code` is the program's."""

    def __init__(self, what: str, where: str = "", found: str = "", allowed: str = "", remedy: str = "",
                 exit_code: int = 1, smallest_budget_bytes: Optional[int] = None):
        self.what, self.where, self.found, self.allowed, self.remedy = what, where, found, allowed, remedy
        self.exit_code = exit_code
        self.smallest_budget_bytes = smallest_budget_bytes
        names = (("where", where), ("found", found), ("allowed", allowed), ("to do", remedy))
        super().__init__("\n".join([what, *(f"  {name + ':':<9}{text}" for name, text in names if text)]))


class UsageError(PlimsollError, ValueError):
    """Keywords that are invalid or contradict each other."""


class DataError(PlimsollError, ValueError):
    """Bad data or a bad file."""


class BudgetError(PlimsollError, MemoryError):
    """It does not fit the memory budget; `smallest_budget_bytes` is what would."""


class EnvironmentFailure(PlimsollError, OSError):
    """A device, a disk, memory, or a place that must not be written to."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class DivergedError(PlimsollError, ArithmeticError):
    """Loss or gradients became NaN or infinite."""


class Interrupted(PlimsollError):
    """A signal ended the run, after a checkpoint was saved."""


class ProgramError(PlimsollError, RuntimeError):
    """A bug in Plimsoll, or a program that died."""


KINDS: Dict[int, Type[PlimsollError]] = {2: UsageError, 3: DataError, 4: BudgetError, 5: EnvironmentFailure,
                                         6: DivergedError}


def from_json(error: Dict[str, object]) -> PlimsollError:
    """Makes the exception for the object that the program prints as "error"."""
    code = int(error["exit_code"])  # type: ignore[call-overload]
    kind = Interrupted if code > 128 else KINDS.get(code, ProgramError)
    fields = {name: str(error.get(name, "")) for name in ("what", "where", "found", "allowed", "remedy")}
    smallest = error.get("smallest_budget_bytes")
    return kind(**fields, exit_code=code, smallest_budget_bytes=int(smallest) if smallest is not None else None)  # type: ignore[call-overload,arg-type]
