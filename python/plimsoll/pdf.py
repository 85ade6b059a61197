"""Reads PDF files by pypdfium2 for the program, where Poppler's programs are missing. `pip install pypdfium2`.

    python -m plimsoll.pdf version
    python -m plimsoll.pdf info FILE                # as pdfinfo -l -1 does: "Pages: 3", and each page's size in points
    python -m plimsoll.pdf text FILE PAGE           # as pdftotext -bbox does: words and boxes in points, as XHTML
    python -m plimsoll.pdf draw FILE PAGE DPI       # as pdftoppm -png does: a PNG file on standard output

Pages are counted from 1. What it writes is what Poppler's programs write, so that the program parses one form.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import zlib
from typing import Any, BinaryIO, Iterator, List, Optional, Sequence, Tuple
from xml.sax.saxutils import escape

Box = Tuple[float, float, float, float]

HYPHEN = "\x02"
"""What PDFium gives for a hyphen at a line's end."""

PASSWORD_ERROR = 4
"""PDFium's FPDF_ERR_PASSWORD."""


def open_file(path: str) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if error.err_code == PASSWORD_ERROR:
            sys.exit("Incorrect password")  # as Poppler says it
        raise


class ShownPage:
    """A page's words, in points from the upper left corner of the page as it is shown: cropped and turned."""

    STEPS = 100  # PDFium rounds to whole numbers, so places are asked for in hundredths of a point

    def __init__(self, page: Any):
        import pypdfium2.raw as raw

        self._raw, self._page, self._text = raw, page, page.get_textpage()
        self.width, self.height = page.get_size()

    def _shown(self, x: float, y: float) -> Tuple[float, float]:
        wide, high = round(self.STEPS * self.width), round(self.STEPS * self.height)
        across, down = ctypes.c_int(), ctypes.c_int()
        self._raw.FPDF_PageToDevice(self._page, 0, 0, wide, high, 0, x, y, across, down)
        return across.value / self.STEPS, down.value / self.STEPS

    def _box(self, index: int) -> Optional[Box]:
        # The loose box is as high as the font, which is what Poppler gives.
        box = self._raw.FS_RECTF()
        if not self._raw.FPDFText_GetLooseCharBox(self._text, index, box):
            return None
        (x0, y0), (x1, y1) = self._shown(box.left, box.top), self._shown(box.right, box.bottom)
        return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)

    def letters(self) -> Iterator[Tuple[str, Optional[Box]]]:
        for index in range(self._raw.FPDFText_CountChars(self._text)):
            letter = chr(self._raw.FPDFText_GetUnicode(self._text, index))
            yield letter, None if letter.isspace() or letter == "\0" else self._box(index)

    def words(self) -> List[Tuple[str, Box]]:
        """Returns words in the order of the file."""
        words: List[Tuple[str, Box]] = []
        word: List[Tuple[str, Box]] = []  # letters

        def end_word() -> None:
            if word:
                x0, y0, x1, y1 = zip(*(box for _, box in word))
                words.append(("".join(letter for letter, _ in word), (min(x0), min(y0), max(x1), max(y1))))
                word.clear()

        for letter, box in self.letters():
            if box is None:
                end_word()
                continue
            word.append(("-" if letter == HYPHEN else letter, box))
            if letter == HYPHEN:
                end_word()
        end_word()
        return words


def write_text(page: Any, out: BinaryIO) -> None:
    shown = ShownPage(page)
    lines = [f'<page width="{shown.width:.6f}" height="{shown.height:.6f}">']
    for text, (x0, y0, x1, y1) in shown.words():
        # PDFium gives UTF-16: letters beyond its first plane come in halves.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        lines.append(f'<word xMin="{x0:.6f}" yMin="{y0:.6f}" xMax="{x1:.6f}" yMax="{y1:.6f}">{escape(whole)}</word>')
    out.write("\n".join([*lines, "</page>", ""]).encode("utf-8"))


def write_picture(page: Any, dpi: float, out: BinaryIO) -> None:
    """Writes RGB as PNG, row by row, with the resolution in it."""
    bitmap = page.render(scale=dpi / 72, rev_byteorder=True)
    if bitmap.mode != "RGB":
        raise ValueError(f"pypdfium2 drew a page as {bitmap.mode}, not RGB")
    pixels, dots = memoryview(bitmap.buffer), round(dpi / 0.0254)

    def chunk(name: bytes, data: bytes) -> None:
        out.write(struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)))

    out.write(b"\x89PNG\r\n\x1a\n")
    chunk(b"IHDR", struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, 2, 0, 0, 0))
    chunk(b"pHYs", struct.pack(">IIB", dots, dots, 1))
    packer = zlib.compressobj(level=1)  # the file is read once or twice, and then a model's picture
    for y in range(bitmap.height):
        begin = y * bitmap.stride
        packed = packer.compress(b"\0" + bytes(pixels[begin:begin + 3 * bitmap.width]))
        if packed:
            chunk(b"IDAT", packed)
    chunk(b"IDAT", packer.flush())
    chunk(b"IEND", b"")


def run(arguments: Sequence[str], out: BinaryIO) -> None:
    command, *rest = arguments
    if command == "version":
        import pypdfium2

        out.write(f"pypdfium2 {pypdfium2.version.PYPDFIUM_INFO}\n".encode())
        return
    file = open_file(rest[0])
    if command == "info":
        out.write(f"Reader: pypdfium2\nPages: {len(file)}\n".encode())
        for index in range(len(file)):
            width, height = file.get_page_size(index)
            out.write(f"Page {index + 1} size: {width:g} x {height:g} pts\n".encode())
        return
    file.init_forms()  # what was filled into a form is drawn, too
    page = file[int(rest[1]) - 1]
    if command == "text":
        write_text(page, out)
    elif command == "draw":
        write_picture(page, float(rest[2]), out)
    else:
        sys.exit(f"plimsoll.pdf has no command {command}")


def main() -> None:
    try:
        run(sys.argv[1:], sys.stdout.buffer)
    except Exception as error:  # the program reads the first line
        sys.exit(f"{type(error).__name__}: {error}".replace("\n", " "))


if __name__ == "__main__":
    main()
