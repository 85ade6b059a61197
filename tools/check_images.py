#!/usr/bin/env python3
"""Compares pixel values with the Hugging Face image processor (its Pillow variant), and makes the golden images.

    tools/check_images.py --program build/release/bench/plimsoll_pixels --images DIR
        Loads every image under DIR both ways and prints how far they are apart. Exit 1 if the bar is missed:
        within 1/255 after rescaling, 99.9 % identical bytes before normalising.
    tools/check_images.py --random 200
        The same on random images of random sizes.
    tools/check_images.py --golden test/data/images
        Writes small images of every kind (seed 20250101) and what Pillow makes of them.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps

SEED = 20250101


def compare(program: str, folder: pathlib.Path) -> int:
    import transformers
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

    processor = LayoutLMv3ImageProcessorPil(apply_ocr=False)
    resize_only = LayoutLMv3ImageProcessorPil(apply_ocr=False, do_rescale=False, do_normalize=False)
    endings = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".ppm", ".pgm", ".pbm", ".webp"}
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in endings)
    if not paths:
        sys.exit(f"no images under {folder}")
    count = 224 * 224 * 3
    total = same = floats_same = 0
    worst_byte, worst_value, refused = 0, 0.0, 0
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for path in paths:
            process.stdin.write(f"{path}\n".encode())
            process.stdin.flush()
            if struct.unpack("<i", process.stdout.read(4))[0] != 0:
                refused += 1
                continue
            ours = np.frombuffer(process.stdout.read(count), np.uint8).reshape(224, 224, 3)
            values = np.frombuffer(process.stdout.read(4 * count), np.float32).reshape(3, 224, 224)
            image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
            theirs = np.asarray(resize_only(image)["pixel_values"][0]).transpose(1, 2, 0)
            expected = np.asarray(processor(image)["pixel_values"][0])
            total += count
            same += int((ours == theirs).sum())
            floats_same += int((values == expected).sum())
            worst_byte = max(worst_byte, int(np.abs(ours.astype(int) - theirs.astype(int)).max()))
            worst_value = max(worst_value, float(np.abs(values - expected).max()))
        process.stdin.close()
    if total == 0:
        sys.exit("no image could be loaded")
    identical = same / total
    # One level of a byte is 1/255 before normalising, and 2/255 after (divided by 0.5).
    met = worst_byte <= 1 and identical >= 0.999 and refused == 0
    print(f"Pillow {PIL.__version__}, transformers {transformers.__version__}, {len(paths)} images, {refused} refused")
    print(f"identical bytes before normalising   {100 * identical:.4f} %   (bar: 99.9 %)")
    print(f"largest difference of a byte         {worst_byte}/255       (bar: 1/255)")
    print(f"identical floats after normalising   {100 * floats_same / total:.4f} %")
    print(f"largest difference after normalising {worst_value:.3g}")
    print("bar met" if met else "BAR MISSED")
    return 0 if met else 1


def make_random(folder: pathlib.Path, count: int) -> None:
    random = np.random.default_rng(SEED)
    for i in range(count):
        width, height = (int(2 ** random.uniform(0, 11.5)) for _ in range(2))
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(folder / f"{i}.ppm")


def png_bytes(
    width: int, height: int, bit_depth: int, colour_type: int, rows: bytes, extra: bytes = b"", interlaced: bool = False
) -> bytes:
    """Makes a PNG by hand, for kinds that Pillow does not write. `rows` holds filter byte 0 in front of each row."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def bmp16_bytes(pixels: np.ndarray) -> bytes:
    """Makes a BMP of five bits a channel, which Pillow reads and does not write."""
    height, width = pixels.shape[:2]
    five = pixels.astype(np.uint16) >> 3
    rows = np.zeros((height, (width + 1) // 2 * 2), "<u2")
    rows[:, :width] = (five[..., 0] << 10 | five[..., 1] << 5 | five[..., 2])[::-1]
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 16, 0, rows.nbytes, 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + rows.nbytes, 0, 0, 54) + header + rows.tobytes()


def adam7_rows(pixels: np.ndarray) -> bytes:
    """Arranges [height, width, 3] in the seven passes of an interlaced PNG."""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    return b"".join(pack_rows(pixels[y::dy, x::dx].reshape(len(pixels[y::dy]), -1), 8) for y, x, dy, dx in passes)


def pack_rows(samples: np.ndarray, bits: int) -> bytes:
    """Packs [height, row samples] of `bits` each (1, 2, 4, 8, 16) as PNG rows."""
    rows = b""
    for row in samples:
        if bits == 16:
            rows += b"\0" + row.astype(">u2").tobytes()
        else:
            spread = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits :]
            rows += b"\0" + np.packbits(spread.reshape(-1)).tobytes()
    return rows


