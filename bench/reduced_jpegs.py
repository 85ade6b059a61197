#!/usr/bin/env python3
"""Tests if large JPEGs can be decoded at a half, a quarter or an eighth of their size, which libjpeg does several times as fast.

What a model sees of them, 224 x 224, is compared with what it sees of the whole picture, in steps of a byte. The bar for
images is one step (tools/check_images.py). Pages are those of ../shared/data/sroie, drawn five times as large with a
scanner's noise.

  bench/reduced_jpegs.py [--pages 8]
"""

import argparse
import io
from pathlib import Path

import numpy
from PIL import Image

SIDE = 224


def seen(image):
    return numpy.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.BILINEAR), int)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=8)
    parser.add_argument("--images", type=Path,
                        default=Path(__file__).resolve().parents[2] / "shared" / "data" / "sroie" / "images")
    options = parser.parse_args()
    noise = numpy.random.default_rng(0)
    worst = {2: 0, 4: 0, 8: 0}
    for path in sorted(options.images.glob("*.jpg"))[:options.pages]:
        page = Image.open(path).convert("RGB")
        page = page.resize((5 * page.width, 5 * page.height), Image.BICUBIC)
        page = Image.fromarray((numpy.asarray(page, int) + noise.normal(0, 6, (page.height, page.width, 1))).clip(0, 255)
                               .astype("uint8"))
        file = io.BytesIO()
        page.save(file, "JPEG", quality=90)
        whole = seen(Image.open(file))
        for part in worst:
            reduced = Image.open(file)
            reduced.draft("RGB", (page.width // part, page.height // part))
            worst[part] = max(worst[part], int(numpy.abs(whole - seen(reduced)).max()))
    for part, steps in worst.items():
        print(f"decoded at 1/{part}: largest difference {steps}/255, bar 1/255: {'within' if steps <= 1 else 'outside'}")


if __name__ == "__main__":
    main()
