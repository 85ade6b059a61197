"""The commands as functions."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, Dict, Generator, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from . import results
from ._options import OPTIONS
from .arguments import arguments_of, plain
from .data import Data, leave_out_images, without_images_of, write_data, write_line
from .data_sets.problem import problem, shown
from .errors import PlimsollError, from_json
from .folders import Folder
from .places import Places
from .program import Process, run_json
from .training import Callback, Run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import (CheckOptions, DoctorOptions, EvalOptions, GenerateOptions, Path, PlanOptions, PredictOptions,
                           TrainOptions)

_DATA = ("data", "eval_data", "pages")
_BAD_PAGES, _BAD_MACHINE, _UNRECOGNISED = 3, 5, 7  # exit codes beside which there is a result


class _Files:
    """Data of a call as files: what is no path is written to a temporary folder that lives as long as the call."""

    def __init__(self, command: str, places: Optional[Places] = None) -> None:
        self.command = command
        self.places = places  # is told of the pages of `data`
        self.directory: Optional[Folder] = None

    def options(self, options: Dict[str, Any]) -> Dict[str, Any]:
        result = dict(options)
        units: Dict[str, Optional[str]] = {}  # of the boxes of each data; None: as `box_format` says
        for name in _DATA:
            if result.get(name) is None:
                continue
            found = self._file(name, result[name], options)
            if found.pop("has_boxes", True):
                units[name] = found.pop("box_format", None)
            result.update(found)
        if options.get("box_format") is None:
            shown_units = {unit for unit in units.values() if unit is not None}
            # What shows no unit is in pixels, as a file without `box_format` is.
            if len(shown_units) > 1 or (shown_units - {"pixel"} and None in units.values()):
                raise problem("the boxes of a call have several units", " and ".join(units),
                              ", ".join(f"{name}: {unit or 'not shown by the data'}" for name, unit in units.items()),
                              "one unit, which box_format says", "pass box_format='1000' or 'pixel' if all data is so; "
                              "otherwise convert the boxes of one", 2)
            if shown_units:
                result["box_format"] = shown_units.pop()
        return result

    def _file(self, name: str, data: Data, options: Dict[str, Any]) -> Dict[str, Any]:
        if isinstance(data, (str, os.PathLike)) or _is_paths(data):
            return {name: data}
        if self.directory is None:
            self.directory = Folder()
        places, task = self.places if name == "data" else None, plain(options.get("task"))
        written = write_data(data, os.path.join(self.directory.path, name), options.get("box_format"), places, task)
        found: Dict[str, Any] = {name: written.path, "has_boxes": written.has_boxes}
        if written.has_boxes:
            found["box_format"] = written.box_format
        # Pages name their labels; a command that takes their order makes a head of it.
        takes_labels = "labels" in OPTIONS[self.command] and options.get("labels") is None
        labels = written.labels_of(task) if name == "data" and takes_labels else None
        return {**found, "labels": labels} if labels else found

    @property
    def folder(self) -> Optional[str]:
        return None if self.directory is None else self.directory.path

    def close(self) -> None:
        if self.directory is not None:
            self.directory.close()


def _is_paths(data: Any) -> bool:
    return isinstance(data, (list, tuple)) and bool(data) and all(isinstance(each, (str, os.PathLike)) for each in data)


def _call(command: str, options: Dict[str, Any], accepted: tuple[int, ...] = (0,)) -> Dict[str, Any]:
    files = _Files(command)
    try:
        return run_json(arguments_of(command, files.options(options)), accepted)
    finally:
        files.close()


def plan(**options: Unpack[PlanOptions]) -> Union[results.Plan, List[results.Plan]]:
    """Plans a run to the byte, without beginning it. Raises BudgetError if nothing fits. A sweep has a list of plans."""
    for name in ("html", "memory_viz", "svg"):
        if options.get(name) == "-":
            raise problem("a drawing needs a file", name, "-, standard output", "a file's name", f"pass {name}='FILE'", 2)
    return results.plans_of(_call("plan", dict(options)))


def check(**options: Unpack[CheckOptions]) -> results.Check:
    """Looks through data for what would go wrong; bad pages are findings, not exceptions."""
    return results.Check.from_json(_call("check", dict(options), (0, _BAD_PAGES)))


def evaluate(**options: Unpack[EvalOptions]) -> results.Evaluation:
    """Computes the scores of a model."""
    return results.Evaluation.from_json(_call("eval", dict(options)))


def doctor(log: Optional[Path] = None, **options: Unpack[DoctorOptions]) -> Dict[str, Any]:
    """Explains a failed run by its log (the file's path); without one, says what the machine is."""
    return _call("doctor", {**options, **({} if log is None else {"log": log})}, (0, _BAD_MACHINE, _UNRECOGNISED))


def train(*, callbacks: Iterable[Callback] = (), progress: Optional[bool] = None,
          **options: Unpack[TrainOptions]) -> Run:
    """Begins a run, which goes on in a process of its own, and returns it.

    `callbacks` are called with each event. `progress`: a bar; default: where nobody iterates over the events there is
    one on a terminal or in a notebook.
    """
    callbacks = _list_of_callbacks(callbacks)
    for name in ("args", "config"):
        if name in options:
            raise problem(f"unknown keyword {name}", "plimsoll.train", name,
                          "an option listed by plimsoll train --help, with underscores",
                          "pass its fields: train(..., **args.to_dict()) for TrainingArguments", 2)
    if options.get("output_dir") is None:
        raise problem("a run needs a directory", "output_dir", "none", "a new directory", "pass output_dir='run'", 2)
    files = _Files("train")
    try:
        line = arguments_of("train", files.options(dict(options)))
        return Run(line, os.fsdecode(options["output_dir"]), callbacks, _shows(progress), files.directory)
    except BaseException:
        files.close()
        raise


def _list_of_callbacks(callbacks: Any) -> List[Callback]:
    listed = [] if callable(callbacks) or not hasattr(callbacks, "__iter__") else list(callbacks)
    wrong = [each for each in listed if isinstance(each, type) or not callable(each)]
    if wrong or not hasattr(callbacks, "__iter__"):
        raise problem("a callback cannot be called", "callbacks", shown(wrong[0] if wrong else callbacks),
                      "a list of functions of an event and the run, or of objects such as WandbCallback()",
                      "pass callbacks=[callback]; of a class, an object: [WandbCallback()]", 2)
    return listed


def _shows(progress: Optional[bool]) -> bool:
    if progress is not None:
        return progress
    return (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules


class Predictions:
    """The pages of `predict` as they are done, in the data's order: dicts, as docs/predictions.md has them.

    Of a path they are those that could be read. A list has a result for each of its pages, or for pages that follow one
    another and share a `document`; that of a page that could not be read is None.
    """

    def __init__(self, options: Dict[str, Any], command: str = "predict"):
        data = options.get("data")
        if isinstance(data, (list, tuple)) and not data:  # as of a predictor
            self._pages: Iterator[Optional[Dict[str, Any]]] = iter(())
            return
        self._places = Places()  # empty where the data is a path
        self._files = _Files(command, self._places)
        try:
            self._process = Process([*arguments_of(command, self._files.options(options)), "--json"])
        except BaseException:
            self._files.close()
            raise
        self._pages = self._read()

    def __iter__(self) -> Iterator[Optional[Dict[str, Any]]]:
        return self._pages

    def _read(self) -> Iterator[Optional[Dict[str, Any]]]:
        with closing(self._read_lines()) as lines:
            yield from self._places.results(lines) if self._places else lines

    def _read_lines(self) -> Generator[Dict[str, Any], None, None]:
        failure: Optional[PlimsollError] = None
        try:
            lines = self._process.lines()
            for line in lines:
                if line.rstrip() == "{":  # a page is one line; an error's object has several
                    failure = from_json(json.loads(line + "".join(lines))["error"])
                    break
                yield without_images_of(json.loads(line), self._files.folder)
        except BaseException:  # a loop that was left
            self._process.kill()
            raise
        finally:
            code = self._process.wait()
            self._files.close()
        if failure is not None:
            raise failure
        if code not in (0, _BAD_PAGES):
            raise self._process.failure(code)


def predict(**options: Unpack[PredictOptions]) -> Union[Predictions, Dict[str, Any]]:
    """Yields the prediction of each page; with `output`, writes them there and returns what was done.

    Where `data` is no path, predictions are in the places of its pages, and that of a page that cannot be read is None.
    """
    if options.get("output") is None:
        if (options.get("format") or "jsonl") != "jsonl":
            raise problem("a form of output needs a file", "format", str(options["format"]), "output='FILE' with it",
                          "pass output, or leave format out: the pages are dicts", 2)
        return Predictions(dict(options))
    files = _Files("predict")
    try:
        done = run_json(arguments_of("predict", files.options(dict(options))), (0, _BAD_PAGES))
        if files.folder is not None:
            leave_out_images(os.fspath(options["output"]), files.folder)
    finally:
        files.close()
    return done


Prompt = Union[str, Sequence[Mapping[str, str]]]


def generate(prompts: Union[str, Iterable[Prompt]], **options: Unpack[GenerateOptions]) -> List[results.Generation]:
    """Goes on with each prompt by a causal language model: a text, or a conversation as a list of messages, each with its
    `role` and `content`, which the model's chat template writes down."""
    each = [prompts] if isinstance(prompts, str) else list(prompts)
    if not each:
        return []
    with Folder() as folder:
        path = os.path.join(folder.path, "prompts.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            for number, prompt in enumerate(each):
                if isinstance(prompt, str):
                    line: Dict[str, Any] = {"prompt": prompt}
                elif isinstance(prompt, (list, tuple)) and all(isinstance(one, Mapping) for one in prompt):
                    line = {"messages": [dict(one) for one in prompt]}
                else:
                    raise problem("a prompt is neither a text nor a conversation", f"prompt {number}", shown(prompt),
                                  "a str, or a list of messages, each a dict with role and content",
                                  "pass a list of them: generate([\"The total is\", [{\"role\": ..., \"content\": ...}]])", 2)
                write_line(out, line, f"prompt {number}")
        found = Predictions({**options, "data": path, "output": None}, "generate")
        texts = [results.Generation.from_json(line) for line in found if line is not None]
    if options.get("output") is not None:
        with open(options["output"], "w", encoding="utf-8") as out:
            out.writelines(json.dumps(text.raw, ensure_ascii=False) + "\n" for text in texts)
    return texts
