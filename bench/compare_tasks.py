#!/usr/bin/env python3
"""Checks the quality bar of classes, answers and pairs: real receipts, layoutlmv3-small from scratch, by Plimsoll and by
PyTorch.

Both begin from the same fresh weights (`plimsoll init`), see the same examples in the same order (Plimsoll's order.jsonl)
and follow the same recipe: 5e-4 (classes and pairs 2e-4), 10 % linear warm-up, AdamW with weight decay 0.01, clipping 1.0, batch
16. Dropout is 0 unless --dropout says otherwise: its random numbers are the only thing that the two could not share, and
so few pages would show their luck. Both models then predict with `plimsoll predict` (its logits are those of
transformers: tools/check_families.py), so that the windows of long pages and spans are put together alike. A paired
bootstrap over pages says how far the difference may be chance.

  bench/compare_tasks.py classes [--epochs 10]     `label` of a page; bars: the lower 95 % bound of the difference of
                                                   accuracy at or above -2 points, and 10 points above the largest class
  bench/compare_tasks.py answers [--epochs 4]      `questions` of a page; the same of SQuAD's F1, and 10 points above always
                                                   answering nothing
  bench/compare_tasks.py pairs [--epochs 10]       `a` and `b` from the same vendor or not; the same of accuracy. PyTorch's
                                                   head is that of tools/pair_heads.py
  --every-pair judges `pairs` by all pairs of one vendor among the held-out pages, and as many of two vendors as the file
  of pairs has for each of one: in 170 pairs two models that are right equally often, and differ in one pair of eight, are
  5 points apart by chance. Vendors are the pages' labelled companies, which agree with every pair of the file. Since
  pairs share pages, an interval from drawing pages is printed too.
  --reuse keeps finished halves.
"""

import argparse
import collections
import itertools
import json
import re
import shutil
import string
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

import numpy
import torch
import transformers

import pair_heads
import receipts
import receipts_recipe as recipe
import reference

LARGEST_LOSS = -0.02  # of the lower bound
LEAST_GAIN = 0.10  # above what a model without any sense reaches
# Task, class, epochs, learning rate. Classes train unsteadily at 5e-4: rounding alone takes the two models far apart, as
# the last line printed says.
TASKS = {"classes": ("sequence-classification", "LayoutLMv3ForSequenceClassification", 10, 2e-4),
         "answers": ("question-answering", "LayoutLMv3ForQuestionAnswering", 4, 5e-4),
         "pairs": ("pair-classification", None, 10, 2e-4)}


class Classes(receipts.Windows):
    def page(self, page, window):
        return page

    def row(self, page, window, item):
        return self.example(page, window)

    def example(self, page, window):
        record, (ids, words) = self.pages[page], self.tokens(page)
        begin, end = self.windows(page)[window]
        boxes = [receipts.normalize_box(record["boxes"][word], record["width"], record["height"])
                 for word in words[begin:end]]
        return {"ids": [receipts.CLS, *ids[begin:end], receipts.SEP], "boxes": [[0] * 4, *boxes, [0] * 4],
                "labels": [reference.IGNORED_LABEL] * (end - begin + 2)}

    def targets(self, examples):
        return {"labels": torch.tensor([self.label_ids[self.pages[page]["label"]] for page, _, _ in examples])}


class Pairs(Classes):
    """An example is a pair's number and the side of its page, of which the first window is read."""

    def __init__(self, path, tokenizer, label_ids, pairs):
        super().__init__(path, tokenizer, label_ids)
        self.pairs = reference.read_jsonl(pairs)
        self.number = {str(page["id"]): number for number, page in enumerate(self.pages)}

    def page(self, pair, side):
        return self.number[self.pairs[pair]["ab"[side]]]

    def row(self, pair, side, item):
        return self.example(self.page(pair, side), 0)

    def targets(self, examples):
        return {"labels": torch.tensor([self.pairs[pair]["label"] if side == 0 else pair_heads.NONE
                                        for pair, side, _ in examples])}


