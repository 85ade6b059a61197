#!/usr/bin/env python3
"""Builds one batch as safetensors, with the names and shapes of transformers.

Real receipts (../shared/data/sroie, Hugging Face tokenizer and image processor) where they are present, otherwise seeded
random tokens and boxes. Written: input_ids I64 [B, T], bbox I64 [B, T, 4], attention_mask I64 [B, T],
pixel_values F32 [B, 3, 224, 224], labels I64 [B, T].

  tools/make_batch.py --batch 2 --length 512 --labels 7 --output build/parity/batch7.safetensors
"""

import argparse
import sys
from pathlib import Path

import torch

import receipts
import reference


def make_batch(batch, length, labels, first_page=0, fill=False, synthetic=False, seed=1, vocabulary=50265,
               input_size=224):
    """With `fill`, words of the following receipts are appended until every token is used, for measurements without padding."""
    pages, tokenizer = receipts.shared_pages(), receipts.shared_tokenizer()
    if synthetic or pages is None or tokenizer is None:
        generator = torch.Generator().manual_seed(seed)
        lengths = [length if fill or row == 0 else int(torch.randint(length // 2, length, (), generator=generator))
                   for row in range(batch)]
        return receipts.synthetic_batch(lengths, length, vocabulary, labels, input_size, seed)

    names = reference.SROIE_LABELS
    label_ids = {name: index % labels for index, name in enumerate(names)}
    windows = receipts.Windows(pages, receipts.load_tokenizer(tokenizer), label_ids, max_length=length,
                               input_size=input_size)
    rows, chosen, page = [], [], first_page
    for _ in range(batch):
        row = windows.example(page, 0)
        chosen.append(page)
        page += 1
        while fill and len(row["ids"]) < length:
            more = windows.example(page, 0)
            page += 1
            for key in ("ids", "boxes", "labels"):
                row[key] = (row[key][:-1] + more[key][1:-1])[:length - 1] + [more[key][-1]]
        rows.append(row)
    result = receipts.pad_rows(rows, length)
    result["pixel_values"] = torch.stack([windows.pixels(index) for index in chosen])
    check_pixels(windows, chosen, result["pixel_values"])
    return result


def check_pixels(windows, pages, pixels):
    """Checks that the cached bytes, rescaled here, equal the output of the Hugging Face processor."""
    from PIL import Image

    for index, page in enumerate(pages):
        with Image.open(windows.path.parent / windows.pages[page]["image"]) as image:
            expected = windows.processor(image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
        difference = float((expected - pixels[index]).abs().max())
        assert difference < 1e-6, f"page {page}: pixel values differ by {difference}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=512, help="T, text tokens a page, padding included")
    parser.add_argument("--labels", type=int, default=7, help="label ids are taken modulo this")
    parser.add_argument("--first-page", type=int, default=0)
    parser.add_argument("--fill", action="store_true", help="no padding: following receipts fill the length")
    parser.add_argument("--synthetic", action="store_true", help="random tokens even where receipts are present")
    parser.add_argument("--vocabulary", type=int, default=50265, help="of synthetic tokens")
    parser.add_argument("--input-size", type=int, default=224)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    batch = make_batch(options.batch, options.length, options.labels, options.first_page, options.fill,
                       options.synthetic, options.seed, options.vocabulary, options.input_size)
    reference.write_tensors(batch, options.output)
    real = int(batch["attention_mask"].sum())
    labelled = int((batch["labels"] != reference.IGNORED_LABEL).sum())
    print(f"{options.output}: {options.batch} x {options.length} tokens, {real} not padding, {labelled} labelled")


if __name__ == "__main__":
    sys.exit(main())
