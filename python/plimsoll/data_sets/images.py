"""Images of pages: their kind and size from their first bytes, where they are found, where they are written."""

import pathlib
import re
import struct

from .problem import problem, shown

MAGIC = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"II*\0", "tif"), (b"MM\0*", "tif"), (b"BM", "bmp"),
         (b"P4", "ppm"), (b"P5", "ppm"), (b"P6", "ppm"))


def image_kind(data):
    for magic, kind in MAGIC:
        if data.startswith(magic):
            return kind
    return "webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else None


def image_size(data):
    """Returns (width, height) from the header of a PNG or JPEG; None for other kinds."""
    if data.startswith(MAGIC[0][0]) and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if not data.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF or marker == 1 or 0xD0 <= marker <= 0xD9:
            at += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    return None


def find_image(path, parquet, image_root):
    """Finds an image that the parquet only names: at its path, beside the parquet, or under --images."""
    given = pathlib.PurePath(path)
    places = [pathlib.Path(path), parquet.parent / path]
    if image_root is not None:
        # Paths are those of the machine that made the data set, so their trailing parts are tried, the longest first.
        places += [image_root.joinpath(*given.parts[i:]) for i in range(1 if given.is_absolute() else 0, len(given.parts))]
    for place in places:
        if place.is_file():
            return place
    return None


def read_image(value, where, parquet, image_root):
    if isinstance(value, dict):
        if value.get("bytes"):
            return value["bytes"]
        value = value.get("path")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if not isinstance(value, str) or not value:
        raise problem("a page has no image", where, shown(value), "bytes of an image, or a path",
                      "omit the page, or convert from the data set's original files")
    place = find_image(value, parquet, image_root)
    if place is None:
        raise problem("an image named in the data set is not found", where, value,
                      f"a file at that path, beside {parquet.name}, or under --images DIR",
                      "download the images too and name their folder with --images")
    return place.read_bytes()


def write_image(folder, name, data, where):
    kind = image_kind(data)
    if kind is None:
        raise problem("an image has an unsupported format", where, shown(bytes(data[:16])),
                      "PNG, JPEG, TIFF, BMP, PNM or WebP", "convert the images to PNG first")
    name = re.sub(r"[^\w.-]", "_", name)[:120].lstrip(".") or "page"
    path, number = folder / f"{name}.{kind}", 2
    while path.exists():
        path, number = folder / f"{name}-{number}.{kind}", number + 1
    path.write_bytes(data)
    return path