class Answers(receipts.Windows):
    """A question stands before the page's words, with </s></s> between; its windows are cut from what room is left."""

    def page(self, page, window):
        return page

    def prompt(self, page, item):
        question = self.pages[page]["questions"][item]["question"]
        return self.tokenizer.encode(question.split(), is_pretokenized=True, add_special_tokens=False).ids

    def cut(self, page, item):
        room = self.room - len(self.prompt(page, item)) - 2
        return receipts.cut_windows(self.tokens(page)[1], room, self.stride)

    def row(self, page, window, item):
        record, (ids, words), prompt = self.pages[page], self.tokens(page), self.prompt(page, item)
        begin, end = self.cut(page, item)[window]
        boxes = [receipts.normalize_box(record["boxes"][word], record["width"], record["height"])
                 for word in words[begin:end]]
        before = [receipts.CLS, *prompt, receipts.SEP, receipts.SEP]
        return {"ids": [*before, *ids[begin:end], receipts.SEP], "boxes": [[0] * 4] * len(before) + boxes + [[0] * 4],
                "labels": [reference.IGNORED_LABEL] * (len(before) + end - begin + 1)}

    def span(self, page, window, item):
        """Rows of the answer's first and last token; the first row where the window does not hold all of it."""
        answers = self.pages[page]["questions"][item]["answers"]
        if not answers:
            return 0, 0
        words = self.tokens(page)[1]
        tokens = [token for token, word in enumerate(words)
                  if answers[0]["start_word"] <= word < answers[0]["end_word"]]
        begin, end = self.cut(page, item)[window]
        if not tokens or tokens[0] < begin or tokens[-1] >= end:
            return 0, 0
        shift = len(self.prompt(page, item)) + 3 - begin
        return tokens[0] + shift, tokens[-1] + shift

    def targets(self, examples):
        spans = torch.tensor([self.span(*example) for example in examples])
        return {"start_positions": spans[:, 0].clone(), "end_positions": spans[:, 1].clone()}


def collate(windows, examples):
    rows = [windows.row(*example) for example in examples]
    batch = receipts.pad_rows(rows, max(len(row["ids"]) for row in rows))
    batch["pixel_values"] = torch.stack([windows.pixels(windows.page(page, window)) for page, window, _ in examples])
    del batch["labels"]
    return {**batch, **windows.targets(examples)}


class Trainer(reference.Trainer):
    """The loss of a micro-batch is a mean over its samples, which all count alike."""

    def step_samples(self, micro_batches, sizes):
        rate = self.learning_rate * reference.linear_schedule(self.update, self.updates, self.warmup_updates)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.zero_grad(set_to_none=True)
        total = 0.0
        for batch, size in zip(micro_batches, sizes):
            loss = self.model(**batch).loss * (size / sum(sizes))
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()
        self.update += 1
        return total


