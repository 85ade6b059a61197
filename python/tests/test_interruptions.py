"""Calls that do not end in the usual way, and data in memory that is not in the usual form."""

import json
import os
import signal
import subprocess
import re
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

from test_package import TINY, Image, ModelTest, datasets

import plimsoll
from plimsoll.data import KEYS, OTHER_NAMES, write_data
from plimsoll.folders import Folder, remove_left_folders
from plimsoll.program import executable

SOURCE = str(Path(plimsoll.__file__).parent.parent)


class Interruptions(ModelTest):
    def script(self, text, **options):
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], cwd=self.root, stderr=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": SOURCE, "PLIMSOLL": executable()}, **options)

    def test_an_interrupted_call_leaves_no_answer_to_the_next(self):
        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop

        before = signal.signal(signal.SIGALRM, stop)
        try:
            with plimsoll.predictor(self.model, threads=1) as predict:
                expected = predict([self.pages[3]])
                stopped = 0
                for _ in range(4):
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0.1)
                        predict(self.pages * 40)
                    except Stop:
                        stopped += 1
                    self.assertEqual(predict([self.pages[3]]), expected)
                self.assertGreater(stopped, 0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_a_forked_process_predicts_by_itself(self):
        with plimsoll.predictor(self.model, threads=1) as predict:
            expected = [predict([page])[0]["id"] for page in self.pages[:4]]
            children = []
            for page in self.pages[:4]:
                reader, writer = os.pipe()
                child = os.fork()
                if child == 0:
                    try:
                        os.write(writer, predict([page])[0]["id"].encode())
                        predict.close()
                    finally:
                        os._exit(0)
                os.close(writer)
                children.append((child, reader))
            found = []
            for child, reader in children:
                os.waitpid(child, 0)
                found.append(os.read(reader, 100).decode())
                os.close(reader)
            self.assertEqual(found, expected)
            self.assertEqual(predict([self.pages[0]])[0]["id"], expected[0])

    def test_a_closed_predictor_says_so(self):
        predict = plimsoll.predictor(self.model, threads=1)
        predict.close()
        predict.close()
        with self.assertRaises(plimsoll.UsageError):
            predict([self.pages[0]])

    def test_a_predictor_whose_program_was_killed_begins_another_one(self):
        with plimsoll.predictor(self.model, threads=1) as predict:
            expected = predict([self.pages[0]])
            predict._process._process.kill()
            predict._process._process.wait()
            with self.assertRaises(plimsoll.ProgramError) as caught:
                predict([self.pages[0]])
            self.assertIn("killed", str(caught.exception))
            self.assertEqual(predict([self.pages[0]]), expected)
            with self.assertRaises(plimsoll.DataError):
                predict(self.root / "absent.jsonl")
            self.assertEqual(predict([self.pages[0]]), expected)
            predict._process._process.kill()
        self.assertRaises(plimsoll.UsageError, predict, [self.pages[0]])

    def test_a_predictor_is_closed_while_a_forked_process_lives(self):
        predict = plimsoll.predictor(self.model, threads=1)
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            begin = time.monotonic()
            predict.close()
            self.assertLess(time.monotonic() - begin, 30)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def test_a_predictor_begins_again_in_another_folder(self):
        before = os.getcwd()
        os.chdir(self.root)
        try:
            with plimsoll.predictor("model", threads=1) as predict:
                expected = predict([self.pages[0]])
                os.chdir(before)
                predict._end()
                self.assertEqual(predict([self.pages[0]]), expected)
        finally:
            os.chdir(before)

    def test_a_forked_process_leaves_its_parents_data(self):
        process = self.script("""
            import os, sys
            from plimsoll.folders import Folder
            folder = Folder()
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            print(folder.path, os.path.isdir(folder.path))
            """)
        path, is_there = process.communicate(timeout=60)[0].split()
        self.assertEqual(is_there, "True")
        self.assertFalse(os.path.exists(path))

    def test_data_of_a_killed_python_is_removed_once_nobody_reads_it(self):
        process = self.script("""
            import os, signal, subprocess
            from plimsoll.folders import Folder
            folder = Folder()
            reader = subprocess.Popen(["sleep", "60"], pass_fds=[folder.lock], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            print(folder.path, reader.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
            """)
        path, reader = process.communicate(timeout=60)[0].split()
        with Folder() as own:
            remove_left_folders.__wrapped__(tempfile.gettempdir())
            self.assertTrue(os.path.isdir(path))
            os.kill(int(reader), signal.SIGKILL)
            for _ in range(100):
                remove_left_folders.__wrapped__(tempfile.gettempdir())
                if not os.path.exists(path):
                    break
                time.sleep(0.05)
            self.assertFalse(os.path.exists(path))
            self.assertTrue(os.path.isdir(own.path))

    def test_an_exception_in_a_loop_is_all_that_ends_python(self):
        for loop in ("plimsoll.train(model='layoutlmv3-tiny', data={data!r}, output_dir='left{n}', budget='1GiB', "
                     "max_steps=500, threads=1)", "plimsoll.predict(model={model!r}, data={data!r}, threads=1)"):
            for ends, code in (("raise KeyError", 1), ("sys.exit(3)", 3)):
                process = self.script(f"""
                    import sys, plimsoll
                    for each in {loop.format(data=str(self.train_file), model=str(self.model), n=code)}:
                        {ends}
                    """)
                _, errors = process.communicate(timeout=120)
                self.assertEqual(process.returncode, code, errors)
                self.assertNotIn("Fatal Python error", errors)
        self.assertTrue(list((self.root / "left1").glob("checkpoint-*")) or not (self.root / "left1").exists())

    def test_a_run_that_nobody_waits_for_says_so(self):
        process = self.script(f"""
            import plimsoll
            run = plimsoll.train(model='layoutlmv3-tiny', data={str(self.train_file)!r}, output_dir='alone', budget='1GiB',
                                 max_steps=5000, threads=1)
            """)
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("run.wait()", errors)

    def test_a_run_ends_with_a_python_that_is_killed(self):
        process = self.script(f"""
            import plimsoll
            for event in plimsoll.train(model='layoutlmv3-tiny', data={str(self.train_file)!r}, output_dir='orphan',
                                        budget='1GiB', max_steps=100000, threads=1, logging_steps=1, progress=False):
                print(type(event).__name__, flush=True)
            """)
        for line in process.stdout:
            if line.startswith("Step"):
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        for _ in range(200):
            if list((self.root / "orphan").glob("checkpoint-*/checksums.json")):
                break
            time.sleep(0.1)
        else:
            self.fail("the run goes on without its Python, or saved nothing")


class DataInMemory(ModelTest):
    def test_a_form_of_output_needs_a_file(self):
        with self.assertRaises(plimsoll.UsageError) as caught:
            plimsoll.predict(model=self.model, data=self.train_file, format="csv")
        self.assertIn("output", caught.exception.remedy)

    def test_a_map_style_data_set_is_read(self):
        class Pages:  # as torch.utils.data.Dataset, which has no __iter__, and need not raise IndexError
            def __init__(self, pages):
                self.pages = pages

            def __len__(self):
                return len(self.pages)

            def __getitem__(self, index):
                return self.pages[index % len(self.pages)]

        checked = plimsoll.check(model=self.model, data=Pages(self.pages[:3]))
        self.assertEqual(checked.pages, 3)

    def test_what_cannot_be_passed_on_is_named(self):
        for call in (lambda: plimsoll.train(**TINY, data=self.train_file),
                     lambda: plimsoll.train(**TINY, data=self.train_file, output_dir=None),
                     lambda: plimsoll.plan(**TINY, data="a\0b"), lambda: plimsoll.plan(**TINY, data=self.pages[0])):
            with self.assertRaises(plimsoll.UsageError) as caught:
                call()
        self.assertEqual(caught.exception.remedy, "pass a list, [page]")
        with self.assertRaises(plimsoll.DataError):
            plimsoll.generate(["\ud83d"], model="llama-tiny")

    def test_tables_of_pandas_are_read(self):
        class Table:  # as far as it matters here
            columns = ["id", "words"]

            def __init__(self, rows):
                self.rows = rows

            def to_dict(self, orient):
                assert orient == "records"
                return self.rows

        rows = [{**self.pages[0], "label": float("nan")}, self.pages[1]]
        self.assertEqual(len(list(plimsoll.predict(model=self.model, data=Table(rows), threads=1))), 2)

    def written(self, data, **options):
        """Returns the lines that are written of data, and what else is known of it."""
        with tempfile.TemporaryDirectory() as folder:
            found = write_data(data, folder + "/data", **options)
            return [json.loads(line) for line in Path(found.path).read_text().splitlines()], found

    def test_keys_are_those_of_the_documentation(self):
        page = Path(__file__).resolve().parents[2] / "docs" / "data.md"
        if not page.exists():
            self.skipTest("not in a checkout")
        text = page.read_text()
        documented = set(re.findall(r"`(\w+)` \(a key of the page", text))
        for row in re.search(r"\| key \| meaning \|\n(.*?)\n\n", text, re.DOTALL)[1].splitlines()[1:]:
            documented.update(re.findall(r"`(\w+)`", row.split("|")[1]))
        for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
            while block.strip():
                line, end = json.JSONDecoder().raw_decode(block.strip())
                block = block.strip()[end:]
                for part in (line, line.get("a"), line.get("b")):
                    documented.update(part if isinstance(part, dict) else ())
        self.assertLess({"image", "text", "group", "messages", "links", "a", "document"}, documented)
        self.assertEqual(documented - {*KEYS, *sum(OTHER_NAMES.values(), ())}, set())

    def test_other_names_of_keys_are_read(self):
        row = {"tokens": ["a"], "bbox": [[0, 0, 1, 1]], "ner_tags": ["O"], "group": "g", "words": None}
        lines, found = self.written([row])
        self.assertEqual(lines, [{"words": ["a"], "boxes": [[0, 0, 1, 1]], "labels": ["O"], "group": "g"}])
        self.assertTrue(found.has_boxes)

    def test_classes_of_pages_keep_their_order(self):
        label = type("ClassLabel", (), {"names": ["z", "y"]})()

        def table(rows, **features):
            return type("DataSet", (list,), {"features": features, "column_names": list(features)})(rows)

        for key in ("label", "labels"):
            lines, found = self.written(table([{"text": "t", key: 1}], **{"text": None, key: label}))
            self.assertEqual(lines, [{"text": "t", "label": "y", "id": "0"}])
            self.assertEqual(found.labels_of("sequence-classification"), ["z", "y"])
            self.assertIsNone(found.labels_of(None) or found.labels_of("pair-similarity"))
        pairs = table([{"a": {"words": [], "group": 1, "id": None}, "b": "x", "label": 1}], a=None, b=None, label=label)
        for task, written in (("pair-classification", "y"), ("pair-similarity", 1)):
            lines, found = self.written(pairs, task=task)
            self.assertEqual(lines, [{"a": {"words": [], "group": 1}, "b": "x", "label": written}])
        self.assertEqual(found.labels_of("pair-classification"), ["z", "y"])

    def test_a_stream_has_the_columns_of_its_first_row(self):
        class Stream(list):
            features = column_names = None

        lines, _ = self.written(Stream([{"tokens": ["a"]}, {"tokens": ["b"]}]))
        self.assertEqual([line["words"] for line in lines], [["a"], ["b"]])
        self.assertRaises(plimsoll.DataError, self.written, Stream())

    def test_an_image_that_cannot_be_read_makes_its_page_bad(self):
        class Broken:
            mode = "RGB"

            def save(self, *_, **__):
                raise OSError("image file is truncated")

        class DataSet(list):
            features = {"image": None, "words": None, "boxes": None}
            column_names = list(features)

        pages = [dict(page) for page in self.pages[:4]]
        pages[1]["image"], pages[2]["image"] = Broken(), b"GIF89a"
        with self.assertLogs("plimsoll", "WARNING") as said:
            results = list(plimsoll.predict(model=self.model, data=pages, threads=1))
        self.assertEqual([result is None for result in results], [False, True, True, False])
        self.assertIn("page 1: Pillow cannot read the image: OSError: image file is truncated", said.output[0])
        self.assertNotIn(tempfile.gettempdir(), "".join(said.output))
        check = plimsoll.check(model=self.model, data=pages, threads=1)
        self.assertEqual(check.errors, 2)
        missing = [{**page, "image": {"path": "absent.png", "bytes": None}} for page in pages[:1]]
        lines, _ = self.written(DataSet(missing), box_format="pixel")
        self.assertEqual(lines[0]["image"], str(Path("absent.png").absolute()))

    def test_other_names_of_images_are_read(self):
        for name in ("image_path", "file_name"):
            pages = [{**page, name: page["image"]} for page in self.pages[:2]]
            for page in pages:
                del page["image"]
            self.assertEqual(len(list(plimsoll.predict(model=self.model, data=pages, threads=1))), 2)

    def test_units_of_boxes_are_not_mixed(self):
        class DataSet(list):
            features = {"image": None, "words": None, "boxes": None, "labels": None}
            column_names = list(features)

        thousandths = DataSet([{**{key: page[key] for key in ("image", "words", "labels")},
                                "boxes": [[0, 0, 990 + i % 10, 995] for i in range(len(page["words"]))]}
                               for page in self.pages])
        with self.assertRaises(plimsoll.UsageError) as caught:
            plimsoll.plan(**TINY, data=thousandths, eval_data=self.pages, budget="1GiB")
        self.assertIn("eval_data: not shown", caught.exception.found)
        plimsoll.plan(**TINY, data=thousandths, eval_data=thousandths, budget="1GiB")

    @unittest.skipUnless(Image, "needs Pillow")
    def test_images_in_memory_are_as_files(self):
        page = self.pages[0]
        turned = self.root / "turned.jpg"
        picture = Image.open(page["image"]).convert("RGB")
        exif = Image.Exif()
        exif[0x0112] = 6  # shown after a turn of 90 degrees clockwise
        picture.rotate(90, expand=True).save(turned, exif=exif, quality=95)
        words = {key: page[key] for key in ("id", "words", "boxes")}

        def predicted(image):
            return list(plimsoll.predict(model=self.model, data=[{**words, "image": image}], threads=1))[0]

        of_file, of_picture = predicted(str(turned)), predicted(Image.open(turned))
        for each, of_each in zip(of_file["probabilities"], of_picture["probabilities"]):
            self.assertAlmostEqual(each, of_each, 5)
        self.assertNotIn("image", of_picture)
        self.assertEqual(of_file["image"], str(turned))
        written = self.root / "written.jsonl"
        plimsoll.predict(model=self.model, data=[{**words, "image": picture}], output=written, threads=1)
        self.assertNotIn("image", json.loads(written.read_text()))
        again = list(plimsoll.predict(model=self.model, data=[{**of_picture, "image": page["image"]}], threads=1))
        self.assertEqual(again[0]["words"], page["words"])
        for mode in ("I", "F"):
            with self.assertRaises(plimsoll.UsageError):
                predicted(Image.new(mode, (60, 40)))
        pair = {"a": {**words, "image": picture}, "b": {**self.pages[1], "image": Path(self.pages[1]["image"]).read_bytes()},
                "label": 1}
        check = plimsoll.check(model="layoutlmv3-tiny", task="pair-classification", truncate=True, data=[
            pair, {**pair, "label": 0, "a": self.pages[2]}])
        self.assertTrue(check.ok, [json.dumps(vars(finding), default=str) for finding in check.findings])

    @unittest.skipUnless(datasets, "needs datasets")
    def test_data_sets_of_arrays_are_read(self):
        rows = [{"words": page["words"], "boxes": [[int(x) for x in box] for box in page["boxes"]],
                 "labels": page["labels"], "width": page.get("width", 1000), "height": page.get("height", 1000)}
                for page in self.pages]
        data = datasets.Dataset.from_list(rows).with_format("numpy")
        self.assertTrue(plimsoll.check(model="layoutlm-tiny", data=data, box_format="pixel").pages == len(rows))


if __name__ == "__main__":
    unittest.main()
