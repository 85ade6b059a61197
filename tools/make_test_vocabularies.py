#!/usr/bin/env python3
"""Writes the small vocabularies of the tests in test/data/tokenizers, trained on text of this repository, so that the
files are ours.

    python tools/make_test_vocabularies.py

bert/               vocab.txt and tokenizer_config.json, uncased
bert-cased.json     a tokenizer.json alone: nothing lower-cased or stripped, another prefix, short words
"""

import json
import pathlib

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from script_texts import RECEIPT_LINES, TEXTS

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "test/data/tokenizers"
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def training_text():
    lists = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tools/vocabulary").glob("*.txt"))]
    return [*TEXTS.values(), *RECEIPT_LINES * 3, *"\n".join(lists).splitlines()]


def word_piece(size, prefix="##", limit=100, **options):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=limit))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=BERT_TOKENS, continuing_subword_prefix=prefix,
                                        limit_alphabet=900, show_progress=False)
    tokenizer.train_from_iterator(training_text(), trainer)
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    # Training on the same text gives the same set of tokens, but equally frequent ones in any order.
    return BERT_TOKENS + sorted(set(vocabulary) - set(BERT_TOKENS))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)} ({len(text.encode())} bytes)")


def make_bert():
    tokens = word_piece(4000)
    write(OUTPUT / "bert/vocab.txt", "\n".join(tokens) + "\n")
    config = {"do_lower_case": True, "model_max_length": 512, "tokenizer_class": "BertTokenizer"}
    write(OUTPUT / "bert/tokenizer_config.json", json.dumps(config, indent=2) + "\n")


def make_cased():
    tokens = word_piece(1500, prefix="@@", strip_accents=False, lowercase=False, handle_chinese_chars=False)
    model = models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]",
                             continuing_subword_prefix="@@", max_input_chars_per_word=8)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=None,
                                                      lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(BERT_TOKENS[:4])
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    tokenizer.add_tokens([AddedToken("TOTAL DUE", normalized=True), AddedToken("<sum>", normalized=False, rstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    write(OUTPUT / "bert-cased.json", tokenizer.to_str() + "\n")


def main():
    make_bert()
    make_cased()


if __name__ == "__main__":
    main()
