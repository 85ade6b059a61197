#!/usr/bin/env python3
"""Writes src/data/tokenizer_unicode.inc: what Hugging Face's `tokenizers` knows about each code point when it normalises
and splits text for BERT (classes, canonical decompositions and compositions, combining classes, lower case).

The library's tables come from several Unicode versions at once, so no table of Unicode's equals them: the library
itself is asked, one code point at a time. What it does with sequences (the order of combining marks, Hangul) is
computed here from these tables as src/data/tokenizer_normalize.cpp does, and compared with it on random text.

    python tools/make_tokenizer_unicode.py            # writes the file
    python tools/make_tokenizer_unicode.py --check    # exits 1 if the installed library answers otherwise
"""

import argparse
import pathlib
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

import tokenizer_tables
from random_words import random_words

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "src/data/tokenizer_unicode.inc"
DROPPED, CLEAN_SPACE, CHINESE, MARK, PUNCTUATION, WHITE_SPACE = (1 << bit for bit in range(6))
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xAC00 + 11172)


def bert(**options):
    flags = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**flags, **options}).normalize_str


clean, pad, strip, lower = bert(clean_text=True), bert(handle_chinese_chars=True), bert(strip_accents=True), bert(lowercase=True)
nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str


def expect(condition, code_point, what):
    if not condition:
        sys.exit(f"U+{code_point:04X}: {what}")


def ask_flags(code_point):
    c = chr(code_point)
    flags = 0
    cleaned = clean(c)
    expect(cleaned in ("", " ", c), code_point, f"clean_text makes {cleaned!r} of it")
    if cleaned != c:
        flags |= CLEAN_SPACE if cleaned else DROPPED
    if c == " ":
        flags |= CLEAN_SPACE
    padded = pad(c)
    expect(padded in (c, f" {c} "), code_point, f"handle_chinese_chars makes {padded!r} of it")
    flags |= CHINESE if padded != c else 0
    if nfd(c) == c:
        stripped = strip(c)
        expect(stripped in ("", c), code_point, f"strip_accents makes {stripped!r} of it")
        flags |= MARK if not stripped else 0
    pieces = [piece for piece, _ in split("a" + c + "a")]
    kinds = {("a" + c + "a",): 0, ("a", c, "a"): PUNCTUATION, ("a", "a"): WHITE_SPACE}
    expect(tuple(pieces) in kinds, code_point, f"it splits into {pieces}")
    return flags | kinds[tuple(pieces)]


def ask_combining(decompositions):
    """The combining class of each code point: the library sorts neighbours by it, so it is searched for among classes
    that are known from one mark each."""
    swaps = lambda a, b: a != b and nfd(a + b) == b + a
    below_230, above_220 = "\u0316", "\u0301"
    known = {}
    for code_point in CODE_POINTS:
        c = chr(code_point)
        rank = unicodedata.combining(c)
        # A mark that is newer than the library's tables is no mark there.
        if rank and rank not in known and (swaps(above_220, c) if rank < 230 else swaps(c, below_230)):
            known[rank] = c
    ranks = sorted(known)
    for low, high in zip(ranks, ranks[1:]):
        if not swaps(known[high], known[low]):
            sys.exit(f"combining classes {low} and {high} are not sorted")
    classes = {}
    for code_point in CODE_POINTS:
        c = chr(code_point)
        if code_point in decompositions or code_point in HANGUL:
            continue
        if not (swaps(known[ranks[-1]], c) or swaps(c, known[ranks[0]])):
            continue
        below = [rank for rank in ranks if swaps(c, known[rank])]
        above = [rank for rank in ranks if swaps(known[rank], c)]
        same = [rank for rank in ranks if rank not in below and rank not in above]
        expect(len(same) == 1, code_point, f"its combining class lies between {below[-1:]} and {above[:1]}")
        classes[code_point] = same[0]
    return classes


def runs(values):
    """(first, value) wherever the value of a code point differs from that of the one before; surrogates have 0."""
    found, last = [], None
    for code_point in range(0x110000):
        value = values.get(code_point, 0)
        if value != last:
            found.append((code_point, value))
            last = value
    return found


def lower_runs(mapped):
    """(first, last, step, difference) for letters at equal distances whose lower case lies equally far away."""
    found = []
    for code_point in sorted(mapped):
        difference = mapped[code_point] - code_point
        if found and found[-1][3] == difference:
            first, last, step, _ = found[-1]
            distance = code_point - last
            if (first == last and distance <= 2) or distance == step:
                found[-1] = (first, code_point, distance, difference)
                continue
        found.append((code_point, code_point, 1, difference))
    return found


