"""What a run says while it goes: one object for each line of `train --json` (docs/json.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from .results import Evaluation, Plan


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
    return End(raw) if kind == "end" else Event(raw)
