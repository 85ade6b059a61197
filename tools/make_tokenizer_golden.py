#!/usr/bin/env python3
"""Writes test/data/tokenizer_golden.json: random Unicode words with the ids that Hugging Face's `tokenizers` gives them by
the embedded vocabulary, and a checksum of the ids it gives all receipts by LayoutLMv3's own tokenizer. To be made again
whenever the embedded vocabulary changes.

    cmake --build --preset release --target plimsoll_tokenize
    python tools/make_tokenizer_golden.py
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import tokenizers
import transformers

from random_words import random_words

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEED = 7
COUNT = 1000


def load(directory):
    backend = transformers.LayoutLMv3Tokenizer.from_pretrained(directory).backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    return lambda words: [e.ids for e in backend.encode_batch([[w] for w in words], is_pretokenized=True, add_special_tokens=False)]


def checksum(id_lists):
    """FNV-1a (64 bits) over the ids as little-endian 32-bit words, -1 behind each word's."""
    value = 0xCBF29CE484222325
    for ids in id_lists:
        for i in [*ids, -1]:
            for byte in i.to_bytes(4, "little", signed=True):
                value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", default=str(ROOT.parent / "shared/data"), help="folder of sroie/ and layoutlmv3-base/")
    parser.add_argument("--binary", default=str(ROOT / "build/release/bench/plimsoll_tokenize"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as saved:
        subprocess.run([arguments.binary, "--save", saved], check=True)
        encode = load(saved)
    words = random_words(COUNT, SEED, longest=6)
    shared = pathlib.Path(arguments.shared)
    receipts = []
    for name in ("train.jsonl", "validation.jsonl"):
        with open(shared / "sroie" / name, encoding="utf-8") as lines:
            receipts += [word for line in lines for word in json.loads(line)["words"]]
    receipt_ids = load(shared / "layoutlmv3-base")(receipts)
    golden = {
        "made_by": "tools/make_tokenizer_golden.py",
        "seed": SEED,
        "tokenizers": tokenizers.__version__,
        "transformers": transformers.__version__,
        "receipts": {"words": len(receipts), "ids": sum(map(len, receipt_ids)), "fnv1a": checksum(receipt_ids)},
    }
    lines = [json.dumps({"word": word, "ids": ids}, separators=(",", ":")) for word, ids in zip(words, encode(words))]
    text = json.dumps(golden, indent=1)[:-2] + ',\n "words": [\n' + ",\n".join(lines) + "\n]}\n"
    output = ROOT / "test/data/tokenizer_golden.json"
    output.write_text(text)
    print(f"wrote {output} ({len(text)} bytes)")


if __name__ == "__main__":
    main()