def set_dropout(directory, dropout):
    path = directory / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.update(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    reference.write_json(config, path)
    (directory / "checksums.json").unlink()  # it holds the old file's


def pytorch_half(options, initial, order, directory):
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer = receipts.load_tokenizer(initial / "tokenizer.json")
    config = json.loads((initial / "config.json").read_text(encoding="utf-8"))
    if options.task == "pairs":
        windows = Pairs(options.pages[0], tokenizer, config["label2id"], options.train)
        model = pair_heads.PairClassification(transformers.AutoModel.from_pretrained(initial)).load_head(initial).train()
    else:
        windows = (Classes if options.task == "classes" else Answers)(options.train, tokenizer, config["label2id"])
        model = getattr(transformers, TASKS[options.task][1]).from_pretrained(initial).train()
    trainer = Trainer(model, options.learning_rate, len(order),
                      warmup_updates=recipe.warmup_updates(options, len(order)))
    begin = time.perf_counter()
    for line in order:
        examples = [(page, window, item[0] if item else 0) for page, window, *item in line["examples"]]
        parts = [examples[first:first + options.micro_batch] for first in range(0, len(examples), options.micro_batch)]
        loss = trainer.step_samples([collate(windows, part) for part in parts], [len(part) for part in parts])
        if trainer.update % 25 == 0 or trainer.update == len(order):
            print(f"pytorch {trainer.update}/{len(order)}  loss {loss:.4f}  {time.perf_counter() - begin:.0f} s", flush=True)
    shutil.copytree(initial, directory, dirs_exist_ok=True)
    model.save_pretrained(directory)


def normalized(text):
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def word_f1(predicted, gold):
    predicted, gold = normalized(predicted), normalized(gold)
    if not predicted or not gold:
        return float(predicted == gold)
    common = sum((collections.Counter(predicted) & collections.Counter(gold)).values())
    return 2 * common / (len(predicted) + len(gold))


def page_scores(options, pages, predictions):
    """Returns (sum of scores, how many) for each page."""
    scores = []
    for page, predicted in zip(pages, predictions):
        names = ("a", "b") if options.task == "pairs" else ("id",)
        assert all(str(page[name]) == str(predicted[name]) for name in names), (page, predicted)
        if options.task in ("classes", "pairs"):
            scores.append((float(str(page["label"]) == predicted["label"]), 1))
            continue
        each = []
        for question, found in zip(page["questions"], predicted["questions"]):
            texts = [answer["text"] for answer in question["answers"]] or [""]
            each.append(max(word_f1(found["answers"][0]["text"], text) for text in texts))
        scores.append((sum(each), len(each)))
    return numpy.array(scores)


def senseless(options, pages):
    """The score of always saying the largest class, or that there is no answer."""
    if options.task in ("classes", "pairs"):
        return collections.Counter(page["label"] for page in pages).most_common(1)[0][1] / len(pages)
    questions = [question for page in pages for question in page["questions"]]
    return sum(not question["answers"] for question in questions) / len(questions)


def distance(initial, halves):
    """Returns how far the two ended from each other, as a share of the way from where they began."""
    from safetensors.numpy import load_file

    start, ours, theirs = (load_file(folder / "model.safetensors") for folder in (initial, *halves))
    squares = [(((ours[name] - theirs[name]).astype(float) ** 2).sum(), ((ours[name] - start[name]).astype(float) ** 2).sum())
               for name in ours]
    apart, way = (sum(each) for each in zip(*squares))
    return float((apart / way) ** 0.5)


def judge(options, files):
    pages = reference.read_jsonl(options.validation)
    scores = [page_scores(options, pages, reference.read_jsonl(path)) for path in files]
    ours, theirs = (float(of[:, 0].sum() / of[:, 1].sum()) for of in scores)
    draws = recipe.resamples(options, len(pages))
    sums = [draws @ of for of in scores]
    differences = sums[0][:, 0] / sums[0][:, 1] - sums[1][:, 0] / sums[1][:, 1]
    low, high = (float(value) for value in numpy.quantile(differences, (0.025, 0.975)))
    floor = senseless(options, pages)
    bars = {"difference": low >= LARGEST_LOSS, "gain": ours >= floor + LEAST_GAIN}
    name = "F1" if options.task == "answers" else "accuracy"
    print(f"{name} on {len(pages)} {'pairs' if options.task == 'pairs' else 'pages'}: plimsoll {ours:.4f}, pytorch {theirs:.4f}, difference {ours - theirs:+.4f}, "
          f"95 % interval {low:+.4f} to {high:+.4f} (bar: from {LARGEST_LOSS}): "
          f"{'holds' if bars['difference'] else 'FAILS'}")
    print(f"{'always answering nothing' if options.task == 'answers' else 'the largest class'}: {floor:.4f}; "
          f"{ours - floor:+.4f} (bar {LEAST_GAIN:+}): {'holds' if bars['gain'] else 'FAILS'}")
    if options.every_pair:
        of_pages = interval_of_pages(options, pages, scores[0][:, 0] - scores[1][:, 0])
        print(f"where pages are drawn, not pairs, the interval is {of_pages[0]:+.4f} to {of_pages[1]:+.4f}")
    return {"task": options.task, "plimsoll": ours, "pytorch": theirs, "interval": [low, high], "senseless": floor,
            "pages": len(pages), "dropout": options.dropout, "bars": bars, "versions": reference.versions()}


def company(page):
    words = " ".join(word for word, label in zip(page["words"], page["labels"]) if "COMPANY" in str(label))
    return re.sub(r"[^A-Z0-9]", "", words.upper())


def every_pair(options, path):
    """Writes the pairs of --every-pair."""
    vendors = {str(page["id"]): company(page) for page in reference.read_jsonl(options.pages[1])}
    known = reference.read_jsonl(options.validation)
    for pair in known:
        if (vendors[str(pair["a"])] == vendors[str(pair["b"])]) != bool(pair["label"]):
            raise SystemExit(f"the companies of pages {pair['a']} and {pair['b']} say otherwise than their pair's label")
    same, other = [], []
    for a, b in itertools.combinations(vendors, 2):
        (same if vendors[a] == vendors[b] else other).append((a, b))
    ratio = sum(not pair["label"] for pair in known) / sum(bool(pair["label"]) for pair in known)
    chosen = numpy.random.default_rng(options.seed).permutation(len(other))[:int(len(same) * ratio)]
    pairs = [(pair, 1) for pair in same] + [(other[i], 0) for i in chosen]
    path.write_text("".join(json.dumps({"a": a, "b": b, "label": label}) + "\n" for (a, b), label in pairs),
                    encoding="utf-8")


def interval_of_pages(options, pairs, differences):
    """The 95 % interval of the mean difference where pages are drawn, and a pair counts as often as both its pages."""
    names = sorted({str(pair[side]) for pair in pairs for side in "ab"})
    number = {name: i for i, name in enumerate(names)}
    a, b = (numpy.array([number[str(pair[side])] for pair in pairs]) for side in "ab")
    draws = recipe.resamples(options, len(names))
    weights = (draws[:, a] * draws[:, b]).astype(float)
    return [float(value) for value in numpy.quantile(weights @ differences / weights.sum(axis=1), (0.025, 0.975))]


def of_pairs(options, split):
    """Pairs read a page as one window, and name the pages of another file."""
    return ["--pages", options.pages[split], "--truncate"] if options.pages else []


def main():
    data = reference.SHARED / "data" / "sroie"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    recipe.add_options(parser, REPOSITORY / "build" / "compare_tasks")
    parser.add_argument("--train", type=Path)
    parser.add_argument("--validation", type=Path)
    parser.add_argument("--epochs", type=int)
    parser.set_defaults(learning_rate=None)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--every-pair", action="store_true")
    options = parser.parse_args()
    kind = {"classes": "classes", "answers": "questions", "pairs": "pairs"}[options.task]
    options.pages = [data / f"{split}.jsonl" for split in ("train", "validation")] if kind == "pairs" else []
    options.train = options.train or data / f"train-{kind}.jsonl"
    options.validation = options.validation or data / f"validation-{kind}.jsonl"
    options.epochs = options.epochs or TASKS[options.task][2]
    options.learning_rate = options.learning_rate or TASKS[options.task][3]
    work = options.work / options.task
    initial, halves = work / "initial", (work / "plimsoll", work / "pytorch")
    files = [half.with_suffix(".every.jsonl" if options.every_pair else ".jsonl") for half in halves]
    if not (options.reuse and initial.exists()):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        labels = sorted({str(page["label"]) for page in reference.read_jsonl(options.train)}) if kind != "questions" else []
        single = ["--problem-type", "single_label_classification"] if kind == "classes" else []
        recipe.run([options.plimsoll, "init", "--model", options.model, "--task", TASKS[options.task][0],
                    *(["--labels", ",".join(labels), *single] if labels else []),
                    "--seed", options.seed, "--output-dir", initial])
        set_dropout(initial, options.dropout)
    if options.every_pair:
        every_pair(options, work / "every-pair.jsonl")
        options.validation = work / "every-pair.jsonl"
    for half, file in zip(halves, files):
        if options.reuse and file.exists():
            continue
        if options.reuse and (half / "model.safetensors").exists():
            pass
        elif half.name == "plimsoll":
            recipe.train_plimsoll(options, initial, half, *of_pairs(options, 0))
        else:
            order = sorted(reference.read_jsonl(halves[0] / "order.jsonl"), key=lambda line: line["update"])
            pytorch_half(options, initial, order, half)
        recipe.run([options.plimsoll, "predict", "--model", half, "--data", options.validation, "--output", file,
                    *of_pairs(options, 1)])
    result = judge(options, files)
    result["distance"] = distance(initial, halves)
    print(f"the two models ended {result['distance']:.1e} of their way apart")
    reference.write_json(result, REPOSITORY / "bench" / "out" / f"compare_tasks_{options.task}.json")
    return 0 if all(result["bars"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
