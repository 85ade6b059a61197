#!/usr/bin/env python3
"""Writes test/data/tokenizers/golden.json: words with the ids that `transformers` and `tokenizers` give them by each of
the test vocabularies beside it, and running texts with those that the decoders' give. To be made again whenever tools/make_test_vocabularies.py has made those again.

    python tools/make_tokenizer_kinds_golden.py
"""

import json
import pathlib
import random

import tokenizers
import transformers

import script_texts
from random_words import TEXTS, random_words

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "test/data/tokenizers"
SEED = 11
COUNT, TEXT_COUNT = 700, 50
NAMES = ["bert", "bert-cased.json", "xlm-roberta", "unigram.json", "llama3.json", "qwen.json", "smollm.json",
         "o200k.json", "tekken.json", "llama2.json", "llama2-first.json"]
DECODERS = NAMES[4:9]  # they read a word as it stands in a text, behind a space
CORNER_CASES = [
    "", " ", "\t\u3000", "[CLS]", "x[SEP]y", " [MASK] x", "x \u3000[MASK]", "[mask]", "[[MASK]]", "[MASK][MASK]",
    "TOTAL DUE", "TOTAL  DUE", "total due", "xTOTAL DUEx", "<sum>  y", "<sum>\t\t<sum>", "<SUM>", "##ing", "@@ing", "a##b",
    "x" * 100, "x" * 101, "supercalifragilistic", "total" * 40, "\u00e9" * 100, "\u00e9" * 101, "to\u0301tal\u0316\u0301\u0345",
    "\uac01\u1100\u1161\u11a8", "\u0130\u0131", "\u4e2d\u6587a\u4e2d", "\uf900\U0002f800", "a\u200db", "a\ufffdb", "\u0000", "12.50%",
    "<s>", "</s>", "<mask>", "x <mask>", "<sep>GST", "gst", "Sub Total", "S\u00fcb Total", "Sub  Total", "\u2581a\u2581\u2581b\u2581", " a  b ",
    "``x``", "[[", "[[[", "\ufb01\u0301", "\u2122\u0301", "\u00a9\u200d\u2122\u0301", "e\u0301e\u0301\u0316e\u0301\u0316\u0317", "\r\n", "a\r\nb",
    "\u0915\u094d\u0915\u0301", "\u0915\u093c", "\uac00\u0301", "\u1100\u1161\u0301", "\u1100\u0301", "\U0001F1F2\U0001F1FE", "\u0600A\u0301", "AB",
    "\uff21\uff22", "<unk>", "<unk>\u4e00<unk>", "\u9f98\u9f98a\u9f98", "\u00bd\u3392\u33a5", "x" * 300,
    "HTMLParser", "iPhone's", "DON'T", "a/b//c", "!/\n/x", "\u01c5a", "A\u0301B\u0301c", "\u3042AB", "A\u3042B", "1234", "\u0301A",
]


def load(name):
    if name.endswith(".json"):
        backend = tokenizers.Tokenizer.from_file(str(FOLDER / name))
    else:
        backend = transformers.AutoTokenizer.from_pretrained(FOLDER / name).backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    return backend


def running_texts(words):
    """Words between white space of all kinds, as texts have it."""
    chance = random.Random(SEED)
    between = [" ", " ", " ", "  ", "\n", "\n\n", " \n  ", "\t", "\r\n", "", ". ", ", "]
    return ["".join(chance.choice(words) + chance.choice(between) for _ in range(chance.randint(1, 40)))
            for _ in range(TEXT_COUNT)]


def main():
    texts = TEXTS + ["[CLS]", "[SEP]", "[MASK]", " [MASK]", "[mask]", "TOTAL DUE", "<sum> ", "Sub Total", "GST", "\u2581"]
    words = CORNER_CASES + script_texts.words() + random_words(COUNT, SEED, longest=8, texts=texts)
    ids = {}
    for name in NAMES:
        if name in DECODERS:
            spaced = [w if w[:1] in ("", " ") else " " + w for w in words]
            encoded = load(name).encode_batch(spaced, add_special_tokens=False)
        else:
            encoded = load(name).encode_batch([[w] for w in words], is_pretokenized=True, add_special_tokens=False)
        ids[name] = [e.ids for e in encoded]
    lines = [json.dumps([word, *(ids[name][i] for name in NAMES)], separators=(",", ":")) for i, word in enumerate(words)]
    running = running_texts(words)
    encoded = [load(name).encode_batch(running, add_special_tokens=False) for name in NAMES[4:]]
    text_lines = [json.dumps([one, *(e[i].ids for e in encoded)], separators=(",", ":")) for i, one in enumerate(running)]
    head = {"made_by": "tools/make_tokenizer_kinds_golden.py", "seed": SEED, "tokenizers": tokenizers.__version__,
            "transformers": transformers.__version__, "vocabularies": NAMES}
    text = json.dumps(head, indent=1)[:-2] + ',\n "words": [\n' + ",\n".join(lines) + "\n],\n"
    text += ' "texts": [\n' + ",\n".join(text_lines) + "\n]}\n"
    (FOLDER / "golden.json").write_text(text)
    print(f"wrote {FOLDER / 'golden.json'} ({len(text)} bytes)")


if __name__ == "__main__":
    main()
