#!/usr/bin/env python3
"""Writes the entities of XHTML 1.0, which hOCR files may use, as src/convert/xhtml_entities.inc.

    tools/make_xhtml_entities.py
"""

import html.entities
import pathlib

HEAD = "// Written by tools/make_xhtml_entities.py: the entities of XHTML 1.0 that are not XML's own, in order.\n"
OF_XML = {"lt", "gt", "amp", "quot", "apos"}


def main():
    lines = [f"{{\"{name}\", U'\\u{code:04X}'}},\n" for name, code in sorted(html.entities.name2codepoint.items())
             if name not in OF_XML]
    path = pathlib.Path(__file__).resolve().parent.parent / "src" / "convert" / "xhtml_entities.inc"
    path.write_text(HEAD + "".join(lines))


if __name__ == "__main__":
    main()
