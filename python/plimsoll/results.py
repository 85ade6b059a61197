"""What commands return. `raw` is the whole object that the program printed (docs/json.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union


@dataclass(frozen=True)
class Plan:
    """A plan that fits. Sizes are in bytes."""

    predicted_peak_bytes: int
    budget_bytes: int
    micro_batch_size: int
    gradient_accumulation_steps: int
    seconds_per_update: float
    items: Dict[str, int]  # what the peak is made of
    raw: Dict[str, Any] = field(repr=False)

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> Plan:
        return cls(raw["predicted_peak_bytes"], raw["budget_bytes"], raw["micro_batch_size"],
                   raw["gradient_accumulation_steps"], raw["seconds_per_update"],
                   {item["name"]: item["bytes"] for item in raw["items"] if item["bytes"]}, raw)


def plans_of(raw: Dict[str, Any]) -> Union[Plan, List[Plan]]:
    """Returns the plan, or those of a sweep that fit, the smallest budget or the fewest processes first."""
    for sweep in ("sweep", "sweep_ranks"):
        if isinstance(raw.get(sweep), list):
            return [Plan.from_json(each) for each in raw[sweep] if "predicted_peak_bytes" in each]
    return Plan.from_json(raw)


@dataclass(frozen=True)
class Finding:
    """One kind of fault in the data."""

    severity: str  # error, warning or info
    kind: str
    what: str
    count: int
    found: str
    allowed: str
    remedy: str
    places: List[str]

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> Finding:
        return cls(**{name: raw[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Check:
    pages: int
    words: int
    errors: int
    warnings: int
    findings: List[Finding]
    raw: Dict[str, Any] = field(repr=False)

    @property
    def ok(self) -> bool:
        return self.errors == 0

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> Check:
        findings = [Finding.from_json(each) for each in raw["findings"]]
        return cls(raw["pages"], raw["words"], raw["errors"], raw["warnings"], findings, raw)


@dataclass(frozen=True)
class Evaluation:
    """Scores by name ("f1", "accuracy", …), and those of each label."""

    loss: Optional[float]
    pages: int
    scores: Dict[str, float]
    per_label: Dict[str, Dict[str, float]]
    raw: Dict[str, Any] = field(repr=False)

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> Evaluation:
        beside = {"loss", "pages", "seconds", "step", "epoch", "support", "missed_words", "predicted_peak_bytes",
                  "measured_peak_bytes"}
        scores = {name: value for name, value in raw.items()
                  if isinstance(value, (int, float)) and name not in beside}
        return cls(raw.get("loss"), raw["pages"], scores, raw.get("per_label", {}), raw)


@dataclass(frozen=True)
class Training:
    """A run that has ended by itself."""

    output_dir: str
    steps: int
    loss: Optional[float]
    evaluation: Optional[Evaluation]
    best_metric: Optional[float]
    best_step: Optional[int]
    predicted_peak_bytes: int
    measured_peak_bytes: int
    raw: Dict[str, Any] = field(repr=False)

    @classmethod
    def from_json(cls, output_dir: str, raw: Dict[str, Any]) -> Training:
        evaluation = raw.get("evaluation")
        return cls(output_dir, raw["steps"], raw.get("loss"), Evaluation.from_json(evaluation) if evaluation else None,
                   raw.get("best_metric"), raw.get("best_step"), raw["predicted_peak_bytes"],
                   raw["measured_peak_bytes"], raw)


@dataclass(frozen=True)
class Generation:
    """A text that was gone on with."""

    prompt: str  # as the model read it
    completion: str
    tokens: List[int]  # the completion's
    finish_reason: str  # "stop": a token that ends texts; "length": as many tokens as were asked for
    raw: Dict[str, Any] = field(repr=False)

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> Generation:
        return cls(raw["prompt"], raw["completion"], raw["tokens"], raw["finish_reason"], raw)
