"""Fine-tune document transformers inside a memory budget: the program `plimsoll` from Python.

    import plimsoll

    plan = plimsoll.plan(model="./layoutlmv3-base", data="train.jsonl", budget="3GiB", bf16=True)
    run = plimsoll.train(model="./layoutlmv3-base", data=dataset["train"], eval_data=dataset["test"], output_dir="run")
    for event in run:
        ...
    for page in plimsoll.predict(model="run", data="scans.jsonl"):
        ...

Keywords are the command line's options with underscores. Data is a path, a list of dicts, or a `datasets.Dataset`.
Errors are exceptions with the five fields of the program's messages. Nothing but the standard library is needed, except
for what a caller hands in (Pillow for images, `datasets` for data sets).
"""

from .api import Predictions, check, doctor, evaluate, generate, plan, predict, train
from .callbacks import MLflowCallback, TrackioCallback, WandbCallback
from .errors import (BudgetError, DataError, DivergedError, EnvironmentFailure, Interrupted, PlimsollError, ProgramError,
                     UsageError)
from .events import Checkpoint, End, Evaluated, Event, Found, Planned, Step, Warned
from .predictor import Predictor, predictor
from .program import executable as _executable, version_of as _version_of
from .results import Check, Evaluation, Finding, Generation, Plan, Training
from .training import Callback, Run

__all__ = [
    "BudgetError", "Callback", "Check", "Checkpoint", "DataError", "DivergedError", "End", "EnvironmentFailure",
    "Evaluated", "Evaluation", "Event", "Finding", "Found", "Generation", "Interrupted", "MLflowCallback", "Plan", "Planned",
    "PlimsollError", "Predictions", "ProgramError", "Run", "Step", "TrackioCallback", "Training", "UsageError",
    "Predictor", "WandbCallback", "Warned", "check", "doctor", "evaluate", "generate", "plan", "predict", "predictor", "train",
]


def __getattr__(name: str) -> str:
    """Gives `__version__`: that of the program, which may be newer than a package on the path."""
    if name == "__version__":
        return _version_of(_executable())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
