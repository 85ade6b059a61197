"""Makes small data sets, converts them, and compares."""

import json
import pathlib
import struct
import tempfile
import zlib

from ..errors import PlimsollError
from .converter import convert
from .images import MAGIC
from .parquet import import_pyarrow


def tiny_png(width, height, shade):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([shade]) * width) * height
    return (MAGIC[0][0] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def self_test(parser):
    pyarrow = import_pyarrow()
    failures = []

    def expect(name, condition):
        print(f"{'ok  ' if condition else 'FAIL'} {name}")
        if not condition:
            failures.append(name)

    def write(path, rows, features=None):
        table = pyarrow.Table.from_pylist(rows)
        if features:
            table = table.replace_schema_metadata({b"huggingface": json.dumps({"info": {"features": features}}).encode()})
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table, path)
        return str(path)

    def run(*arguments):
        return convert(parser.parse_args([str(each) for each in arguments]))

    def pages(path):
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def refused(name, parts, *arguments):
        output = pathlib.Path(arguments[1])
        try:
            run(*arguments)
            expect(f"{name} is refused", False)
        except PlimsollError as error:
            expect(f"{name} is refused, and says {parts}", all(part in str(error) for part in parts))
            expect(f"{name} leaves nothing behind", not any(output.rglob("*")))

    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        names = ["O", "B-QUESTION", "I-QUESTION"]
        tags = {"ner_tags": {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}}
        picture = tiny_png(60, 40, 200)
        row = {"id": "7", "tokens": ["Größe", "42"], "bboxes": [[10, 20, 500, 40], [510, 20, 990, 40]], "ner_tags": [1, 0],
               "image": {"bytes": picture, "path": "0.png"}}
        empty = dict(row, id="8", tokens=[], bboxes=[], ner_tags=[])
        train = write(root / "funsd/train-00000-of-00001.parquet", [row, dict(row, ner_tags=[0, 2]), empty], tags)
        write(root / "funsd/test-00000-of-00001.parquet", [row], tags)
        done = run("--output", root / "out", root / "funsd")
        found = pages(root / "out/train.jsonl")
        expect("a split a file", sorted(done.pages.items()) == [("test", 1), ("train", 2)])
        expect("words, boxes and label names", [found[0][key] for key in ("id", "words", "boxes", "labels")] ==
               ["7", row["tokens"], row["bboxes"], ["B-QUESTION", "O"]] and found[1]["labels"] == ["O", "I-QUESTION"])
        expect("images byte for byte, one each", (root / "out" / found[0]["image"]).read_bytes() == picture
               and found[0]["image"] != found[1]["image"])
        expect("sizes from the image's header", (found[0]["width"], found[0]["height"]) == (60, 40))
        expect("thousandths are recognised", done.box_format == "1000")
        expect("the page without words is left out", len(done.empty) == 1)
        expect("labels in their order", (root / "out/labels.txt").read_text().split() == names)

        (root / "sroie/images").mkdir(parents=True)
        (root / "sroie/images/a.png").write_bytes(tiny_png(30, 1800, 9))
        plain = {"id": 3, "words": ["TOTAL", "9.00"], "bboxes": [[1, 2, 3, 4], [5, 1500, 29, 1520]],
                 "ner_tags": ["O", "B-TOTAL"], "image_path": "/home/someone/data/images/a.png"}
        path = write(root / "sroie/validation/0000.parquet", [plain])
        done = run("--output", root / "out2", "--images", root / "sroie", path)
        found = pages(root / "out2/validation.jsonl")
        expect("images by path, labels by name, pixels", found[0]["labels"] == ["O", "B-TOTAL"]
               and done.box_format == "pixel" and (root / "out2" / found[0]["image"]).stat().st_size > 0)
        expect("labels of the data", (root / "out2/labels.txt").read_text().split() == ["O", "B-TOTAL", "I-TOTAL"])

        quad = {"x1": 1, "y1": 2, "x2": 9, "y2": 1, "x3": 9, "y3": 1200, "x4": -1, "y4": 8}
        words = [{"text": text, "quad": quad, "is_key": key} for text, key in (("Tea", 0), ("x2", 1), ("hot", 0))]
        truth = {"valid_line": [{"category": "menu.nm", "words": words}], "meta": {"image_size": {"width": 30, "height": 1800}}}
        path = write(root / "cord/test-00000-of-00001-0123456789abcdef.parquet",
                     [{"image": {"bytes": tiny_png(30, 1800, 3), "path": None}, "ground_truth": json.dumps(truth)}])
        run("--output", root / "out3", path)
        found = pages(root / "out3/test.jsonl")[0]
        expect("CORD's ground truth", found["words"] == ["Tea", "x2", "hot"] and found["boxes"][0] == [0, 1, 9, 1200]
               and found["labels"] == ["B-MENU.NM", "O", "I-MENU.NM"])

        annotated = root / "FUNSD/dataset/training_data"
        (annotated / "annotations").mkdir(parents=True)
        (annotated / "images").mkdir()
        (annotated / "images/0001.png").write_bytes(picture)
        (annotated / "annotations/._0001.json").write_bytes(b"\0")  # what a Mac leaves in an archive

        def entity(number, label, texts, linking):
            return {"id": number, "label": label, "box": [1, 2, 30, 9], "text": " ".join(texts), "linking": linking,
                    "words": [{"text": text, "box": [1, 2, 30, 9]} for text in texts]}

        def annotate(*form):
            (annotated / "annotations/0001.json").write_text(json.dumps({"form": form}))
            return root / "FUNSD"

        funsd = annotate(entity(4, "answer", ["3", "May"], [[7, 4]]), entity(9, "other", ["Form", "", "12"], []),
                         entity(7, "question", ["Date:"], [[7, 4], [2, 7], [7, 8]]), entity(8, "answer", [" "], [[7, 8]]),
                         entity(2, "header", ["I."], [[2, 7], [2, 5], [2, 2]]))
        done = run("--output", root / "out5", funsd)
        found = pages(root / "out5/train.jsonl")
        expect("FUNSD's words and labels", found[0]["words"] == ["3", "May", "Form", "12", "Date:", "I."]
               and found[0]["labels"] == ["B-ANSWER", "I-ANSWER", "O", "O", "B-QUESTION", "B-HEADER"])
        expect("FUNSD's entities", [(each["label"], each["start_word"], each["end_word"]) for each in found[0]["entities"]] ==
               [("answer", 0, 2), ("other", 2, 4), ("question", 4, 5), ("header", 5, 6)])
        expect("FUNSD's links, each once, in their direction", found[0]["links"] == [[2, 0], [3, 2]])
        expect("links to what is not there are counted", done.dropped_links == 3 and done.links == 2)
        expect("FUNSD's boxes are pixels", done.box_format == "pixel" and found[0]["id"] == "0001")
        expect("no links where the data set has none", "links" not in pages(root / "out/train.jsonl")[0])
        refused("FUNSD beside parquet", ["one after the other"], "--output", root / "e8", funsd, root / "funsd")
        refused("a broken link", ["linking", "pairs"], "--output", root / "e9",
                annotate(entity(1, "answer", ["a"], [[1]])))
        refused("an id that occurs twice", ["id 1"], "--output", root / "e10",
                annotate(entity(1, "answer", ["a"], []), entity(1, "answer", ["b"], [])))

        bare = write(root / "bare/train.parquet", [row])
        refused("numbers without names", ["numbers", "--labels", "row 0"], "--output", root / "e1", bare)
        (root / "labels.txt").write_text("O\nB-A\n")
        expect("names from a file", run("--output", root / "out4", "--labels", root / "labels.txt", bare).names == ["O", "B-A"])
        refused("a number without a name", ["0 to 1"], "--output", root / "e2", "--labels", root / "labels.txt",
                write(root / "b/train.parquet", [dict(row, ner_tags=[0, 2])]))
        refused("unequal lengths", ["2 words", "1 boxes"], "--output", root / "e3",
                write(root / "c/train.parquet", [dict(row, bboxes=[[1, 2, 3, 4]])], tags))
        refused("an image that is none", ["PNG"], "--output", root / "e4",
                write(root / "d/train.parquet", [dict(row, image={"bytes": b"GIF89a", "path": None})], tags))
        refused("boxes of either kind", ["--box-format"], "--output", root / "e5",
                write(root / "e/train.parquet", [dict(row, bboxes=[[1, 2, 3, 4]] * 2)], tags))
        torn = root / "torn.parquet"
        torn.write_bytes(pathlib.Path(train).read_bytes()[:300])
        refused("a torn file", ["torn"], "--output", root / "e6", torn)
        refused("no column of words", ["column of words"], "--output", root / "e7", write(root / "f/x.parquet", [{"image": "a"}]))
        try:
            run("--output", root / "out", train)
            expect("an output that is there is kept", False)
        except PlimsollError as error:
            expect("an output that is there is kept", "already there" in str(error) and len(pages(root / "out/train.jsonl")) == 2)
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0
