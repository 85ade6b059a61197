"""Tests the package with the built program ($PLIMSOLL): `python -m unittest discover -s python/tests`."""

import enum
import importlib.metadata
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import plimsoll
import plimsoll.callbacks
from plimsoll.arguments import arguments_of
from plimsoll.program import executable

try:
    from PIL import Image
except ImportError:
    Image = None
try:
    import datasets
except ImportError:
    datasets = None
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None

TINY = {"model": "layoutlmv3-tiny", "threads": 1}
logging.getLogger("plimsoll").setLevel(logging.ERROR)


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        subprocess.run([executable(), "synth", "--output", str(cls.root / "drawn"), "--count", "16"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.train_file = cls.root / "drawn" / "train.jsonl"
        cls.pages = [json.loads(line) for line in cls.train_file.read_text().splitlines()]
        for page in cls.pages:
            page["image"] = str(cls.root / "drawn" / page["image"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def train(self, name, **options):
        return plimsoll.train(**{**TINY, "data": self.train_file, "output_dir": self.root / name, "max_steps": 4,
                                 "logging_steps": 2, "budget": "1GiB", "progress": False, **options})


class ModelTest(PackageTest):
    """Has a model, too, that has learnt next to nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.root / "model"
        plimsoll.train(**TINY, data=cls.train_file, output_dir=cls.model, max_steps=1, budget="1GiB",
                       progress=False).wait()


class Commands(PackageTest):
    def test_the_version_is_the_programs(self):
        said = subprocess.run([executable(), "--version"], check=True, stdout=subprocess.PIPE).stdout.decode()
        self.assertEqual(plimsoll.__version__, said.split()[1])
        self.assertRegex(plimsoll.__version__, r"^\d+\.\d+")
        with self.assertRaises(AttributeError):
            plimsoll.__no_such_name__

    def test_a_plan_fits_or_says_what_would(self):
        plan = plimsoll.plan(**TINY, data=self.train_file, budget="1GiB")
        self.assertLessEqual(plan.predicted_peak_bytes, plan.budget_bytes)
        self.assertEqual(plan.budget_bytes, 1 << 30)
        self.assertEqual(plan.micro_batch_size * plan.gradient_accumulation_steps, 8)
        with self.assertRaises(plimsoll.BudgetError) as caught:
            plimsoll.plan(**TINY, data=self.train_file, budget=50 << 20)
        self.assertGreater(caught.exception.smallest_budget_bytes, 50 << 20)
        self.assertEqual(caught.exception.exit_code, 4)
        self.assertEqual(caught.exception.where, "--budget")
        plimsoll.plan(**TINY, data=self.train_file, budget=caught.exception.smallest_budget_bytes)

    def test_labels_that_are_not_known_are_none(self):
        page = {**self.pages[0]}
        for unknown in (None, -100):
            page["labels"] = [unknown] + self.pages[0]["labels"][1:]
            check = plimsoll.check(**TINY, data=[page])
            self.assertTrue(check)
            self.assertIn("word-unlabelled", [finding.kind for finding in check.findings])

    def test_bad_pages_are_findings(self):
        file = self.root / "bad.jsonl"
        page = {**self.pages[0], "boxes": [[0, 0, 1, 1]]}
        file.write_text(json.dumps(page) + "\n")
        check = plimsoll.check(**TINY, data=file)
        self.assertFalse(check.ok)
        self.assertEqual([finding.severity for finding in check.findings][0], "error")
        with self.assertRaises(plimsoll.DataError) as caught:
            self.train("bad", data=file).wait()
        self.assertIn("bad.jsonl:1", caught.exception.where)

    def test_pages_in_memory_are_named_by_their_numbers(self):
        bad = {**self.pages[1], "boxes": [[0, 0, 1, 1]]}
        (place,) = plimsoll.check(**TINY, data=[self.pages[0], bad]).findings[0].places
        self.assertEqual(place, f"page 1, id '{bad['id']}'")
        with self.assertRaises(plimsoll.DataError) as caught:
            self.train("bad in memory", data=self.pages[:1], eval_data=[bad]).wait()
        self.assertEqual(caught.exception.where, f"eval_data, page 0, id '{bad['id']}'")

    def test_texts_are_read_as_the_program_reads_them(self):
        rows = [{"text": f"A receipt, number {i}", "label": i % 2, "more": None} for i in range(8)]
        names = type("ClassLabel", (), {"names": ["even", "odd"]})()

        class DataSet(list):
            features = {"text": None, "label": names}
            column_names = ["text", "label", "more"]

        for data in (DataSet(rows), [{**row, "label": names.names[row["label"]]} for row in rows]):
            check = plimsoll.check(model="roberta-tiny", task="sequence-classification", data=data)
            self.assertTrue(check.ok, check.findings)
            self.assertEqual(check.pages, 8)
        self.assertTrue(plimsoll.check(model="llama-tiny", task="causal-lm", data=[
            {"text": "a"}, {"prompt": "a ", "completion": "b"}]).ok)

        for row, found in (({"sentence": "a", "label": "x"}, "sentence"), ({"text": b"a", "label": "x"}, "b'a'"),
                           ({"text": "\ud800", "label": "x"}, "ud800")):
            with self.assertRaises(ValueError) as wrong:
                plimsoll.check(model="roberta-tiny", task="sequence-classification", data=[row])
            self.assertIn(found, wrong.exception.found)
            self.assertEqual(wrong.exception.where, "page 0")

        class Untitled(DataSet):
            column_names = ["sentence", "label"]

        with self.assertRaises(plimsoll.DataError) as caught:
            plimsoll.check(model="roberta-tiny", task="sequence-classification", data=Untitled(rows))
        self.assertIn("messages", caught.exception.allowed)

    def test_unknown_keywords_are_named(self):
        with self.assertRaises(plimsoll.UsageError) as caught:
            plimsoll.plan(**TINY, learning_rat=1)
        self.assertEqual(caught.exception.remedy, "did you mean learning_rate?")
        self.assertIsInstance(caught.exception, ValueError)
        for name, remedy in (("evaluation_strategy", "did you mean eval_strategy?"), ("r", "did you mean lora_rank?"),
                             ("batch_size", "did you mean train_batch_size?")):
            with self.assertRaises(plimsoll.UsageError) as caught:
                arguments_of("plan", {name: 1})
            self.assertEqual(caught.exception.remedy, remedy)
            self.assertLess(len(str(caught.exception)), 400)

    def test_values_become_options(self):
        line = arguments_of("train", {"bf16": True, "truncate": False, "learning_rate": 5e-5, "budget": 1 << 30,
                                      "data": ["a b.jsonl", "-c"], "labels": ["O", "B-X"], "stride": -1, "seed": None})
        self.assertEqual(line, ["train", "--bf16=true", "--truncate=false", "--learning-rate=5e-05",
                                "--budget=1073741824b", "--data=a b.jsonl", "--data=-c", "--labels=O,B-X",
                                "--stride=-1"])

    def test_values_of_other_packages_become_options(self):
        class Number:  # as NumPy's and PyTorch's are
            shape = ()

            def __init__(self, value):
                self.value = value

            def item(self):
                return self.value

        class Scheduler(str, enum.Enum):
            COSINE = "cosine"

        for options, expected in (
                ({"learning_rate": Number(1e-3), "max_steps": Number(5), "budget": Number(1 << 30)},
                 ["--learning-rate=0.001", "--max-steps=5", "--budget=1073741824b"]),
                ({"lr_scheduler_type": Scheduler.COSINE}, ["--lr-scheduler-type=cosine"]),
                ({"report_to": [], "labels": ()}, []),
                ({"debug": [], "torch_compile": True, "run_name": "a b"},
                 ["--debug=[]", "--torch-compile=true", "--run-name=a b"]),
                ({"lora_target_modules": {"value", "query"}, "freeze": (name for name in ("a", "b"))},
                 ["--lora-target-modules=query,value", "--freeze=a,b"]),
                ({"labels": ["a,b", "c"]}, ['--labels=["a,b", "c"]']),
                ({"class_weights": {"O": Number(0.5)}}, ['--class-weights={"O": 0.5}'])):
            self.assertEqual(arguments_of("train", options), ["train", *expected])

    def test_labels_are_in_the_order_of_their_numbers(self):
        names = ["O", "B-X", "I-X"]
        for labels in ({2: "I-X", 0: "O", 1: "B-X"}, {"2": "I-X", "0": "O", "1": "B-X"}, {"I-X": 2, "B-X": 1, "O": 0},
                       dict.fromkeys(names).keys(), dict(enumerate(names)).values()):
            self.assertEqual(arguments_of("train", {"labels": labels}), ["train", "--labels=O,B-X,I-X"])
        with self.assertRaises(plimsoll.UsageError) as caught:
            arguments_of("train", {"labels": {0: "O", 2: "I-X"}})
        self.assertIn("number 1", caught.exception.found)

    def test_flags_take_what_the_command_line_takes(self):
        for value, text in ((True, "true"), ("False", "false"), ("no", "false"), (0, "false"), ("1", "true")):
            self.assertEqual(arguments_of("train", {"bf16": value}), ["train", f"--bf16={text}"])
        for value in ("nope", 2, []):
            with self.assertRaises(plimsoll.UsageError):
                arguments_of("train", {"bf16": value})

    def test_a_program_that_is_not_there_is_named(self):
        with unittest.mock.patch.dict(os.environ, {"PLIMSOLL": "/nowhere/plimsoll"}):
            with self.assertRaises(plimsoll.EnvironmentFailure) as caught:
                plimsoll.plan(**TINY, data=self.train_file)
        self.assertEqual(caught.exception.found, "/nowhere/plimsoll")

    def test_keywords_of_training_arguments_are_taken_as_they_are(self):
        arguments = {"torch_compile": True, "accelerator_config": {"split_batches": False}, "report_to": ["jsonl"],
                     "lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr": 1e-6}}
        plimsoll.plan(**TINY, data=self.train_file, budget="1GiB", **arguments)
        plimsoll.plan(**TINY, data=self.train_file, budget="1GiB", class_weights={"B-TOTAL": 5, "O": 0.5})
        plimsoll.plan(**TINY, data=self.train_file, budget="1GiB", class_weights="balanced")
        with self.assertRaises(plimsoll.UsageError) as caught:
            plimsoll.plan(**TINY, data=self.train_file, neftune_noise_alpha=5)
        self.assertIn("--neftune-noise-alpha", caught.exception.what)
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.predict(**TINY, data=self.train_file, torch_compile=True)

    def test_the_doctor_reads_a_log(self):
        log = self.root / "log.txt"
        log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
                       "capacity of 15.77 GiB of which 5.12 MiB is free.\n")
        self.assertTrue(plimsoll.doctor(log)["recognised"])
        log.write_text("nothing\n")
        self.assertFalse(plimsoll.doctor(log)["recognised"])
        self.assertIn("checks", plimsoll.doctor())


class Training(PackageTest):
    def test_a_run_says_events_and_gives_the_command_lines_bits(self):
        seen = []
        run = self.train("events", eval_data=self.train_file, callbacks=[lambda event, run: seen.append(event)])
        events = list(run)
        self.assertEqual(events, seen)
        said = (plimsoll.Evaluated, plimsoll.Found, plimsoll.Warned)
        self.assertEqual([type(event).__name__ for event in events if not isinstance(event, said)],
                         ["Planned", "Step", "Step", "Checkpoint", "End"])
        self.assertEqual([event.step for event in events if isinstance(event, plimsoll.Step)], [2, 4])
        self.assertEqual(run.result.steps, 4)
        self.assertIn("f1", run.result.evaluation.scores)
        options = ["--model", "layoutlmv3-tiny", "--threads", "1", "--data", self.train_file, "--eval-data",
                   self.train_file, "--max-steps", "4", "--logging-steps", "2", "--budget", "1GiB"]
        subprocess.run([executable(), "train", *options, "--output-dir", self.root / "line"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertEqual((self.root / "line" / "model.safetensors").read_bytes(),
                         (self.root / "events" / "model.safetensors").read_bytes())
        pages = list(plimsoll.predict(model=self.root / "events", data=self.train_file, threads=1))
        self.assertEqual([page["id"] for page in pages], [page["id"] for page in self.pages])
        scores = plimsoll.evaluate(model=self.root / "events", data=self.train_file, threads=1)
        self.assertEqual(scores.scores["f1"], run.result.evaluation.scores["f1"])

    def test_warnings_of_the_check_are_logged_as_warnings(self):
        rows = [{"text": f"{'good' if i % 2 else 'bad'} thing number {i}", "label": i % 2} for i in range(40)]
        with self.assertLogs("plimsoll", "WARNING") as said:
            run = plimsoll.train(model="roberta-tiny", task="sequence-classification", data=rows, eval_data=rows[:8],
                                 output_dir=self.root / "whole labels", max_steps=1, threads=1, budget="1GiB",
                                 progress=False)
            found = [event.finding for event in run if isinstance(event, plimsoll.Found)]
        warned = [finding.kind for finding in found if finding.severity == "warning"]
        self.assertIn("page-in-both", warned)
        self.assertIn("labels-whole", [finding.kind for finding in found])
        for kind in warned:
            self.assertTrue(any(f"[{kind}]" in line for line in said.output), (kind, said.output))

    def test_stop_saves_a_checkpoint_to_resume_from(self):
        run = self.train("stopped", max_steps=100_000)
        for event in run:
            if isinstance(event, plimsoll.Step):
                run.stop()
        self.assertIsInstance(event, plimsoll.Checkpoint)
        self.assertIsNone(run.result)
        step = event.step
        again = self.train("stopped", max_steps=100_000, resume_from_checkpoint="latest")
        self.assertGreater(next(event for event in again if isinstance(event, plimsoll.Step)).step, step)
        again.stop()
        self.assertIsNone(again.wait())

    def test_a_failed_run_raises_its_error_each_time(self):
        run = self.train("refused twice", budget="50MiB")
        for _ in range(2):
            self.assertRaises(plimsoll.BudgetError, run.wait)
        run.close()

    def test_a_run_is_closed_by_a_thread_or_a_callback(self):
        begun, results = threading.Event(), []
        run = self.train("closed by a thread", max_steps=100_000,
                         callbacks=[lambda event, run: isinstance(event, plimsoll.Step) and begun.set()])
        waiting = threading.Thread(target=lambda: results.append(run.wait()))
        waiting.start()
        self.assertTrue(begun.wait(60))
        run.close()
        waiting.join(60)
        self.assertEqual(results, [None])
        self.assertTrue(list((self.root / "closed by a thread").glob("checkpoint-*")))
        self.assertIsNone(self.train("closed by a callback", max_steps=100_000,
                                     callbacks=[lambda event, run: run.close()]).wait())

    def test_a_callbacks_error_ends_the_run_with_a_checkpoint(self):
        def fails(event, run):
            if isinstance(event, plimsoll.Step):
                raise KeyError("of the callback")

        with self.assertRaises(KeyError):
            self.train("failed", max_steps=100_000, callbacks=[fails]).wait()
        self.assertTrue(list((self.root / "failed").glob("checkpoint-*")))

    def test_a_run_is_closed_before_and_after_its_first_event(self):
        self.train("unread", max_steps=100_000).close()
        run = self.train("stopped at once", max_steps=100_000)
        run.stop()
        self.assertIsNone(run.wait())
        with self.train("left", max_steps=100_000) as run:
            for event in run:
                if isinstance(event, plimsoll.Step):
                    break
        self.assertTrue(list((self.root / "left").glob("checkpoint-*")))
        self.assertEqual(list(run), [])


class Reports(PackageTest):
    def test_events_are_written_to_a_file(self):
        run = self.train("events", eval_data=self.train_file, events=self.root / "events.jsonl")
        events = [event.raw for event in run]
        written = [json.loads(line) for line in (self.root / "events.jsonl").read_text().splitlines()]
        self.assertEqual(written, events)
        with self.assertRaises(plimsoll.BudgetError):
            self.train("refused", budget="50MiB", report_to="jsonl").wait()
        last = (self.root / "refused" / "events.jsonl").read_text().splitlines()[-1]
        self.assertEqual(json.loads(last)["error"]["exit_code"], 4)

    def test_a_resumed_run_goes_on_in_its_file(self):
        self.train("whole", save_steps=2, report_to="jsonl").wait()
        self.train("whole", save_steps=2, report_to="jsonl", resume_from_checkpoint=self.root / "whole" / "checkpoint-2",
                   overwrite_output_dir=True).wait()
        written = [json.loads(line) for line in (self.root / "whole" / "events.jsonl").read_text().splitlines()]
        self.assertEqual([event["step"] for event in written if event["event"] == "step"], [2, 4])
        self.assertEqual([event["event"] for event in written].count("plan"), 2)

    def test_trackers_are_told_what_trainer_tells_them(self):
        class Tracker(plimsoll.callbacks._Tracker):
            said = []

            def begin(self, config):
                self.said.append(("begin", config["max_steps"], config["plan"]["budget_bytes"]))

            def log(self, values, step):
                self.said.append((step, sorted(values)))

            def end(self):
                self.said.append("end")

        self.train("tracked", eval_data=self.train_file, callbacks=[Tracker()]).wait()
        of_step = ["memory/resident_mib", "train/data_wait", "train/epoch", "train/grad_norm", "train/learning_rate",
                   "train/loss", "train/pages_per_second"]
        self.assertEqual(Tracker.said[0], ("begin", 4, 1 << 30))
        self.assertEqual([each for each in Tracker.said if each[1] == of_step], [(2, of_step), (4, of_step)])
        self.assertTrue(any("eval/f1" in each[1] and "eval/loss" in each[1] for each in Tracker.said[1:-1]))
        self.assertEqual(Tracker.said[-1], "end")
        self.assertEqual(Tracker.said.count("end"), 1)

    @unittest.skipIf(EventAccumulator is None, "tensorboard is not installed")
    def test_tensorboard_reads_the_event_files(self):
        options = {"eval_data": self.train_file, "report_to": "tensorboard", "save_steps": 2}
        events = list(self.train("board", **options))
        list(self.train("board", resume_from_checkpoint=self.root / "board" / "checkpoint-2", overwrite_output_dir=True,
                        **options))
        board = EventAccumulator(str(self.root / "board" / "tensorboard"))
        board.Reload()
        losses = {event.step: event.loss for event in events if isinstance(event, plimsoll.Step)}
        read = [(scalar.step, scalar.value) for scalar in board.Scalars("train/loss")]
        self.assertEqual([step for step, _ in read], sorted(losses))  # those of the second run replace the first's
        for step, loss in read:
            self.assertAlmostEqual(loss, losses[step], places=5)
        evaluations = [event for event in events if isinstance(event, plimsoll.Evaluated)]
        self.assertAlmostEqual(board.Scalars("eval/f1")[-1].value, evaluations[-1].evaluation.scores["f1"], places=5)
        self.assertIn(b"predicted peak", board.Tensors("plan")[0].tensor_proto.string_val[0])
        self.assertIn(b"drawing of pictures", board.Tensors("plan")[0].tensor_proto.string_val[0])

        plan = plimsoll.plan(**TINY, data=self.train_file, max_steps=4, budget="1GiB", **options)
        (planned,) = [event.raw for event in events if isinstance(event, plimsoll.Planned)]
        drawing = [[part for part in each["items"] if part["name"] == "drawing of pictures"] for each in (plan.raw, planned)]
        self.assertGreater(drawing[0][0]["bytes"], 0)
        self.assertEqual(*drawing)

    @unittest.skipIf(EventAccumulator is None or Image is None, "tensorboard or Pillow is not installed")
    def test_tensorboard_shows_the_worst_pages(self):
        import io

        run = self.train("worst", eval_data=self.train_file, report_to="tensorboard")
        run.wait()
        board = EventAccumulator(str(self.root / "worst" / "tensorboard"))
        board.Reload()
        worst = json.loads((self.root / "worst" / "worst.json").read_text())["pages"]
        self.assertEqual(len(worst), 6)
        worst.sort(key=lambda page: -page["loss"])
        self.assertEqual(sorted(board.Tags()["images"]), [f"worst/{rank}" for rank in range(1, len(worst) + 1)])
        table = board.Tensors("worst")[0].tensor_proto.string_val[0].decode()
        for rank, page in enumerate(worst, 1):
            (event,) = board.Images(f"worst/{rank}")
            self.assertEqual(event.step, 4)
            picture = Image.open(io.BytesIO(event.encoded_image_string))
            self.assertEqual((event.width, event.height), picture.size)
            # The page, and a legend below it.
            self.assertEqual(picture.width, page["width"])
            self.assertGreaterEqual(picture.height, page["height"])
            self.assertIn(f"worst/{rank}  loss {page['loss']:.4f}  {page['where']}", table)
        self.assertEqual(list((self.root / "worst").rglob("worst.png")), [])


def sums_depend_on_rows():
    """Without AVX-512 a page's last bits depend on the pages beside it (docs/scale.md)."""
    return "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()


class WarmPredictor(PackageTest):
    def test_it_predicts_what_predict_does(self):
        self.train("model").wait()
        model = self.root / "model"
        expected = list(plimsoll.predict(model=model, data=self.train_file, threads=1))
        with plimsoll.predictor(model, threads=1) as predict:
            self.assertEqual(predict(self.train_file), expected)
            for page, found in zip(self.pages, expected):  # one at a time, from memory
                (one,) = predict([page])
                if sums_depend_on_rows():
                    one, found = ({"fields": [field["label"] for field in its["fields"]]} for its in (one, found))
                self.assertEqual(one["fields"], found["fields"])
            with self.assertLogs("plimsoll", "WARNING") as said:
                one, none = predict([self.pages[0], {**self.pages[1], "boxes": []}])
            self.assertEqual((one["id"], none), (self.pages[0]["id"], None))
            self.assertIn(f"page 1, id '{self.pages[1]['id']}': ", said.output[-1])
            self.assertIn("its result is None", said.output[-1])
            bad = self.root / "one is bad.jsonl"  # of a file there are the readable pages only
            bad.write_text("".join(json.dumps(page) + "\n" for page in ({**self.pages[0], "boxes": []}, self.pages[1])))
            with self.assertLogs("plimsoll", "WARNING") as said:
                self.assertEqual([page["id"] for page in predict(bad)], [self.pages[1]["id"]])
            self.assertIn("is left out", said.output[-1])
            with self.assertRaises(plimsoll.DataError):
                predict(self.root / "absent.jsonl")
            self.assertEqual(predict(self.train_file), expected)
            again = pickle.loads(pickle.dumps(predict))
        with again:
            self.assertEqual(again(self.train_file), expected)
        again.close()
        with self.assertRaises(plimsoll.DataError):
            plimsoll.predictor(self.root / "drawn")
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.predictor(model, thread=1)


class Texts(PackageTest):
    def test_prompts_and_conversations_are_gone_on_with(self):
        folder = self.root / "language"
        subprocess.run([executable(), "init", "--model", "gpt2-tiny", "--task", "causal-lm", "--output-dir", folder],
                       check=True, stdout=subprocess.DEVNULL)
        (folder / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
        more = dict(model=folder, max_new_tokens=3, threads=1, budget="1GiB")
        one, two = plimsoll.generate(["The total", [{"role": "user", "content": "Due?"}]], **more)
        self.assertEqual((one.prompt, two.prompt), ("The total", "<user>Due?"))
        self.assertTrue(0 < len(one.tokens) <= 3)
        self.assertEqual(plimsoll.generate("The total", **more)[0], one)
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.generate("a", top_p=0.0, **more)
        with self.assertRaises(plimsoll.UsageError) as caught:
            plimsoll.generate([{"prompt": "The total"}], **more)
        self.assertEqual(caught.exception.where, "prompt 0")


@unittest.skipIf(Image is None, "Pillow is not installed")
class Pictures(PackageTest):
    def test_pages_with_pictures_train_as_their_files_do(self):
        pages = [{**page, "image": Image.open(page["image"])} for page in self.pages]
        self.assertTrue(plimsoll.check(**TINY, data=pages).ok)
        self.train("files").wait()
        self.train("pictures", data=pages).wait()
        self.assertEqual((self.root / "files" / "model.safetensors").read_bytes(),
                         (self.root / "pictures" / "model.safetensors").read_bytes())


@unittest.skipIf(datasets is None or Image is None, "datasets or Pillow is not installed")
class Datasets(PackageTest):
    def test_a_data_set_with_numbers_for_labels_trains(self):
        names = sorted({label for page in self.pages for label in page["labels"]})
        rows = {"id": [page["id"] for page in self.pages], "tokens": [page["words"] for page in self.pages],
                "bboxes": [page["boxes"] for page in self.pages],
                "ner_tags": [[names.index(label) for label in page["labels"]] for page in self.pages],
                "image": [page["image"] for page in self.pages]}
        features = datasets.Features({
            "id": datasets.Value("string"), "tokens": datasets.Sequence(datasets.Value("string")),
            "bboxes": datasets.Sequence(datasets.Sequence(datasets.Value("float64"))),
            "ner_tags": datasets.Sequence(datasets.ClassLabel(names=names)), "image": datasets.Image()})
        data = datasets.Dataset.from_dict(rows, features=features)
        run = self.train("dataset", data=data, box_format="pixel")
        run.wait()
        scores = plimsoll.evaluate(model=self.root / "dataset", data=data, box_format="pixel")
        self.assertGreaterEqual(scores.scores["f1"], 0)
        self.assertEqual(len(list(plimsoll.predict(model=self.root / "dataset", data=data, box_format="pixel"))), len(data))
        self.train("same", labels=names).wait()
        self.assertEqual((self.root / "dataset" / "model.safetensors").read_bytes(),
                         (self.root / "same" / "model.safetensors").read_bytes())

        # Plain numbers get the names that are passed, or those of the model; predictions need none.
        del features["ner_tags"]
        plain = datasets.Dataset.from_dict(rows, features=datasets.Features(
            **features, ner_tags=datasets.Sequence(datasets.Value("int64"))))
        self.train("plain", data=plain, box_format="pixel", labels=names).wait()
        self.assertEqual((self.root / "plain" / "model.safetensors").read_bytes(),
                         (self.root / "same" / "model.safetensors").read_bytes())
        again = plimsoll.evaluate(model=self.root / "dataset", data=plain, box_format="pixel")
        self.assertEqual(again.scores["f1"], scores.scores["f1"])
        with self.assertRaisesRegex(plimsoll.DataError, "names are not given"):
            self.train("nameless", data=plain, box_format="pixel").wait()
        self.assertEqual(len(list(plimsoll.predict(model=self.root / "dataset", data=plain, box_format="pixel"))), len(plain))

    def test_the_boxes_of_cord_are_pixels(self):
        def line(word, box):
            x0, y0, x1, y1 = box
            quad = {"x1": x0, "y1": y0, "x2": x1, "y2": y0, "x3": x1, "y3": y1, "x4": x0, "y4": y1}
            return {"category": "menu.nm", "words": [{"text": word, "quad": quad, "is_key": 0}]}

        rows = [{"image": page["image"], "ground_truth": json.dumps(
            {"valid_line": [line(word, box) for word, box in zip(page["words"], page["boxes"])]})} for page in self.pages]
        data = datasets.Dataset.from_list(rows, features=datasets.Features(
            {"image": datasets.Image(), "ground_truth": datasets.Value("string")}))
        self.assertTrue(plimsoll.check(**TINY, data=data).ok)


class Installed(unittest.TestCase):
    def test_the_packages_own_program_comes_first(self):
        from unittest import mock

        from plimsoll import program

        given = executable()
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
            os.environ.pop("PLIMSOLL", None)
            with mock.patch.object(program, "BUNDLED", Path(given)):
                self.assertEqual(executable(), given)
            missing = Path(folder) / "plimsoll"
            with mock.patch.object(program, "BUNDLED", missing), self.assertRaises(SystemExit) as ended:
                program.main()
            self.assertIn(str(missing), str(ended.exception.code))

    def test_the_entry_point_becomes_the_program(self):
        sources = str(Path(plimsoll.__file__).parent.parent)
        code = (f"import sys; sys.path.insert(0, {sources!r}); from pathlib import Path; from plimsoll import program; "
                f"program.BUNDLED = Path({executable()!r}); sys.argv = ['plimsoll', '--version']; program.main()")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertTrue(done.stdout.startswith("plimsoll "), done.stdout)


    def test_the_program_reads_pdf_files_by_the_packages_python(self):
        try:
            import pypdfium2  # noqa: F401
        except ImportError:
            self.skipTest("pypdfium2 is not installed")
        from plimsoll import program

        with tempfile.TemporaryDirectory() as folder:  # without Poppler and python3
            environment = {**program.environment(), "PATH": folder,
                           "PYTHONPATH": str(Path(plimsoll.__file__).parent.parent)}
            done = subprocess.run([executable(), "--version"], env=environment, capture_output=True, text=True, check=True)
        self.assertIn("PDF: pypdfium2 ", done.stdout)


class Tools(unittest.TestCase):
    def run_tool(self, name, *arguments):
        tool = Path(__file__).resolve().parents[2] / "tools" / name
        if not tool.exists():
            self.skipTest("not in a checkout")
        subprocess.run([sys.executable, tool, *arguments], check=True, stdout=subprocess.DEVNULL)

    def test_keywords_are_those_of_the_program(self):
        self.run_tool("python_options.py", "--plimsoll", executable(), "--check")

    def test_every_field_of_training_arguments_is_told_of(self):
        try:
            importlib.metadata.version("peft")
            version = importlib.metadata.version("transformers")
        except importlib.metadata.PackageNotFoundError:
            self.skipTest("transformers or peft is not installed")
        if not version.startswith("5.17"):
            self.skipTest("another version of transformers")
        self.run_tool("training_arguments.py", "--plimsoll", executable(), "--check")

    def test_data_sets_are_converted(self):
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            self.skipTest("pyarrow is not installed")
        self.run_tool("convert_dataset.py", "--self-test")


if __name__ == "__main__":
    unittest.main()
