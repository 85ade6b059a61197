#!/usr/bin/env python3
"""Compares what plimsoll and transformers make of chat templates, for conversations with and without tools.

  tools/check_chat_templates.py --plimsoll build/release/plimsoll FOLDER …     # of files NAME.jinja, as trl has them

Prints each difference and, last, how many texts are the same. A template that plimsoll refuses because it would leave
out tools without a word is counted apart. Exits 1 if a text differs. Needs .venv.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from transformers.utils import chat_template_utils

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TOOLS = [{"type": "function", "function": {
    "name": "total", "description": "Gets the \"total\" of a receipt, é",
    "parameters": {"type": "object", "required": ["id"], "properties": {
        "id": {"type": "string", "description": "The id"}, "currency": {"type": "string", "enum": ["EUR", "USD"]},
        "n": {"type": ["integer", "null"], "default": 3}}}}}]


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def calls(content, *arguments):
    return said("assistant", content, tool_calls=[
        {"type": "function", "id": f"call1234{i}", "function": {"name": "total", "arguments": each}}
        for i, each in enumerate(arguments)])


SYSTEM, ASKED, ANSWERED = said("system", "Be short."), said("user", "  What is due?\n"), said("assistant", "12.50 €")
WHEN, THOUGHT = said("user", "When?"), said("assistant", "<think>\nMay?\n</think>\n\nIn May.")
RESULT = [said("tool", "{\"total\": 12.5}", tool_call_id="call12340", name="total"),
          said("tool", "8.0", tool_call_id="call12341", name="total")]
LINES = {
    "one": {"messages": [ASKED]},
    "several": {"messages": [SYSTEM, ASKED, ANSWERED, WHEN, THOUGHT, ASKED]},
    "reasoned": {"messages": [ASKED, said("assistant", "In May.", reasoning_content="Hm."), WHEN]},
    "parts": {"messages": [said("user", [{"type": "text", "text": "What"}, {"type": "text", "text": " is due?"}])]},
    "tools": {"messages": [SYSTEM, ASKED, calls("", {"id": "7", "n": 2}), RESULT[0]], "tools": TOOLS},
    "several calls": {"messages": [ASKED, calls(None, {"id": "é", "n": None, "l": [1, {"a": True}]}, {"id": "8"}),
                                   *RESULT, ANSWERED, WHEN], "tools": TOOLS},
    "arguments as text": {"messages": [ASKED, calls("Let me see.", '{"id": "7"}'), RESULT[0]], "tools": TOOLS},
    "quiet": {"messages": [SYSTEM, ASKED], "chat_template_kwargs": {"enable_thinking": False}},
}


def make_model(plimsoll, folder):
    model = folder / "model"
    subprocess.run([plimsoll, "init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", str(model)],
                   check=True, capture_output=True)
    (model / "checksums.json").unlink()
    for name, values in {"config.json": {"max_position_embeddings": 65536}, "tokenizer_config.json": TOKENS}.items():
        config = json.loads((model / name).read_text(encoding="utf-8"))
        (model / name).write_text(json.dumps(config | values), encoding="utf-8")
    return model


def text_of_plimsoll(plimsoll, model, template, line):
    (model / "chat_template.jinja").write_text(template, encoding="utf-8")
    data = model.parent / "line.jsonl"
    data.write_text(json.dumps(line) + "\n", encoding="utf-8")
    done = subprocess.run([plimsoll, "generate", "--model", str(model), "--data", str(data), "--max-new-tokens", "1"],
                          capture_output=True, text=True)
    return (json.loads(done.stdout)["prompt"], None) if done.returncode == 0 else (None, done.stderr)


def text_of_transformers(template, line):
    values = {"tools": line.get("tools"), "documents": None, **TOKENS, **line.get("chat_template_kwargs", {})}
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        return compiled.render(messages=line["messages"], add_generation_prompt=True, **values)
    except Exception:  # a template refuses a chat by any exception
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", default="build/release/plimsoll")
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    counts = Counter()
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(options.plimsoll, Path(folder))
        files = sorted(file for each in options.folders for file in each.glob("*.jinja"))
        for file in files:
            template = file.read_text(encoding="utf-8")
            for name, line in LINES.items():
                expected = text_of_transformers(template, line)
                found, error = text_of_plimsoll(options.plimsoll, model, template, line)
                if expected is None or found is None:
                    kind = ("refused by both" if expected is None and found is None
                            else "would leave out tools" if "does not write `tool" in (error or "")
                            else "refused by one")
                else:
                    kind = "same" if found == expected else "different"
                counts[kind] += 1
                if kind in ("different", "refused by one"):
                    print(f"{file}, {name}: {kind}\n  plimsoll     {(found or error)!r}\n  transformers {expected!r}")
    print(f"{len(files)} templates, {sum(counts.values())} texts: "
          + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    sys.exit(1 if counts["different"] else 0)


if __name__ == "__main__":
    main()
