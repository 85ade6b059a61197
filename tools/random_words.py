"""Random Unicode words for tokenizer checks: every plane, assigned or not, and the kinds of text that break tokenizers."""

import random

PLANES = [(0x10000 * plane, 0x10000 * plane + 0xFFFF) for plane in range(17)]
RANGES = {
    "ascii": [(0x20, 0x7E)],
    "control": [(0x00, 0x1F), (0x7F, 0x9F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF)],
    "space": [(0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E),
              (0x2000, 0x200B), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)],
    "digit": [(0x30, 0x39), (0xB2, 0xB3), (0x660, 0x669), (0x966, 0x96F), (0x2070, 0x2079), (0x2150, 0x218B),
              (0x2460, 0x249B), (0x3007, 0x3007), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF), (0x1FBF0, 0x1FBF9)],
    "latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF), (0xA720, 0xA7FF)],
    "mark": [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x900, 0x903), (0x93A, 0x94F), (0x1AB0, 0x1AFF),
             (0x20D0, 0x20F0), (0xFE00, 0xFE0F), (0xFE20, 0xFE2F), (0xE0100, 0xE01EF)],
    "rtl": [(0x590, 0x7BF), (0x8A0, 0x8FF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFC), (0x10800, 0x10FFF), (0x1E800, 0x1EFFF)],
    "asian": [(0x900, 0x1CFF), (0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x3347F)],
    "emoji": [(0x2190, 0x2BFF), (0x1F000, 0x1FAFF), (0xFE0F, 0xFE0F), (0x200D, 0x200D), (0xE0020, 0xE007F)],
    "currency": [(0x24, 0x24), (0xA2, 0xA5), (0x20A0, 0x20CF)],
}
TEXTS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "''", "' s", " ", "  ", "\t", "\n", "\r\n", " \u3000",
         "<s>", "</s>", "<pad>", "<unk>", "<mask>", " <mask>", "<mask> ", "<MASK>", "<", "</s", "<<s>>", "RM", "12.90",
         "e\u0301", "\u0130", "\ufb01", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1F2\U0001F1FE", "\0"]


def draw_char(rng, low, high):
    while True:
        code_point = rng.randint(low, high)
        if not 0xD800 <= code_point <= 0xDFFF:
            return chr(code_point)


def random_word(rng, longest, texts):
    kinds = list(RANGES)
    mix = rng.random()
    if mix < 0.35:  # characters of one kind
        ranges = RANGES[rng.choice(kinds)]
        sources = [lambda: draw_char(rng, *rng.choice(ranges))]
    elif mix < 0.7:  # a mixture of kinds
        sources = [lambda: draw_char(rng, *rng.choice(RANGES[rng.choice(kinds)]))]
    elif mix < 0.85:  # any plane; most of it is unassigned
        sources = [lambda: draw_char(rng, *rng.choice(PLANES))]
    else:  # texts with a special meaning, among others
        sources = [lambda: rng.choice(texts), lambda: rng.choice(texts),
                   lambda: draw_char(rng, *rng.choice(RANGES[rng.choice(kinds)]))]
    return "".join(rng.choice(sources)() for _ in range(rng.randint(1, longest)))


def random_words(count, seed, longest=12, texts=TEXTS):
    rng = random.Random(seed)
    return [random_word(rng, longest, texts) for _ in range(count)]
