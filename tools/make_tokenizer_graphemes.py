#!/usr/bin/env python3
"""Writes src/data/tokenizer_graphemes.inc: how each code point joins others in a grapheme cluster, as Hugging Face's
`tokenizers` cuts text before it looks clusters up in a Unigram model's character map.

The library has no call for this. But its normaliser replaces a whole cluster of fewer than six bytes if the cluster
begins with a character of the map, and character by character otherwise; so with a map made for the purpose, what is
replaced shows where the clusters end. Regional indicators are not told from other characters: they take four bytes, so
no cluster with two of them is ever replaced as a whole.

    python tools/make_tokenizer_graphemes.py            # writes the file
    python tools/make_tokenizer_graphemes.py --check    # exits 1 if the installed library answers otherwise
"""

import argparse
import pathlib
import random
import struct
import sys

import tokenizers
from tokenizers import normalizers

import tokenizer_tables
from make_tokenizer_unicode import CODE_POINTS, HANGUL, array, expect, runs
from random_words import random_words

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "src/data/tokenizer_graphemes.inc"
OTHER, CONTROL, EXTEND, JOINER, PREPEND, SPACING, LEADING, VOWEL, TRAILING, PICTURE = range(10)
SYLLABLE_OPEN, SYLLABLE_CLOSED = 10, 11  # LV and LVT, by arithmetic
CONSONANT, LINKER, CONJUNCT_EXTEND = 16, 32, 64
ACCENT, ZWJ, TRADE_MARK, VIRAMA, KA = "\u0301", "\u200d", "\u2122", "\u094d", "\u0915"


def unit(offset, label, leaf=False):
    assert offset < 1 << 21
    return offset << 10 | leaf << 8 | label


