"""What a run says while it goes: one object for each line of `train --json` (docs/json.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from .results import Evaluation, Finding, Plan


@dataclass(frozen=True)
class Event:
    raw: Dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Planned(Event):
    """Before the first update; again if the run falls back to another precision."""

    plan: Plan


@dataclass(frozen=True)
class Step(Event):
    """Every `logging_steps` updates; `loss` is the mean since the last one."""

    step: int
    total_steps: int
    epoch: float
    loss: Optional[float]
    learning_rate: float
    grad_norm: Optional[float]
    pages_per_second: float
    data_wait: float  # share of the time that the step waited for data
    seconds_left: float
    resident_bytes: int


@dataclass(frozen=True)
class Evaluated(Event):
    step: int
    epoch: float
    evaluation: Evaluation


@dataclass(frozen=True)
class Checkpoint(Event):
    step: int
    path: str


@dataclass(frozen=True)
class Warned(Event):
    """The program warns; the logger `plimsoll` has it too."""

    message: str


@dataclass(frozen=True)
class Found(Event):
    """What the check of the data found, before the first update."""

    finding: Finding


@dataclass(frozen=True)
class End(Event):
    """The model is saved."""


def from_json(raw: Dict[str, Any]) -> Event:
    kind = raw["event"]
    if kind == "plan":
        return Planned(raw, Plan.from_json(raw))
    if kind == "step":
        return Step(raw, **{name: raw[name] for name in Step.__dataclass_fields__ if name != "raw"})
    if kind == "evaluation":
        return Evaluated(raw, raw["step"], raw["epoch"], Evaluation.from_json(raw))
    if kind == "checkpoint":
        return Checkpoint(raw, raw["step"], raw["path"])
    if kind == "warning":
        return Warned(raw, raw["message"])
    if kind == "finding":
        return Found(raw, Finding.from_json(raw))
    return End(raw) if kind == "end" else Event(raw)