class Tables:
    def __init__(self):
        self.flags = {c: ask_flags(c) for c in CODE_POINTS}
        self.decompositions = {c: nfd(chr(c)) for c in CODE_POINTS if c not in HANGUL and nfd(chr(c)) != chr(c)}
        self.combining = ask_combining(self.decompositions)
        # Those of several parts that are never made of them again.
        self.not_composed = [c for c, parts in self.decompositions.items() if len(parts) > 1 and nfc(chr(c)) != chr(c)]
        whole = {parts: c for c, parts in self.decompositions.items() if len(parts) > 1 and c not in self.not_composed}
        self.pairs = {(whole.get(parts[:-1], ord(parts[0])), ord(parts[-1])): c for parts, c in whole.items()}
        self.lower, self.long_lower = {}, {}
        for code_point in CODE_POINTS:
            text = lower(chr(code_point))
            if len(text) == 1 and text != chr(code_point):
                self.lower[code_point] = ord(text)
            elif len(text) != 1:
                self.long_lower[code_point] = text

    def nfd(self, text):
        parts = []
        for c in text:
            code_point = ord(c)
            if code_point in HANGUL:
                index = code_point - HANGUL.start
                parts += [0x1100 + index // 588, 0x1161 + index % 588 // 28] + ([0x11A7 + index % 28] if index % 28 else [])
            else:
                parts += map(ord, self.decompositions.get(code_point, c))
        begin = 0
        for end in range(len(parts) + 1):
            if end == len(parts) or not self.combining.get(parts[end]):
                parts[begin:end] = sorted(parts[begin:end], key=lambda c: self.combining.get(c, 0))
                begin = end + 1
        return "".join(map(chr, parts))

    def pair(self, first, second):
        if 0x1100 <= first < 0x1113 and 0x1161 <= second < 0x1176:
            return HANGUL.start + ((first - 0x1100) * 21 + second - 0x1161) * 28
        if first in HANGUL and (first - HANGUL.start) % 28 == 0 and 0x11A7 < second < 0x11C3:
            return first + second - 0x11A7
        return self.pairs.get((first, second))

    def nfc(self, text):
        parts, made, starter, before = [ord(c) for c in self.nfd(text)], [], None, 0
        for code_point in parts:
            rank = self.combining.get(code_point, 0)
            # A mark of the same rank, or a starter, between the two blocks what comes behind it.
            blocked = starter is not None and starter + 1 < len(made) and (before >= rank or before == 0)
            composed = None if starter is None or blocked else self.pair(made[starter], code_point)
            if composed is not None:
                made[starter] = composed
                continue
            if rank == 0:
                starter = len(made)
            made.append(code_point)
            before = rank
        return "".join(map(chr, made))

    def strip(self, text):
        return "".join(c for c in self.nfd(text) if not self.flags[ord(c)] & MARK)

    def compare(self):
        marks = [chr(c) for c in self.combining] + [chr(c) for c in self.decompositions]
        words = random_words(20000, 3, longest=20)
        words += ["".join(marks[i * k * 7919 % len(marks)] for k in range(1, 9)) for i in range(len(marks))]
        words += ["a" + chr(c) + "\u0301\u0316" for c in CODE_POINTS if c not in HANGUL] + [chr(c) + "\u0301" for c in HANGUL]
        for word in words:
            for ours, theirs in ((self.nfd, nfd), (self.nfc, nfc), (self.strip, strip)):
                if ours(word) != theirs(word):
                    sys.exit(f"{word!r}: {ours(word)!r} by these tables, {theirs(word)!r} by the library")
        print(f"{len(words)} words are decomposed and composed as the library does it")


def array(kind, name, comment, entries):
    lines, line = [f"// {comment}", f"constexpr {kind} {name}[] = {{"], "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 118:
            lines.append(line)
            line = "   "
        line += f" {entry},"
    return lines + [line, "};"]


def render(tables):
    decompositions = []
    for code_point, text in sorted(tables.decompositions.items()):
        decompositions += [f"0x{code_point:X}", str(len(text)), *(f"0x{ord(c):X}" for c in text)]
    lines = [
        "// Made by tools/make_tokenizer_unicode.py: do not edit.",
        f"// Asked of tokenizers {tokenizers.__version__}. A run ends where the next begins.",
        *array("CodePointRun", "kFlagRuns", "The flags of each code point: the first code point of a run, and its flags.",
               (f"{{0x{c:X}, {value}}}" for c, value in runs(tables.flags))),
        *array("CodePointRun", "kCombiningRuns", "Canonical combining classes.",
               (f"{{0x{c:X}, {value}}}" for c, value in runs(tables.combining))),
        *array("char32_t", "kDecompositions", "Whole canonical decompositions: a code point, their number, and they.",
               decompositions),
        *array("char32_t", "kNotComposed", "Those of several parts that are never made of them again.",
               (f"0x{c:X}" for c in sorted(tables.not_composed))),
        *array("LowerRun", "kLowerRuns", "Lower case: first and last code point, the step between, the difference.",
               (f"{{0x{a:X}, 0x{b:X}, {step}, {d}}}" for a, b, step, d in lower_runs(tables.lower))),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    arguments = parser.parse_args()
    tables = Tables()
    # Lower case that is longer than a character stands in the code.
    if tables.long_lower != {0x130: "i\u0307"}:
        sys.exit(f"lower case of more than one character: {tables.long_lower}")
    tables.compare()
    text = render(tables)
    return tokenizer_tables.finish(OUTPUT, text, arguments.check)


if __name__ == "__main__":
    sys.exit(main())