def charsmap(transitions, replacement="Z"):
    """A character map whose trie is this automaton: state -> {byte: state or None}, None being the end of a key. A
    double array looks only at a unit's label, so states may be shared."""
    bases = {state: 256 * (i + 1) for i, state in enumerate(transitions)}
    leaf = 256 * (len(transitions) + 1)
    units = [0] * (leaf + 256)
    units[0] = unit(bases["start"], 0)
    for state, edges in transitions.items():
        for byte, target in edges.items():
            place = bases[state] ^ byte
            units[place] = unit(place ^ (leaf if target is None else bases[target]), byte, target is None)
    units[leaf] = 1 << 31
    blob = struct.pack(f"<{len(units)}I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(blob)) + blob + replacement.encode() + b"\0").normalize_str


def map_of(character):
    key = character.encode()
    states = ["start", *(f"{i}" for i in range(1, len(key)))]
    return charsmap({states[i]: {key[i]: states[i + 1] if i + 1 < len(key) else None} for i in range(len(key))})


CONTINUE = range(0x80, 0xC0)
any_not_ascii = charsmap({
    "start": {**{b: "1" for b in range(0xC2, 0xE0)}, **{b: "2" for b in range(0xE0, 0xF0)}, **{b: "3" for b in range(0xF0, 0xF5)}},
    "1": {b: None for b in CONTINUE}, "2": {b: "1" for b in CONTINUE}, "3": {b: "2" for b in CONTINUE}})
only_a, only_trade_mark, only_ka, only_leading, only_open, only_vowel, only_trailing = map(
    map_of, ["a", TRADE_MARK, KA, "\u1100", "\uac00", "\u1161", "\u11a8"])


def joined(mapped, before, character):
    """Whether a character of two or three bytes is joined to what stands before it."""
    return not mapped(before + character + ACCENT).endswith("Z")


def ask(code_point):
    c = chr(code_point)
    flags = OTHER
    if code_point < 0x80:  # an ASCII character is never in the map that shows control characters
        return CONTROL if code_point < 0x20 or code_point == 0x7F else OTHER
    if only_a("a" + c) == "Z":
        if c == ZWJ:
            flags = JOINER
        else:
            flags = EXTEND if joined(only_trade_mark, "\u00a9" + c + ZWJ, TRADE_MARK) else SPACING
    elif any_not_ascii(c + "a") == "Z":
        flags = PREPEND
    elif len(c.encode()) < 4 and any_not_ascii(c + ACCENT) == "ZZ" or any_not_ascii(c + ACCENT * 2) == "ZZ":
        flags = CONTROL
    elif joined(only_trade_mark, c + ZWJ, TRADE_MARK):
        flags = PICTURE
    elif joined(only_vowel, c, "\u1161"):
        leading, trailing = joined(only_open, c, "\uac00"), joined(only_trailing, c, "\u11a8")
        expect(leading != trailing, code_point, "it joins Hangul as neither a leading consonant nor a vowel does")
        flags = LEADING if leading else SYLLABLE_OPEN if code_point in HANGUL else VOWEL
    elif joined(only_trailing, c, "\u11a8"):
        flags = SYLLABLE_CLOSED if code_point in HANGUL else TRAILING
    if joined(only_ka, c + VIRAMA, KA) and flags not in (PREPEND,):
        flags |= CONSONANT
    if joined(only_ka, KA + c, KA) and flags not in (PREPEND,):
        flags |= LINKER
    elif joined(only_ka, KA + c + VIRAMA, KA) and flags & 15 in (EXTEND, JOINER, SPACING):
        flags |= CONJUNCT_EXTEND
    return flags


class Cutter:
    """The rules of UAX 29, as src/data/tokenizer_graphemes.cpp applies them."""

    def __init__(self, flags):
        self.flags = flags

    def joins(self, text, i):
        before, after = self.flags[ord(text[i - 1])], self.flags[ord(text[i])]
        b, a = before & 15, after & 15
        if text[i - 1:i + 1] == "\r\n":
            return True
        if b == CONTROL or a == CONTROL:
            return False
        if (b == LEADING and a in (LEADING, VOWEL, SYLLABLE_OPEN, SYLLABLE_CLOSED)) or (
                b in (SYLLABLE_OPEN, VOWEL) and a in (VOWEL, TRAILING)) or (
                b in (SYLLABLE_CLOSED, TRAILING) and a == TRAILING):
            return True
        if a in (EXTEND, JOINER, SPACING) or b == PREPEND:
            return True
        if after & CONSONANT:
            k, linked = i - 1, False
            while k >= 0 and self.flags[ord(text[k])] & (LINKER | CONJUNCT_EXTEND):
                linked = linked or bool(self.flags[ord(text[k])] & LINKER)
                k -= 1
            if k >= 0 and linked and self.flags[ord(text[k])] & CONSONANT:
                return True
        if a == PICTURE and b == JOINER:
            k = i - 2
            while k >= 0 and self.flags[ord(text[k])] & 15 == EXTEND:
                k -= 1
            return k >= 0 and self.flags[ord(text[k])] & 15 == PICTURE
        return False

    def replace(self, text):
        """What any_not_ascii makes of the text."""
        out, begin = "", 0
        for i in range(1, len(text) + 1):
            if i < len(text) and self.joins(text, i):
                continue
            cluster = text[begin:i]
            begin = i
            whole = len(cluster.encode()) < 6 and ord(cluster[0]) >= 0x80
            out += "Z" if whole else "".join("Z" if ord(c) >= 0x80 else c for c in cluster)
        return out


def compare(flags):
    cutter = Cutter(flags)
    rng = random.Random(5)
    kinds = {}
    for code_point, value in flags.items():
        kinds.setdefault((value, len(chr(code_point).encode())), []).append(chr(code_point))
    lists = list(kinds.values())
    texts = ["".join(rng.choice(rng.choice(lists)) for _ in range(rng.randint(2, 9))) for _ in range(400000)]
    texts += random_words(50000, 9, longest=20)
    for text in texts:
        if cutter.replace(text) != any_not_ascii(text):
            sys.exit(f"{text!r}: {cutter.replace(text)!r} by these tables, {any_not_ascii(text)!r} by the library")
    print(f"{len(texts)} texts are cut as the library cuts them; {len(lists)} kinds of characters")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    arguments = parser.parse_args()
    flags = {c: ask(c) for c in CODE_POINTS}
    compare(flags)
    for code_point in HANGUL:
        kind = SYLLABLE_CLOSED if (code_point - HANGUL.start) % 28 else SYLLABLE_OPEN
        expect(flags[code_point] == kind, code_point, "a Hangul syllable of an unexpected kind")
    stored = {c: value for c, value in flags.items() if c not in HANGUL}
    text = "\n".join([
        "// Made by tools/make_tokenizer_graphemes.py: do not edit.",
        f"// Asked of tokenizers {tokenizers.__version__}. A run ends where the next begins; syllables of Hangul are left out.",
        *array("CodePointRun", "kGraphemeRuns", "The first code point of a run, and its kind with its flags.",
               (f"{{0x{c:X}, {value}}}" for c, value in runs(stored)))]) + "\n"
    return tokenizer_tables.finish(OUTPUT, text, arguments.check)


if __name__ == "__main__":
    sys.exit(main())
