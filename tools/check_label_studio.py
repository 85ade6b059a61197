#!/usr/bin/env python3
"""Checks that Label Studio opens what `plimsoll convert --to label-studio` writes, by Label Studio's own code.

  python3 -m venv VENV && VENV/bin/pip install label-studio-sdk
  VENV/bin/python tools/check_label_studio.py [--plimsoll PROGRAM] [TASKS.json CONFIG.xml]

Without files it draws forms, converts them with their labels and links, and with predictions, and checks both. The labelling
configuration is validated, then every task's data, annotations and predictions against it (label_interface), and the
annotated tasks go through Label Studio's own export (converter). Exits with 1 if something is wrong, and with 77, which
ctest counts as skipped, where label-studio-sdk is not installed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SKIPPED = 77

try:
    from label_studio_sdk.converter import Converter
    from label_studio_sdk.label_interface import LabelInterface
except ImportError:
    print("skipped: label-studio-sdk is not installed (pip install label-studio-sdk)")
    sys.exit(SKIPPED)


def check(tasks_file, config_file):
    """Returns the number of tasks, of results, and what Label Studio says is wrong."""
    config = Path(config_file).read_text(encoding="utf-8")
    tasks = json.loads(Path(tasks_file).read_text(encoding="utf-8"))
    interface = LabelInterface(config)
    interface.validate()
    wrong, results = [], 0
    for number, task in enumerate(tasks, 1):
        if not interface.validate_task({"data": task["data"]}):
            wrong.append(f"task {number}: its data do not fit the configuration")
        for kind in ("annotations", "predictions"):
            for each in task.get(kind, []):
                results += len(each["result"])
                # One function validates both; the one for annotations does not say what is wrong.
                errors = interface.validate_prediction(each, return_errors=True)
                wrong += [f"task {number}, {kind}: {error}" for error in errors]
    annotated = [dict(task, id=number) for number, task in enumerate(tasks, 1) if task.get("annotations")]
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "tasks.json"
        export.write_text(json.dumps(annotated), encoding="utf-8")
        converter = Converter(config, folder, download_resources=False)
        converter.convert_to_json_min(str(export), str(Path(folder) / "min"), is_dir=False)
        exported = json.loads((Path(folder) / "min" / "result.json").read_text(encoding="utf-8"))
        texts = [value for row in exported for value in row.get("transcription", [])]
    if len(exported) != len(annotated) or (annotated and not texts):
        wrong.append(f"Label Studio's export has {len(exported)} of {len(annotated)} tasks and {len(texts)} texts")
    return len(tasks), results, wrong


def predicted(page):
    """Returns the line that predict would write of a page whose labels it found."""
    line = {key: page[key] for key in ("id", "image", "words", "boxes", "labels")}
    return {**line, "probabilities": [0.5 + 0.4 * (w % 2) for w in range(len(page["words"]))]}


def drawn(program, folder):
    def run(*arguments):
        subprocess.run([str(program), *map(str, arguments)], check=True, capture_output=True)

    run("synth", "--layout", "forms", "--count", 6, "--output", folder / "forms")
    pages = [json.loads(line) for line in (folder / "forms" / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    found = folder / "forms" / "found.jsonl"
    found.write_text("".join(json.dumps(predicted(page)) + "\n" for page in pages), encoding="utf-8")
    for name, extra in (("train", []), ("found", []), ("train", ["--predictions", found])):
        tasks = folder / "forms" / f"{name}{len(extra)}.json"
        run("convert", "--input", folder / "forms" / f"{name}.jsonl", "--to", "label-studio", "--output", tasks, *extra)
        yield tasks, tasks.with_suffix(".config.xml")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file of tasks and its labelling configuration")
    parser.add_argument("--plimsoll", type=Path, default=REPOSITORY / "build" / "release" / "plimsoll")
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error("name a file of tasks and its configuration, or nothing")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for tasks, config in [options.files] if options.files else drawn(options.plimsoll, Path(folder)):
            count, results, wrong = check(tasks, config)
            print(f"{Path(tasks).name}: {count} tasks, {results} results, {len(wrong)} wrong")
            for line in wrong[:10]:
                print(" ", line)
            failed = failed or bool(wrong) or results == 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
