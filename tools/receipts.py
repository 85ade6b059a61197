"""Pages as Plimsoll reads them (JSONL + images), tokenised and collated with Hugging Face's own parts.

Used by the scripts of tools/ and bench/; not a program itself.
"""

import json
from pathlib import Path

import torch

from reference import IGNORED_LABEL, SHARED, read_jsonl

CLS, PAD, SEP = 0, 1, 2


def shared_pages(split="train"):
    """Returns the real receipts beside the checkout, or None if they are absent."""
    path = SHARED / "data" / "sroie" / f"{split}.jsonl"
    return path if path.exists() else None


def shared_tokenizer():
    path = SHARED / "data" / "layoutlmv3-base" / "tokenizer.json"
    return path if path.exists() else None


def load_tokenizer(path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()  # a tokenizer.json may carry a fixed padding of 512
    tokenizer.no_truncation()
    return tokenizer


def normalize_box(box, width, height):
    """Converts pixels to 0..1000, in the order of operations of LayoutLMv3's own image processor."""
    return [int(1000 * (box[0] / width)), int(1000 * (box[1] / height)),
            int(1000 * (box[2] / width)), int(1000 * (box[3] / height))]


class Windows:
    """Pages cut into windows of at most `max_length` tokens (with <s> and </s>), by the rule of src/data/windows.h.

    A window ends between two words, and the next one begins with the first whole word of its last `stride` tokens. A
    word that lies in several windows is labelled in each of them; its prediction is read from `owner`.
    """

    def __init__(self, path, tokenizer, label_ids, max_length=512, stride=128, input_size=224):
        self.path = Path(path)
        self.pages = read_jsonl(path)
        self.tokenizer, self.label_ids = tokenizer, label_ids
        self.room, self.stride = max_length - 2, stride
        # Imported only here: synthetic pages need no pictures, and so no Pillow.
        from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

        self.processor = LayoutLMv3ImageProcessorPil(
            apply_ocr=False, image_mean=[0.5] * 3, image_std=[0.5] * 3,
            size={"height": input_size, "width": input_size})
        self.pixels_ = {}
        self.windows_ = {}
        self.tokens_ = {}

    def labels(self, page):
        return self.pages[page]["labels"]

    def tokens(self, page):
        """(ids, word index of each token) of a whole page, without special tokens."""
        if page not in self.tokens_:
            encoding = self.tokenizer.encode(self.pages[page]["words"], is_pretokenized=True, add_special_tokens=False)
            self.tokens_[page] = (encoding.ids, encoding.word_ids)
        return self.tokens_[page]

    def windows(self, page):
        """Half-open token ranges [(begin, end), ...]; one range for a page that fits."""
        if page not in self.windows_:
            self.windows_[page] = cut_windows(self.tokens(page)[1], self.room, self.stride)
        return self.windows_[page]

    def owner(self, page, token):
        """Returns the window in which `token` has most context on its poorer side; a page's own ends count as plenty."""
        count = len(self.tokens(page)[0])

        def context(window):
            begin, end = window
            return min(count if begin == 0 else token - begin, count if end == count else end - 1 - token)

        windows = self.windows(page)
        holding = [index for index, (begin, end) in enumerate(windows) if begin <= token < end]
        return max(holding, key=lambda index: (context(windows[index]), -index))

    def pixels(self, page):
        """F32 [3, input_size, input_size], kept as bytes between calls."""
        if page not in self.pixels_:
            from PIL import Image

            with Image.open(self.path.parent / self.pages[page]["image"]) as image:
                raw = self.processor(image.convert("RGB"), do_rescale=False, do_normalize=False, return_tensors="pt")
            self.pixels_[page] = raw["pixel_values"][0].to(torch.uint8)
        # make_batch.py checks the processor's own arithmetic (rescale in float64, then (x - mean) / std).
        return (self.pixels_[page].double() * (1 / 255)).float().sub(0.5).div(0.5)

    def example(self, page, window):
        """Lists of one window: ids, boxes, labels, and the word of each token (None for <s> and </s>)."""
        record = self.pages[page]
        ids, words = self.tokens(page)
        begin, end = self.windows(page)[window]
        boxes, labels = [], []
        for index in range(begin, end):
            word = words[index]
            boxes.append(normalize_box(record["boxes"][word], record["width"], record["height"]))
            first = index == 0 or words[index - 1] != word
            labels.append(self.label_ids[record["labels"][word]] if first else IGNORED_LABEL)
        return {"ids": [CLS, *ids[begin:end], SEP], "boxes": [[0] * 4, *boxes, [0] * 4],
                "labels": [IGNORED_LABEL, *labels, IGNORED_LABEL], "words": [None, *words[begin:end], None]}

    def collate(self, examples, length=None):
        """Returns a batch of [(page, window), ...] padded to the longest, or to `length` tokens."""
        rows = [self.example(page, window) for page, window in examples]
        length = length or max(len(row["ids"]) for row in rows)
        batch = pad_rows(rows, length)
        batch["pixel_values"] = torch.stack([self.pixels(page) for page, _ in examples])
        return batch


def cut_windows(words, room, stride):
    """[(begin, end), ...] over tokens that belong to `words`, each at most `room` long."""
    count = len(words)
    starts = [token for token in range(count) if token == 0 or words[token] != words[token - 1]] + [count]
    ranges, begin = [], 0
    while True:
        whole = [start for start in starts if begin < start <= begin + room]
        end = whole[-1] if whole else begin + room  # a word longer than a window is cut
        ranges.append((begin, end))
        if end == count:
            return ranges
        next_end = next(start for start in starts if start > end)
        earliest = min(max(end - stride, next_end - room, begin + 1), end)
        begin = next((start for start in starts if earliest <= start < end), end)


def pad_rows(rows, length):
    def padded(values, fill):
        return values + [fill] * (length - len(values))

    return {
        "input_ids": torch.tensor([padded(row["ids"], PAD) for row in rows]),
        "bbox": torch.tensor([padded(row["boxes"], [0] * 4) for row in rows]),
        "attention_mask": torch.tensor([padded([1] * len(row["ids"]), 0) for row in rows]),
        "labels": torch.tensor([padded(row["labels"], IGNORED_LABEL) for row in rows]),
    }


def synthetic_row(length, vocabulary, labels, generator):
    """Makes a page of random words in reading order: lines from left to right, some words of two or three tokens."""
    def draw(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    ids, boxes, targets = [CLS], [[0] * 4], [IGNORED_LABEL]
    x, y, height = draw(20, 80), draw(10, 60), draw(8, 30)
    while len(ids) < length - 1:
        width = draw(10, 140)
        if x + width > 990:
            x, y, height = draw(20, 200), y + height + draw(0, 20), draw(8, 30)
            if y + height > 990:
                y = draw(10, 60)
        pieces = min(draw(1, 4), length - 1 - len(ids))
        for piece in range(pieces):
            ids.append(draw(3, vocabulary))
            boxes.append([x, y, x + width, y + height])
            targets.append(draw(0, labels) if piece == 0 else IGNORED_LABEL)
        x += width + draw(4, 30)
    ids.append(SEP)
    boxes.append([0] * 4)
    targets.append(IGNORED_LABEL)
    return {"ids": ids, "boxes": boxes, "labels": targets}


def synthetic_batch(lengths, padded_length, vocabulary, labels, input_size, seed):
    generator = torch.Generator().manual_seed(seed)
    batch = pad_rows([synthetic_row(length, vocabulary, labels, generator) for length in lengths], padded_length)
    batch["pixel_values"] = torch.rand((len(lengths), 3, input_size, input_size), generator=generator) * 2 - 1
    return batch


def load_label_ids(directory):
    config = json.loads((Path(directory) / "config.json").read_text(encoding="utf-8"))
    return {name: int(index) for index, name in config["id2label"].items()}
