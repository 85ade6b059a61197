#!/usr/bin/env python3
"""Trims the vocabulary of a model of XLM-RoBERTa's shape to what receipts use, and compares it with the model before, in
`transformers`: the same pieces, the same logits, fewer parameters.

  bench/trim.py [--data pages.jsonl] [--pages 100]

The tokenizer has 250,002 tokens, as XLM-RoBERTa's, and is made here: 12,000 characters of many scripts, and parts of
the words of the pages and of Python's own library. Weights are random. Needs .venv (tools/setup_venv.sh). Exit status 1
if a bar is missed.
"""

import argparse
import collections
import json
import math
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path

from program import PLIMSOLL, holds, run

SIZE = 250002
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
LETTERS = [*range(0x21, 0x7F), *range(0xA1, 0x250), *range(0x370, 0x590), *range(0x900, 0xA00), *range(0x3041, 0x3100),
           *range(0x4E00, 0x7800)]


def words_of(page):
    return page["words"]


def make_tokenizer(folder, pages):
    """Writes a tokenizer.json of XLM-RoBERTa's form: Unigram pieces, the most frequent parts of words first."""
    counts = collections.Counter()
    texts = [word for page in pages for word in words_of(page)] * 20
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.glob("*.py")):
        texts += path.read_text(encoding="utf-8", errors="ignore").split()
    for word, times in collections.Counter(texts).items():
        word = "\u2581" + word[:40]
        for begin in range(len(word)):
            for end in range(begin + 2, min(begin + 12, len(word)) + 1):
                counts[word[begin:end]] += times
    letters = [chr(code) for code in LETTERS]
    letters += sorted({c for page in pages for word in words_of(page) for c in word} - set(letters))
    room = SIZE - len(SPECIAL) - 1 - 1 - len(letters)  # "\u2581" and "<mask>"
    parts = [part for part, _ in counts.most_common(room)]
    if len(parts) < room:
        sys.exit(f"only {len(parts)} parts of words, {room} wanted")
    total = sum(counts[part] for part in parts)
    scored = [["\u2581", -6.0], *[[letter, -12.0] for letter in letters],
              *[[part, math.log(counts[part] / total)] for part in parts]]
    vocabulary = [[token, 0.0] for token in SPECIAL] + scored + [["<mask>", 0.0]]
    around = {"type": "TemplateProcessing",
              "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                         {"SpecialToken": {"id": "</s>", "type_id": 0}}],
              "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "</s>", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
                       {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
              "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for i, t in enumerate(SPECIAL) if i in (0, 2)}}
    added = [{"id": i, "content": token, "single_word": False, "lstrip": token == "<mask>", "rstrip": False,
              "normalized": False, "special": True}
             for i, token in [*enumerate(SPECIAL), (SIZE - 1, "<mask>")]]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
                 "post_processor": around, "decoder": metaspace,
                 "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": False}}
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "XLMRobertaTokenizer", "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>",
         "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>",
         "model_max_length": 512}), encoding="utf-8")


def compare(before, after, pages):
    """The pages whose pieces differ, and the largest difference of a logit, as `transformers` computes both."""
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    models = [transformers.AutoModelForTokenClassification.from_pretrained(path).eval() for path in (before, after)]
    tokenizers = [transformers.AutoTokenizer.from_pretrained(path) for path in (before, after)]
    differ, far = 0, 0.0
    for page in pages:
        texts = [tokenizer(words_of(page), is_split_into_words=True, truncation=True, return_tensors="pt")
                 for tokenizer in tokenizers]
        pieces = [t.convert_ids_to_tokens(x["input_ids"][0]) for t, x in zip(tokenizers, texts)]
        differ += pieces[0] != pieces[1]
        with torch.no_grad():
            logits = [model(**text).logits for model, text in zip(models, texts)]
        if logits[0].shape == logits[1].shape:
            far = max(far, (logits[0] - logits[1]).abs().max().item())
    return differ, far, [model.num_parameters() for model in models]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", default=PLIMSOLL)
    parser.add_argument("--data", type=Path, help="pages (default: drawn receipts)")
    parser.add_argument("--pages", type=int, default=100, help="how many are compared")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = options.data
        if data is None:
            run(options.plimsoll, "synth", "--output", folder / "drawn", "--count", 200)
            data = folder / "drawn" / "train.jsonl"
        pages = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
        make_tokenizer(folder / "tokenizer", pages)
        run(options.plimsoll, "init", "--model", "roberta-base", "--tokenizer", folder / "tokenizer", "--output-dir",
            folder / "before")
        told = json.loads(run(options.plimsoll, "trim", "--model", folder / "before", "--data", data, "--output-dir",
                              folder / "after", "--json").stdout)
        print(f"{told['pages']} pages use {told['tokens_used']} tokens; {told['vocab_size']} of "
              f"{told['vocab_size_before']} stay", flush=True)
        differ, far, parameters = compare(folder / "before", folder / "after", pages[:options.pages])
        fewer = 1 - parameters[1] / parameters[0]
        kept = [holds(f"{min(len(pages), options.pages)} pages, pieces in transformers", f"{differ} pages differ", "0",
                      differ == 0),
                holds("largest difference of a logit", f"{far:g}", "0", far == 0),
                holds(f"parameters {parameters[0] / 1e6:.0f} M to {parameters[1] / 1e6:.0f} M", f"{fewer:.1%} fewer",
                      "60 % or more", fewer >= 0.6)]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
