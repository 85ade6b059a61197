"""Callbacks that report a run to experiment trackers, under the names that Hugging Face's Trainer reports.

    run = plimsoll.train(..., callbacks=[WandbCallback(project="receipts")])

Each imports its tracker when the run begins. Keywords go to the tracker's own beginning of a run: `wandb.init`,
`mlflow.start_run` or `trackio.init`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict

from .events import End, Evaluated, Event, Planned, Step

if TYPE_CHECKING:
    from .training import Run

_OF_STEP = ("loss", "grad_norm", "learning_rate", "epoch", "pages_per_second", "data_wait")


def metrics_of(event: Event) -> Dict[str, float]:
    """Returns what a tracker shows of an event: "train/loss", "eval/f1"; empty for other events."""
    if isinstance(event, Step):
        values = {f"train/{name}": getattr(event, name) for name in _OF_STEP}
        values["memory/resident_mib"] = event.resident_bytes / 2**20
        return {name: value for name, value in values.items() if value is not None}
    if isinstance(event, Evaluated):
        scores = dict(event.evaluation.scores)
        if event.evaluation.loss is not None:
            scores["loss"] = event.evaluation.loss
        return {f"eval/{name}": value for name, value in scores.items()}
    return {}


def config_of(event: Planned, output_dir: str) -> Dict[str, Any]:
    """Returns the run's options, and what its plan is."""
    config: Dict[str, Any] = {}
    try:
        with open(os.path.join(output_dir, "args.json"), encoding="utf-8") as file:
            config.update(json.load(file)["options"])
    except (OSError, ValueError, KeyError):
        pass  # they are in the run's directory only where the run could write them
    plan = event.plan
    config["plan"] = {"predicted_peak_bytes": plan.predicted_peak_bytes, "budget_bytes": plan.budget_bytes,
                      "micro_batch_size": plan.micro_batch_size}
    return config


class _Tracker:
    def __init__(self, **options: Any):
        self._options = options
        self._begun = False

    def __call__(self, event: Event, run: Run) -> None:
        if isinstance(event, Planned) and not self._begun:
            self.begin(config_of(event, run.output_dir))
            self._begun = True
        values = metrics_of(event)
        if values and self._begun:
            self.log(values, event.raw["step"])
        if isinstance(event, End):
            self.close()

    def close(self) -> None:
        """Ends the tracker's run; the package calls it when the training has ended in any way."""
        if self._begun:
            self._begun = False
            self.end()

    def begin(self, config: Dict[str, Any]) -> None:
        raise NotImplementedError

    def log(self, values: Dict[str, float], step: int) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError


class WandbCallback(_Tracker):
    """Weights & Biases."""

    def begin(self, config: Dict[str, Any]) -> None:
        import wandb

        self._run = wandb.init(**{"config": config, **self._options})

    def log(self, values: Dict[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def end(self) -> None:
        self._run.finish()


class TrackioCallback(_Tracker):
    """Trackio."""

    def begin(self, config: Dict[str, Any]) -> None:
        import trackio

        self._trackio = trackio
        trackio.init(**{"project": "plimsoll", "config": config, **self._options})

    def log(self, values: Dict[str, float], step: int) -> None:
        self._trackio.log(values, step=step)

    def end(self) -> None:
        self._trackio.finish()


class MLflowCallback(_Tracker):
    """MLflow."""

    def begin(self, config: Dict[str, Any]) -> None:
        import mlflow

        self._mlflow = mlflow
        mlflow.start_run(**self._options)
        longest = 500  # characters of a value, as MLflow's stores take
        mlflow.log_params({name: str(value)[:longest] for name, value in config.items() if value not in (None, "")})

    def log(self, values: Dict[str, float], step: int) -> None:
        self._mlflow.log_metrics(values, step=step)

    def end(self) -> None:
        self._mlflow.end_run()
