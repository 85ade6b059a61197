#!/usr/bin/env python3
"""Writes the small vocabularies of the tests in test/data/tokenizers, trained on text of this repository, so that the
files are ours.

    python tools/make_test_vocabularies.py

bert/               vocab.txt and tokenizer_config.json, uncased
bert-cased.json     a tokenizer.json alone: nothing lower-cased or stripped, another prefix, short words
xlm-roberta/        sentencepiece.bpe.model with the character map of nmt_nfkc, and config.json, which names the family
unigram.json        a tokenizer.json alone: a small character map and other steps, words that are not cut at spaces
llama3.json, qwen.json, smollm.json    byte-level BPE as decoders have it: their patterns, NFC (Qwen), a first token (Llama)
o200k.json, tekken.json                the same, by the patterns of gpt-oss and of Mistral Nemo, which tell case
llama2.json, llama2-first.json    BPE of characters with tokens of bytes: a normalizer sets spaces, or a Metaspace
"""

import io
import json
import pathlib
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

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
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(content)
    print(f"wrote {path.relative_to(ROOT)} ({len(content)} bytes)")


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


def sentence_pieces(size, **options):
    model = io.BytesIO()
    lines = [line for line in training_text() if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, model_type="unigram", num_threads=1,
        character_coverage=0.999, hard_vocab_limit=False, minloglevel=2, **options)
    return model.getvalue()


def make_xlm_roberta():
    model = sentence_pieces(1500, normalization_rule_name="nmt_nfkc", user_defined_symbols=["<sep>", "GST"])
    write(OUTPUT / "xlm-roberta/sentencepiece.bpe.model", model)
    write(OUTPUT / "xlm-roberta/config.json", json.dumps({"model_type": "xlm-roberta"}) + "\n")


def make_unigram():
    # Keys of several characters, one key that begins another, texts that are empty or longer than their keys.
    rules = {"\u00e9": "e", "e\u0301": "E", "A": "a", "AB": "x", "\u2122": "TM", "\ufb01": "fi", "\u200b": "", "\u3000": " ",
             "\uff21": "A", "\u0915\u093c": "\u0958", "\uac00": "\u1100\u1161", "\u1100": "G", "\t": " ", "\r": " ", "\n": " ",
             "\u20ac": "EUR", "\u00a9": "(c)", "\U0001F1F2": "M"}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        for key, text in rules.items():
            table.write("\t".join(" ".join(f"{ord(c):X}" for c in part) for part in (key, text)) + "\n")
        table.flush()
        model = sentence_pieces(1200, normalization_rule_tsv=table.name)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    vocabulary = [(piece.piece, piece.score) for piece in proto.pieces] + [("<pad>", 0.0), ("<mask>", 0.0), ("[[", -3.0)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Strip(left=True, right=True),
        normalizers.Replace(Regex(" {2,}"), "\u2581"), normalizers.Replace("``", '"')])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>", "<unk>", AddedToken("<mask>", lstrip=True)])
    tokenizer.add_tokens([AddedToken("Sub Total", normalized=True), AddedToken("<sum>", normalized=False, rstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    write(OUTPUT / "unigram.json", tokenizer.to_str() + "\n")


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def by_pattern(digits):
    pattern = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits +
               r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def by_case(digits, contractions):
    begins, goes_on = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    pattern = (before + begins + "*" + goes_on + "+" + contractions + "|" + before + begins + "+" + goes_on + "*" +
               contractions + r"|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def make_decoder(name, pre_tokenizer, special, first=None, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(pre_tokenizer)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(training_text(), trainer)
    if first:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", pair=f"{first} $A {first}:1 $B:1", special_tokens=[(first, tokenizer.token_to_id(first))])
    write(OUTPUT / name, tokenizer.to_str() + "\n")


def make_decoders():
    make_decoder("llama3.json", by_pattern("{1,3}"), ["<|begin|>", "<|end|>"], first="<|begin|>")
    make_decoder("qwen.json", by_pattern(""), ["<|end|>"], normalizer=normalizers.NFC())
    make_decoder("smollm.json", [pre_tokenizers.Digits(individual_digits=True),
                                 pre_tokenizers.ByteLevel(add_prefix_space=False)], ["<|end|>"])
    make_decoder("o200k.json", by_case("{1,3}", CONTRACTIONS + "?"), ["<|end|>"])
    make_decoder("tekken.json", by_case("", ""), ["<|begin|>", "<|end|>"], first="<|begin|>")


def make_of_characters():
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, limit_alphabet=120, show_progress=False)
    learner.train_from_iterator(training_text(), trainer)
    learnt = json.loads(learner.to_str())["model"]
    for name, normalizer, pre_tokenizer in (
            ("llama2.json", normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None),
            ("llama2-first.json", None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))):
        tokenizer = Tokenizer(models.BPE(learnt["vocab"], [tuple(merge) for merge in learnt["merges"]], unk_token="<unk>",
                                         fuse_unk=True, byte_fallback=True))
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        if pre_tokenizer is not None:
            tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
        tokenizer.add_tokens([AddedToken("<sum>", normalized=False, rstrip=True), AddedToken("GST", normalized=True)])
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                                 special_tokens=[("<s>", 1)])
        write(OUTPUT / name, tokenizer.to_str() + "\n")


def main():
    make_bert()
    make_cased()
    make_xlm_roberta()
    make_unigram()
    make_decoders()
    make_of_characters()


if __name__ == "__main__":
    main()
