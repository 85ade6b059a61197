#!/usr/bin/env python3
"""Checks what `plimsoll predict` says of whole texts against transformers: sequence classification, every tokenizer.

  tools/check_texts.py [--work build/texts] [--plimsoll build/release/plimsoll]

Each case is a small model with random weights beside one of the test's tokenizers, or a preset as `plimsoll init` writes
it. transformers reads the same directory, encodes the same texts with AutoTokenizer as a script does
(`tokenizer(text, truncation=True)`), and computes in float64. Exit 1 where a class's probability is further off than
1e-5, as it is where one token is another.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import transformers

import families
import reference
import script_texts

BAR = 1e-5
LENGTH = 64
TOKENIZERS = Path(__file__).resolve().parents[1] / "test" / "data" / "tokenizers"
# A family, the files of its tokenizer, and keys of tokenizer_config.json.
CASES = {
    "bert": ("bert", TOKENIZERS / "bert", {}),
    "xlm-roberta": ("xlm-roberta", TOKENIZERS / "xlm-roberta", {"tokenizer_class": "XLMRobertaTokenizer"}),
    "llama 2": ("llama", TOKENIZERS / "llama2.json", {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>",
                                                      "eos_token": "</s>", "unk_token": "<unk>"}),
    "llama 3": ("llama", TOKENIZERS / "llama3.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    "qwen": ("qwen2", TOKENIZERS / "qwen.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    "smollm": ("llama", TOKENIZERS / "smollm.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
}
PRESETS = ("roberta-tiny", "llama-tiny", "gpt2-tiny")


def texts():
    found = [*script_texts.TEXTS.values(), *script_texts.RECEIPT_LINES]
    return [*found, "  two spaces  in front and behind ", "a", " ".join(found)]


def run(*command):
    completed = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}")


def make_directory(folder, family, files, config):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if files.is_dir():
        for file in files.iterdir():
            if file.name != "config.json":
                shutil.copy(file, folder / file.name)
    else:
        shutil.copy(files, folder / "tokenizer.json")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config_class, name, more = families.FAMILIES[family]
    # Where the tokenizer has no padding token, the one that ends texts is taken, here as in Plimsoll.
    pad = next((token for token in (tokenizer.pad_token_id, tokenizer.eos_token_id) if token is not None), 0)
    values = {**families.SHAPES["small"], **more, "vocab_size": len(tokenizer), "pad_token_id": pad,
              "id2label": {0: "a", 1: "b", 2: "c"}, "problem_type": "single_label_classification"}
    model = families.class_of(name + "ForSequenceClassification")(getattr(transformers, config_class)(**values))
    reference.randomise(model, seed=5)
    model.eval().save_pretrained(folder)


def expected(folder):
    """The tokens and the probabilities of each text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").double().eval()
    tokens, scores = [], []
    for text in texts():
        encoded = tokenizer(text, truncation=True, max_length=LENGTH, return_tensors="pt")
        with torch.no_grad():
            logits = model(**{key: encoded[key] for key in ("input_ids", "attention_mask")}).logits
        tokens.append(encoded["input_ids"][0].tolist())
        scores.append(logits.softmax(-1)[0].tolist())
    return tokens, scores


def compare(name, folder, plimsoll):
    pages = folder.parent / "texts.jsonl"
    pages.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()), encoding="utf-8")
    output = folder.parent / "predicted.jsonl"
    output.unlink(missing_ok=True)
    run(plimsoll, "predict", "--model", folder, "--data", pages, "--output", output, "--return-all-scores", "--max-length",
        LENGTH, "--truncate", "--budget", "1GiB")
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").split("\n") if line]
    tokens, scores = expected(folder)
    errors = [max(abs(a - b) for a, b in zip(line["scores"], right)) for line, right in zip(lines, scores)]
    worst = max(range(len(errors)), key=errors.__getitem__)
    print(f"{name:14} {len(lines)} texts, {sum(map(len, tokens))} tokens: worst probability {errors[worst]:.2g} off"
          + ("" if errors[worst] <= BAR else f"   MISSED, text {worst}: {texts()[worst]!r}, tokens {tokens[worst][:12]}"), flush=True)
    return errors[worst] <= BAR


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="build/texts", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    options = parser.parse_args()
    good = True
    for name, (family, files, config) in CASES.items():
        folder = options.work / name.replace(" ", "-") / "model"
        make_directory(folder, family, files, config)
        good &= compare(name, folder, options.plimsoll)
    for name in PRESETS:
        folder = options.work / name / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        run(options.plimsoll, "init", "--model", name, "--task", "sequence-classification", "--labels", "a,b,c", "--output-dir",
            folder)
        good &= compare(name, folder, options.plimsoll)
    print("every bar holds" if good else "a bar is MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
