"""A progress bar in terminals and notebooks: tqdm's, where that is installed; otherwise a line now and then."""

from __future__ import annotations

import sys
from typing import Any, Optional

from .events import Evaluated, Event, Step


class ProgressBar:
    def __init__(self) -> None:
        self._bar: Optional[Any] = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._make: Optional[Any] = None
        else:
            self._make = tqdm
        self._scores = ""

    def show(self, event: Event) -> None:
        if isinstance(event, Evaluated):
            scores = event.evaluation.scores
            name = next((name for name in ("f1", "accuracy", "mse") if name in scores), None)
            self._scores = f"{name} {scores[name]:.4f}" if name else ""
        if not isinstance(event, Step):
            return
        loss = "" if event.loss is None else f"loss {event.loss:.4f}"
        text = "  ".join(part for part in (loss, self._scores) if part)
        if self._make is None:
            print(f"step {event.step}/{event.total_steps}  {text}  {event.pages_per_second:.1f} pages/s", file=sys.stderr)
            return
        if self._bar is None:
            self._bar = self._make(total=event.total_steps, unit="update")
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(event.step - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
