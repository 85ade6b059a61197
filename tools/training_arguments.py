#!/usr/bin/env python3
"""Writes docs/training_arguments.md: what becomes of every field of transformers' TrainingArguments and PEFT's LoraConfig.

  tools/training_arguments.py            writes the page
  tools/training_arguments.py --check    exits 1 if the page, or test/data/training_arguments.json, is out of date

Needs transformers and peft (tools/requirements.txt), and the built program, whose options it asks for.
"""

import argparse
import ast
import dataclasses
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "training_arguments.md"
FIELDS = REPOSITORY / "test" / "data" / "training_arguments.json"

HEAD = """# TrainingArguments and LoraConfig

What `plimsoll train` and `plimsoll plan` do with every field of `TrainingArguments` (transformers {transformers}) and of
`LoraConfig` (PEFT {peft}). Fields are options with dashes (`--max-steps`, or `--max_steps`), keywords of the Python
package, and keys of `--config`, which reads the file that `TrainingArguments.to_json_string` writes as it is. Where a row
names an option, as `--lora-rank` for `r`, that is the field's name here. No value is passed over that would change a result: it is taken, or refused with a message that says what to do instead. Of a
value that changes nothing here, a line says why. `test/cli/training_arguments_test.cpp` goes through all fields; this
page is written by `tools/training_arguments.py`.

"taken" means the meaning that transformers has; [the migration guide](migration.md) lists defaults that differ. A field
that is "refused" may be given where it asks for nothing: false, none, 0 or its default.
"""


def cell(text):
    return text.replace("|", "\\|")


def fate(name, own, elsewhere, prefix=""):
    if name in own:
        return "taken", ""
    entry = elsewhere.get(name)
    if entry is None:
        sys.exit(f"nothing says what becomes of {prefix}{name}: add it to src/cli/elsewhere.cpp")
    here = entry["here"].split()
    if here:
        return f"`{here[0]}`", ""
    note = entry["note"].removeprefix("omit it: ")
    if entry["accepted"] == "always":
        return "changes nothing", note
    usual = f" but for `{entry['usual']}`" if entry.get("usual") else ""
    return f"refused{usual}", note


def table(names, own, elsewhere, prefix=""):
    lines = ["| field | here | why |", "| --- | --- | --- |"]
    for name in names:
        what, why = fate(name, own, elsewhere, prefix)
        lines.append(f"| `{name}` | {what} | {cell(why)} |")
    return "\n".join(lines) + "\n"


def lora_fields():
    """Returns the names of LoraConfig's fields, from PEFT's source: importing it takes as long as the rest."""
    folder = Path(importlib.util.find_spec("peft").origin).parent
    names = []
    for file, classes in {"config.py": ("PeftConfigMixin", "PeftConfig"),
                          "tuners/lora/config.py": ("LoraConfig",)}.items():
        parsed = ast.parse((folder / file).read_text(encoding="utf-8"))
        found = {node.name: node for node in parsed.body if isinstance(node, ast.ClassDef)}
        for name in classes:
            names += [line.target.id for line in found[name].body if isinstance(line, ast.AnnAssign)]
    return list(dict.fromkeys(names))


def page(program):
    import transformers

    printed = json.loads(subprocess.run([program, "--options"], capture_output=True, text=True, check=True).stdout)
    train = next(command for command in printed["commands"] if command["name"] == "train")
    own = {option["name"] for option in train["options"]}
    elsewhere = {entry["name"]: entry for entry in printed["elsewhere"]}
    text = HEAD.format(transformers=transformers.__version__, peft=importlib.metadata.version("peft"))
    arguments = [field.name for field in dataclasses.fields(transformers.TrainingArguments)]
    text += f"\n## TrainingArguments ({len(arguments)} fields)\n\n" + table(arguments, own, elsewhere)
    lora = lora_fields()
    text += f"\n## LoraConfig ({len(lora)} fields)\n\n" + table(lora, own - {"task"}, elsewhere, "LoraConfig.")
    return text


def changed_fields():
    from transformers import TrainingArguments

    now = json.loads(TrainingArguments(output_dir="run").to_json_string())
    tested = {name: field["default"] for name, field in json.loads(FIELDS.read_text(encoding="utf-8")).items()}
    return sorted(name for name in {**now, **tested} if now.get(name, "absent") != tested.get(name, "absent"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", type=Path, default=REPOSITORY / "build" / "release" / "plimsoll")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    changed = changed_fields()
    if changed:
        sys.exit(f"{FIELDS} does not have the defaults of this transformers: {', '.join(changed)}")
    text = page(options.plimsoll)
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE} is out of date: run tools/training_arguments.py")


if __name__ == "__main__":
    main()
