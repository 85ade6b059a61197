"""Results of pages in memory: one for each page, in its place."""

import json
import logging
import subprocess
import tempfile

from test_package import ModelTest

import plimsoll
from plimsoll.program import executable


class ResultsOfLists(ModelTest):
    """A list has a result for each of its pages, in its place."""

    def predicted(self, pages, model=None):
        """Returns the results, which `predict` and a predictor have alike, and the warnings of the former."""
        model = model or self.model
        with self.assertLogs("plimsoll", "WARNING") as said:
            logging.getLogger("plimsoll").warning("one is asked for")
            results = list(plimsoll.predict(model=model, data=pages, threads=1))
        with plimsoll.predictor(model, threads=1) as predict:
            self.assertEqual(predict(pages), results)
        return results, said.output[1:]

    @staticmethod
    def words_of(results):
        return [None if result is None else result["words"] for result in results]

    def bad(self, page):
        return {**self.pages[page], "image": str(self.root / "absent.png")}

    def test_a_page_that_cannot_be_read_leaves_none_in_its_place(self):
        pages = [self.bad(0), self.pages[1], {**self.pages[2], "boxes": []}, self.bad(3), self.pages[4], self.bad(5)]
        results, said = self.predicted(pages)
        self.assertEqual(self.words_of(results), [None, pages[1]["words"], None, None, pages[4]["words"], None])
        self.assertEqual(results[1], list(plimsoll.predict(model=self.model, data=[pages[1]], threads=1))[0])
        for number in (0, 2, 3, 5):
            self.assertTrue(any(f"page {number}, id '{pages[number]['id']}'" in line for line in said), said)
        self.assertNotIn(tempfile.gettempdir() + "/plimsoll-", "".join(said))

    def test_an_empty_list_has_no_results(self):
        self.assertEqual(list(plimsoll.predict(model=self.model, data=[])), [])
        with plimsoll.predictor(self.model, threads=1) as predict:
            self.assertEqual(predict([]), [])

    def test_no_page_that_can_be_read_is_an_error(self):
        with plimsoll.predictor(self.model, threads=1) as predict:
            for pages in ([self.bad(0)], [self.bad(0), self.bad(1)]):
                for call in (predict, lambda data: list(plimsoll.predict(model=self.model, data=data, threads=1))):
                    with self.assertRaises(plimsoll.DataError) as caught:
                        call(pages)
                    self.assertTrue(caught.exception.where.startswith("page 0, "), caught.exception.where)

    def test_pages_keep_ids_that_they_share_or_lack(self):
        ids = ["a", None, "a", 7, "a-2", "line 2", "7", ""]
        pages = [{**page, "id": own} for page, own in zip(self.pages, ids)]
        pages[3] = {**pages[3], "boxes": []}
        pages.insert(0, self.bad(8))
        pages.append({**self.bad(9), "id": "a"})
        given = json.dumps(pages)
        results, _ = self.predicted(pages)
        self.assertEqual(json.dumps(pages), given)
        self.assertEqual(self.words_of(results), [None, *(page["words"] for page in self.pages[:3]), None,
                                                  *(page["words"] for page in self.pages[4:8]), None])
        self.assertEqual([result and result["id"] for result in results],
                         [None, "a", "line 3", "a", None, "a-2", "line 2", "7", "line 9", None])

    def test_a_document_is_one_result(self):
        names = [None, "d", "d", "d", "d", None, "d", "e", "e", 7, None]
        pages = [{**page, "document": name} for page, name in zip(self.pages, names)]
        for bad in (1, 4):
            pages[bad]["image"] = str(self.root / "absent.png")
        for bad in (5, 7, 8):
            pages[bad]["boxes"] = []
        results, _ = self.predicted(pages)
        self.assertEqual([result and (result.get("document"), [page and page["id"] for page in result.get("pages", ())])
                          for result in results],
                         [(None, []), ("d", [None, pages[2]["id"], pages[3]["id"], None]), None,
                          ("d", [pages[6]["id"]]), None, ("7", [pages[9]["id"]]), (None, [])])
        fields = results[1]["fields"]
        self.assertEqual([field["page"] for field in fields],
                         [1] * len(results[1]["pages"][1]["fields"]) + [2] * len(results[1]["pages"][2]["fields"]))

    def test_a_whole_document_is_what_the_program_writes(self):
        pages = [{**page, "document": "d"} for page in self.pages[:3]]
        file = self.root / "document.jsonl"
        file.write_text("".join(json.dumps(page) + "\n" for page in pages))
        results, _ = self.predicted(pages)
        self.assertEqual(results, list(plimsoll.predict(model=self.model, data=file, threads=1)))

    def test_questions_and_pairs_keep_their_ids(self):
        def made(task, *more):
            folder = self.root / task
            subprocess.run([executable(), "init", "--model", "layoutlmv3-tiny", "--task", task, "--output-dir", folder,
                            *more], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return folder

        asked = [{**page, "id": "x", "questions": [{"question": "How much?"}, {"id": "date", "question": "When?"}]}
                 for page in (self.bad(0), *self.pages[1:3])]
        results, _ = self.predicted(asked, made("question-answering"))
        self.assertEqual([result and [each["id"] for each in result["questions"]] for result in results],
                         [None, ["x-0", "date"], ["x-0", "date"]])

        model = made("pair-classification", "--labels", "0,1")
        a, b = ({key: page[key] for key in ("id", "image", "words", "boxes")} for page in self.pages[:2])
        pairs = [{"a": a, "b": {**b, "boxes": []}}, {"a": a, "b": b}, {"a": b, "b": a}, {"a": a, "b": b}]
        results, _ = self.predicted(pairs, model)
        names = [(a["id"], b["id"]), (b["id"], a["id"])]
        self.assertEqual([result and (result["a"], result["b"]) for result in results], [None, *names, names[0]])
        named = [{"a": "none", "b": b["id"]}, {"a": a["id"], "b": b["id"]}]
        self.assertEqual(list(plimsoll.predict(model=model, data=named, pages=[a, b], threads=1)), [None, results[1]])

    def test_pictures_are_named_as_those_of_a_file(self):
        pages = [{**page, "id": "a"} for page in self.pages[:2]]
        list(plimsoll.predict(model=self.model, data=pages, draw=self.root / "drawn pages", threads=1))
        self.assertEqual(sorted(file.name for file in (self.root / "drawn pages").glob("*.png")), ["a-2.png", "a.png"])
        written = self.root / "written.jsonl"
        done = plimsoll.predict(model=self.model, data=[self.bad(2), *pages], output=written, threads=1)
        self.assertEqual((done["pages"], done["skipped_pages"][0]["index"]), (2, 0))
        self.assertEqual([json.loads(line)["id"] for line in written.read_text().splitlines()], ["a", "a"])
