"""From a data set's files to JSONL, images and a list of labels."""

import json
import os
import pathlib
import shutil

from .boxes import BoxEvidence
from .funsd import FunsdFolder, funsd_folders
from .images import image_size, write_image
from .labels import read_label_file
from .parquet import ParquetFile
from .problem import problem


def find_sources(inputs, image_root):
    found = []
    for name in inputs:
        path = pathlib.Path(name)
        if path.is_dir():
            folders, parquets = funsd_folders(path), sorted(path.rglob("*.parquet"))
            if not folders and not parquets:
                raise problem("a folder has no parquet file in it", name,
                              allowed="*.parquet, at any depth, or annotations/*.json with images/ (FUNSD)",
                              remedy="download the data set's parquet files: on its page, Files, or the branch "
                              "refs/convert/parquet")
            found += [FunsdFolder(folder) for folder in folders] + [ParquetFile(each, image_root) for each in parquets]
        elif path.is_file():
            found.append(ParquetFile(path, image_root))
        else:
            raise problem("no such file", name, allowed="a parquet file, a folder of them, or FUNSD's folder",
                          remedy="check the path")
    if len({source.box_format for source in found}) > 1:
        raise problem("FUNSD's own files and parquet files cannot be converted together", ", ".join(map(str, found)),
                      "boxes in pixels, and boxes whose unit is worked out", "one kind of files",
                      "convert them one after the other", 2)
    return found


class Converter:
    def __init__(self, output, labels, box_format):
        self.output, self.box_format = output, box_format
        self.given_labels = labels
        self.names, self.seen = None, []
        self.evidence = BoxEvidence()
        self.pages, self.words, self.empty = {}, 0, []
        self.links, self.dropped_links = None, 0
        self.begun = []  # folders of images and unfinished JSONL files that this run has made

    def choose_names(self, source):
        def choose(names):
            names = self.given_labels or names
            if names and self.names and names != self.names:
                raise problem("two files name the labels differently", str(source), ", ".join(names), ", ".join(self.names),
                              "convert them one after the other, or give one list with --labels FILE")
            self.names = self.names or names
            return self.names
        return choose

    def line(self, page, folder):
        """Writes a page's image and returns its line of JSONL; None if it has no words."""
        if not page.words:
            self.empty.append(page.where)
            return None
        size = image_size(page.image)
        self.evidence.add(page.boxes, size, page.where)
        image = write_image(folder, page.name, page.image, page.where)
        line = {"id": page.name, "image": image.relative_to(self.output).as_posix()}
        if size:
            line["width"], line["height"] = size
        line["words"], line["boxes"] = page.words, page.boxes
        if page.labels is not None:
            line["labels"] = page.labels
            self.seen += [label for label in dict.fromkeys(page.labels) if label not in self.seen]
        if page.entities is not None:
            line["entities"], line["links"] = page.entities, page.links
            self.links = (self.links or 0) + len(page.links)
            self.dropped_links += page.dropped_links
        self.words += len(page.words)
        return line

    def run(self, sources):
        splits = {}
        for source in sources:
            splits.setdefault(source.split, []).append(source)
        for split in splits:
            for left in (self.output / f"{split}.jsonl", self.output / "images" / split):
                if left.exists():
                    raise problem("the output is already there", str(left), remedy="name another --output, or remove it", code=2)
        aside = []
        for split, files in splits.items():
            folder = self.output / "images" / split
            aside.append(self.output / f"{split}.jsonl.tmp")
            self.begun += [folder, aside[-1]]
            folder.mkdir(parents=True)
            with open(aside[-1], "w", encoding="utf-8") as out:
                self.pages[split] = 0
                for source in files:
                    for page in source.pages(self.choose_names(source)):
                        line = self.line(page, folder)
                        if line is not None:
                            out.write(json.dumps(line, ensure_ascii=False) + "\n")
                            self.pages[split] += 1
        if not sum(self.pages.values()):
            raise problem("there is no page with words", ", ".join(map(str, sources)), f"{len(self.empty)} pages without",
                          "at least one", "is it the right data set?")
        self.settle_boxes(sources[0].box_format)
        names = self.names or self.tidy(self.seen)
        if names:
            (self.output / "labels.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        for path in aside:  # renamed last: an existing .jsonl is complete
            os.replace(path, path.with_suffix(""))

    def settle_boxes(self, known):
        if self.box_format != "auto":
            self.reason = "as --box-format says"
        elif known:
            self.box_format, self.reason = known, "FUNSD's own files have pixels"
        else:
            self.box_format, self.reason = self.evidence.decide()

    def remove_output(self):
        for path in self.begun:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if self.begun and not any((self.output / "images").iterdir()):
            (self.output / "images").rmdir()

    @staticmethod
    def tidy(seen):
        """Returns O, then B- and I- of each entity, then all others."""
        entities = sorted({name[2:] for name in seen if name[:2] in ("B-", "I-")})
        rest = sorted(name for name in seen if name != "O" and name[:2] not in ("B-", "I-"))
        return (["O"] if "O" in seen or entities else []) + [p + e for e in entities for p in ("B-", "I-")] + rest


def convert(arguments):
    labels = read_label_file(arguments.labels) if arguments.labels else None
    sources = find_sources(arguments.inputs, pathlib.Path(arguments.images) if arguments.images else None)
    output = pathlib.Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    converter = Converter(output, labels, arguments.box_format)
    try:
        converter.run(sources)
    except BaseException:  # removes partial output, also after Ctrl-C
        converter.remove_output()
        raise
    return converter


def report(converter):
    output = converter.output
    for split, pages in converter.pages.items():
        print(f"{output / (split + '.jsonl')}: {pages} pages")
    names = (output / "labels.txt").read_text(encoding="utf-8").split() if (output / "labels.txt").exists() else []
    print(f"{converter.words} words; {len(names)} labels" + (f" in {output / 'labels.txt'}: {', '.join(names[:12])}"
                                                           + (", ..." if len(names) > 12 else "") if names else ""))
    if converter.links is not None:
        print(f"{converter.links} links between entities")
    if converter.dropped_links:
        print(f"{converter.dropped_links} links are dropped: an end of them has no words, or is not there")
    if converter.empty:
        print(f"{len(converter.empty)} pages without words are skipped, {converter.empty[0]} the first")
    print(f"boxes: {'pixels' if converter.box_format == 'pixel' else 'thousandths of the page'} ({converter.reason})")
    first = output / (next(iter(converter.pages)) + ".jsonl")
    print(f"next: plimsoll check --model layoutlmv3-base --data {first}"
          + (" --box-format 1000" if converter.box_format == "1000" else ""))
