"""Images in memory as files that the program reads."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Mapping, Optional

from .data_sets.images import image_kind
from .data_sets.problem import problem, shown
from .log import log


def path_of_image(value: Any, folder: Path, number: str, where: str) -> Optional[str]:
    """Returns the path of an image: its own, or that of a copy in `folder`; None where a data set has none.

    What cannot be read becomes a file that the program refuses, so that this page alone is bad, as one of a file is.
    """
    if isinstance(value, Mapping):  # of `datasets` without decoding
        value = value.get("path") if value.get("bytes") is None else value["bytes"]
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)):
        return str(Path(value).absolute())
    if isinstance(value, (bytes, bytearray)):
        return _write(bytes(value), folder / "images" / f"{number}.{image_kind(bytes(value)) or 'unknown'}")
    if not hasattr(value, "save"):
        raise problem("an image is of no known kind", where, shown(value), "a Pillow image, bytes, or a path", code=2)
    if value.mode in ("I", "F"):  # Pillow would cut off what is below 0 or above 255
        raise problem("an image has pixels of no known range", where, f"Pillow's mode {value.mode}",
                      "1, L, P, RGB, RGBA, I;16", "scale them to 0 to 255, and convert: image.convert('L')", 2)
    try:
        encoded = _png_of(value, where)
    except MemoryError:
        raise
    except Exception as error:  # Pillow's own are of many kinds
        log.warning("%s: Pillow cannot read the image: %s: %s; the page counts as bad", where, type(error).__name__, error)
        encoded = b""
    return _write(encoded, folder / "images" / f"{number}.png")


def _write(encoded: bytes, path: Path) -> str:
    path.write_bytes(encoded)
    return str(path)


def _png_of(image: Any, where: str) -> bytes:
    image = _upright(image, where)
    if image.mode not in ("1", "L", "RGB", "RGBA", "P", "I;16"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, format="PNG", compress_level=1)
    return file.getvalue()


def _upright(image: Any, where: str) -> Any:
    """Returns a Pillow image turned by its EXIF orientation, as the program turns a file: boxes are as a viewer shows it."""
    orientation = 0x0112
    exif = image.getexif() if hasattr(image, "getexif") else {}
    if exif.get(orientation, 1) in (0, 1):
        return image
    from PIL import ImageOps

    log.info("%s: the image is turned by its EXIF orientation, %s", where, exif[orientation])
    return ImageOps.exif_transpose(image)