def make_golden(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    random = np.random.default_rng(SEED)
    width, height = 61, 47
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    smooth = np.stack([x * 4, y * 5, (x + y) * 2], axis=-1) % 256
    noise = random.integers(0, 256, (height, width, 3))
    scene = np.where(((x // 7 + y // 5) % 2 == 0)[..., None], smooth, noise).astype(np.uint8)
    rgb = Image.fromarray(scene)
    gray = rgb.convert("L")
    rgba = Image.fromarray(np.concatenate([scene, noise[..., :1].astype(np.uint8)], axis=-1))

    def save(name: str, image: Image.Image, **options) -> None:
        image.save(folder / name, **options)

    save("rgb.png", rgb)
    save("rgba.png", rgba)
    save("gray.png", gray)
    save("gray_trns.png", gray, transparency=5)
    save("gray_alpha.png", Image.merge("LA", [gray, rgba.getchannel("A")]))
    save("palette.png", rgb.quantize(40))
    save("palette4.png", rgb.quantize(11), bits=4)
    save("palette_alpha.png", rgb.quantize(40), transparency=3)
    save("bilevel.png", gray.convert("1"))
    save("rgb_420.jpg", rgb, quality=83, subsampling="4:2:0")
    save("rgb_422.jpg", rgb, quality=83, subsampling="4:2:2")
    save("rgb_444.jpg", rgb, quality=83, subsampling="4:4:4")
    save("progressive.jpg", rgb, quality=70, subsampling="4:2:0", progressive=True)
    save("gray.jpg", gray, quality=90)
    save("cmyk.jpg", Image.merge("CMYK", [*rgb.split(), gray.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]), quality=90)
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"exif_{orientation}.jpg", rgb, quality=83, exif=exif)
    save("exif_8.png", rgb, exif=exif)
    for orientation in (3, 6):
        save(f"orientation_{orientation}.tif", rgb, tiffinfo={0x0112: orientation})
    save("gray_orientation_5.tif", gray, compression="tiff_lzw", tiffinfo={0x0112: 5})
    save("rgb.tif", rgb)
    save("lzw.tif", rgb, compression="tiff_lzw")
    save("gray.tif", gray, compression="tiff_adobe_deflate")
    save("group4.tif", gray.convert("1"), compression="group4")
    save("palette.tif", rgb.quantize(40))
    save("rgb.webp", rgb, quality=83)
    save("lossless.webp", rgb, lossless=True)
    save("rgba.webp", rgba, quality=83)
    save("rgba_lossless.webp", rgba, lossless=True, exact=True)
    save("exif_8.webp", rgb, quality=83, exif=exif)
    save("rgb.ppm", rgb)
    save("gray.pgm", gray)
    save("bilevel.pbm", gray.convert("1"))
    save("rgb.bmp", rgb)
    save("rgba.bmp", rgba)
    save("palette4.bmp", rgb.quantize(12))
    save("bilevel.bmp", gray.convert("1"))
    (folder / "rgb555.bmp").write_bytes(bmp16_bytes(scene))
    save("orientation_8.tif", rgb, tiffinfo={0x0112: 8})
    save("opaque.tif", Image.merge("RGBA", [*rgb.split(), gray.point(lambda _: 255)]))
    save("gray_alpha.tif", Image.merge("LA", [gray, rgba.getchannel("A")]))
    for name in ("rgb_444.jpg", "rgb.png", "rgb.bmp"):  # phones put other data behind a picture
        whole = (folder / name).read_bytes()
        (folder / f"trailer_{name}").write_bytes(whole + bytes(range(250)) * 20)
    save("one_pixel.png", Image.fromarray(scene[:1, :1]))
    save("same_size.png", rgb.resize((24, 32)))
    save("same_width.png", rgb.resize((24, 47)))
    save("same_height.png", rgb.resize((61, 32)))
    save("tall.png", rgb.resize((3, 200)))
    wide = random.integers(0, 4, (height, width))
    (folder / "gray2.png").write_bytes(png_bytes(width, height, 2, 0, pack_rows(wide, 2)))
    wide = random.integers(0, 16, (height, width))
    (folder / "gray4.png").write_bytes(png_bytes(width, height, 4, 0, pack_rows(wide, 4)))
    (folder / "interlaced.png").write_bytes(png_bytes(width, height, 8, 2, adam7_rows(scene), interlaced=True))
    deep = random.integers(0, 65536, (height, width * 3))
    (folder / "rgb16.png").write_bytes(png_bytes(width, height, 16, 2, pack_rows(deep, 16)))
    deep_gray = random.integers(0, 65536, (height, width))
    (folder / "gray16.png").write_bytes(png_bytes(width, height, 16, 0, pack_rows(deep_gray, 16)))

    expected = b""
    cases = []
    for path in sorted(folder.glob("*")):
        image = Image.open(path)
        # For 16-bit gray Pillow clips at 255 (a white page); we intentionally keep the high byte.
        if path.name == "gray16.png":
            image = Image.fromarray((deep_gray >> 8).astype(np.uint8))
        # Hugging Face's loaders turn an image according to its EXIF orientation.
        image = ImageOps.exif_transpose(image)
        pixels = np.asarray(image.convert("RGB").resize((24, 32), Image.Resampling.BILINEAR))
        cases.append(path.name)
        expected += pixels.tobytes()
    (folder / "expected.bin").write_bytes(expected)
    about = {
        "made_by": "tools/check_images.py --golden",
        "seed": SEED,
        "pillow": PIL.__version__,
        "numpy": np.__version__,
        "expected.bin": "per image, in this order: bytes [32, 24, 3] of resize((24, 32), BILINEAR)",
        "images": cases,
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    # These files must be refused, each for its own reason.
    whole = (folder / "rgb_444.jpg").read_bytes()
    (folder / "refused_cut.jpg").write_bytes(whole[: len(whole) // 2])
    whole = (folder / "rgb.png").read_bytes()
    (folder / "refused_cut.png").write_bytes(whole[: len(whole) // 2])
    whole = (folder / "rgb.webp").read_bytes()
    (folder / "refused_cut.webp").write_bytes(whole[: len(whole) // 2])
    save("refused_animated.webp", rgb, save_all=True, append_images=[rgb.rotate(180)])
    save("refused.gif", rgb)
    save("refused_transparent.tif", rgba)
    (folder / "refused_text.png").write_bytes(b"not an image\n" * 4)
    # This one claims 40,000 x 40,000 pixels in 60 bytes.
    (folder / "refused_bomb.png").write_bytes(png_bytes(40000, 40000, 1, 0, b""))
    print(f"{len(cases)} images, {sum(f.stat().st_size for f in folder.glob('*'))} bytes in {folder}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bench/plimsoll_pixels")
    parser.add_argument("--images", type=pathlib.Path, help="folder of images to compare on")
    parser.add_argument("--random", type=int, metavar="N", help="compare on N random images")
    parser.add_argument("--golden", type=pathlib.Path, help="folder to write golden images to")
    options = parser.parse_args()
    if options.golden is not None:
        make_golden(options.golden)
        return 0
    if options.random is not None:
        with tempfile.TemporaryDirectory() as folder:
            make_random(pathlib.Path(folder), options.random)
            return compare(options.program, pathlib.Path(folder))
    if options.images is None:
        parser.error("--images, --random or --golden is needed")
    return compare(options.program, options.images)


if __name__ == "__main__":
    sys.exit(main())
