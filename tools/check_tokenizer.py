#!/usr/bin/env python3
"""Compares Plimsoll's token ids with those of `transformers`, word by word, and prints "N words, M differences" for each
set of words: pages, random Unicode, text in many scripts. Exits 1 if there is any.

    cmake --build --preset release --target plimsoll_tokenize
    python tools/check_tokenizer.py --tokenizer ../shared/data/layoutlmv3-base ../shared/data/sroie/*.jsonl
    python tools/check_tokenizer.py --embedded          # the embedded vocabulary, saved and loaded by transformers
    python tools/check_tokenizer.py --tokenizer test/data/tokenizers/bert ../shared/data/sroie/*.jsonl
    python tools/check_tokenizer.py --tokenizer test/data/tokenizers/bert-cased.json     # as tokenizers reads the file
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import tokenizers
import transformers

import script_texts
from random_words import TEXTS, random_words

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUESTIONS = ["What is the total?", "  two  spaces\tand a tab\n", "a\x1cb\x1dc\x85d\u00a0e\u3000f", "", " ", "<mask> in </s> it",
             "the <mask>", "na\u00efve caf\u00e9's"]


def is_file(tokenizer):
    return tokenizer is not None and pathlib.Path(tokenizer).is_file()


def load(saved, source):
    """What `transformers` makes of the saved files. A model directory has a config.json, from which AutoTokenizer knows
    the class if nothing else names it."""
    config = pathlib.Path(source or "", "config.json")
    if source and config.exists():
        shutil.copy(config, saved)
    elif not pathlib.Path(saved, "tokenizer_config.json").exists():
        sys.exit("no file names the tokenizer's class")
    return transformers.AutoTokenizer.from_pretrained(saved)


def run(binary, options, texts):
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([binary, *options], input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    ids = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ids) == len(texts)
    return ids


def compare(name, texts, found, expected):
    wrong = [i for i in range(len(texts)) if found[i] != expected[i]]
    print(f"{name}: {len(texts)} words, {len(wrong)} differences")
    for i in wrong[:5]:
        print("  {:.100}\n    Plimsoll     {:.100}\n    transformers {:.100}".format(*map(repr, (texts[i], found[i], expected[i]))))
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="JSONL files with `words` or `tokens` on each line")
    parser.add_argument("--tokenizer", help="model directory")
    parser.add_argument("--embedded", action="store_true", help="check the embedded vocabulary instead")
    parser.add_argument("--count", type=int, default=10000, help="random words (default 10000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default=str(ROOT / "build/release/bench/plimsoll_tokenize"))
    arguments = parser.parse_args()
    if arguments.embedded == bool(arguments.tokenizer):
        parser.error("give --tokenizer or --embedded")

    options = [] if arguments.embedded else ["--tokenizer", arguments.tokenizer]
    with tempfile.TemporaryDirectory() as saved:
        # transformers reads what Plimsoll saved, so one run checks both the ids and the writing.
        subprocess.run([arguments.binary, *options, "--save", saved], check=True)
        theirs = load(saved, arguments.tokenizer)
    backend = tokenizers.Tokenizer.from_file(arguments.tokenizer) if is_file(arguments.tokenizer) else theirs.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()

    def word_ids(words):
        encoded = backend.encode_batch([[w] for w in words], is_pretokenized=True, add_special_tokens=False)
        return [e.ids for e in encoded]

    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, "
          f"{type(theirs).__name__}, {len(theirs)} entries, seed {arguments.seed}")
    differences = 0
    for path in arguments.pages:
        with open(path, encoding="utf-8") as lines:
            pages = [json.loads(line) for line in lines]
        words = [word for page in pages for word in page.get("words", page.get("tokens")) or []]
        differences += compare(path, words, run(arguments.binary, options, words), word_ids(words))
    # The tokenizer's own added tokens, among other text and in other case.
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    texts = TEXTS + [text for token in added for text in (token, f" {token}", f"{token} ", token.lower(), token[:-1])]
    words = random_words(arguments.count, arguments.seed, texts=texts)
    found = run(arguments.binary, options, words)
    differences += compare("random Unicode", words, found, word_ids(words))
    words = random_words(100, arguments.seed, longest=3000, texts=texts)
    differences += compare("random Unicode, long", words, run(arguments.binary, options, words), word_ids(words))

    words = script_texts.words()
    differences += compare(f"{len(script_texts.TEXTS)} scripts", words, run(arguments.binary, options, words), word_ids(words))
    if is_file(arguments.tokenizer):
        # What was saved must also be what the file says.
        saved_ids = [e.ids for e in theirs.backend_tokenizer.encode_batch([[w] for w in words], is_pretokenized=True,
                                                                          add_special_tokens=False)]
        differences += compare("as saved", words, saved_ids, word_ids(words))
    if not isinstance(theirs, transformers.LayoutLMv3Tokenizer):
        return 1 if differences else 0

    # Uses the tokenizer's own call with boxes, like a user: one page of words, and questions beside a page.
    words = random_words(500, arguments.seed + 1)
    page = theirs(words, boxes=[[0, 0, 0, 0]] * len(words), truncation=False, padding=False)["input_ids"]
    ours = [i for ids in run(arguments.binary, options, words) for i in ids]
    differences += compare("one page", ["page"], [[theirs.cls_token_id, *ours, theirs.sep_token_id]], [page])
    expected = []
    for question in QUESTIONS:
        ids = theirs(question, ["x"], boxes=[[0, 0, 0, 0]], truncation=False, padding=False)["input_ids"]
        expected.append(ids[1:ids.index(theirs.sep_token_id, 1)] if "</s>" not in question else ids[1:-4])
    differences += compare("questions", QUESTIONS, run(arguments.binary, [*options, "--question"], QUESTIONS), expected)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
