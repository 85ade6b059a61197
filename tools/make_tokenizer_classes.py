#!/usr/bin/env python3
"""Writes src/data/tokenizer_classes.inc: which code points the byte-level pre-tokenizer of Hugging Face's
`tokenizers` takes for letters, numbers and white space; and src/data/tokenizer_cases.inc: which of them begin and which
go on a word in the patterns that tell its case.

The pattern's \\p{L}, \\p{N} and \\s depend on the Unicode version of the regular-expression library behind it, and no two
libraries agree on it. So the classes do not come from a Unicode table: the library itself is tested, one code point
at a time, on whether it joins a letter, a digit or a punctuation mark.

    python tools/make_tokenizer_classes.py            # writes the files
    python tools/make_tokenizer_classes.py --check    # exits 1 if the installed library answers otherwise
"""

import argparse
import pathlib
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

import tokenizer_tables

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src/data"
BEGINS, GOES_ON = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
OTHER, LETTER, NUMBER, SPACE = range(4)
LAST = 0x10FFFF


def ask_classes():
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True).pre_tokenize_str
    classes = []
    for code_point in range(LAST + 1):
        if 0xD800 <= code_point <= 0xDFFF:  # surrogates are not characters: UTF-8 cannot encode them
            classes.append(OTHER)
            continue
        character = chr(code_point)
        joined = [len(split(partner + character)) == 1 for partner in ("a", "1", "!")]
        if sum(joined) > 1:
            sys.exit(f"U+{code_point:04X} joins more than one class: the pattern is not what this tool expects")
        classes.append(LETTER if joined[0] else NUMBER if joined[1] else OTHER if joined[2] else SPACE)
    return classes


def check_stripping(classes):
    """<mask> swallows the white space before it, by another library's \\s: it must be the same set."""
    tokenizer = Tokenizer(models.BPE(vocab={"<mask>": 0}, merges=[]))
    tokenizer.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, normalized=True)])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for code_point, kind in enumerate(classes):
        if 0xD800 <= code_point <= 0xDFFF:
            continue
        start = tokenizer.encode("a" + chr(code_point) + "<mask>").offsets[-1][0]
        if (start == 1) != (kind == SPACE):
            sys.exit(f"U+{code_point:04X}: <mask> and the pattern disagree on white space")


def ask_cases():
    """1: the code point is in BEGINS; 2: in GOES_ON; 3: in both."""
    splits = [pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str for pattern in (BEGINS, GOES_ON)]
    return [0 if 0xD800 <= code_point <= 0xDFFF else
            sum(bit for bit, split in zip((1, 2), splits) if not split(chr(code_point)))
            for code_point in range(LAST + 1)]


def render(classes, what):
    entries = [f"{{0x{c:X}, {k}}}" for c, k in enumerate(classes) if c == 0 or classes[c - 1] != k]
    lines = [
        "// Made by tools/make_tokenizer_classes.py: do not edit.",
        f"// Asked of tokenizers {tokenizers.__version__}. Each pair: the first code point of a run, and its class",
        f"// ({what}); a run ends where the next begins.",
    ]
    line = ""
    for entry in entries:
        if len(line) + len(entry) + 2 > 100:
            lines.append(line.rstrip())
            line = ""
        line += entry + ", "
    lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    arguments = parser.parse_args()
    classes = ask_classes()
    check_stripping(classes)
    text = render(classes, "0 other, 1 letter, 2 number, 3 white space")
    failed = tokenizer_tables.finish(FOLDER / "tokenizer_classes.inc", text, arguments.check)
    text = render(ask_cases(), "1 begins a word, 2 goes on in one, 3 both")
    return tokenizer_tables.finish(FOLDER / "tokenizer_cases.inc", text, arguments.check) or failed


if __name__ == "__main__":
    sys.exit(main())
