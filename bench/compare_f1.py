#!/usr/bin/env python3
"""Checks the quality bar: entity F1 on SROIE's validation pages of layoutlmv3-small from scratch, by Plimsoll and by PyTorch.

Both begin from the same fresh weights (`plimsoll init`), see the same examples in the same order (Plimsoll's order.jsonl)
and follow the same recipe: 12 epochs, batch 16, 5e-4, 10 % linear warm-up, AdamW with weight decay 0.01, clipping 1.0,
dropout 0.1. Only the dropout's random numbers differ. Every word is judged by its first sub-token, by seqeval; a paired
bootstrap over pages says whether the difference is more than chance.

  bench/compare_f1.py [--work build/f1]        both halves, about an hour or two on two cores
  bench/compare_f1.py --reuse                  keep the finished halves
  bench/compare_f1.py --judge A.jsonl B.jsonl  only compare two prediction files

A prediction file has one line per page, in the data's order: {"id": ..., "labels": [one name a word]}. The bar holds
unless the whole 95 % interval of F1(plimsoll) - F1(pytorch) lies below zero.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

import numpy
import torch

import receipts
import receipts_recipe as recipe
import reference


def plimsoll_half(options, initial, directory, predictions):
    recipe.train_plimsoll(options, initial, directory)
    recipe.run([options.plimsoll, "predict", "--model", directory, "--data", options.validation, "--output",
                predictions])


def pytorch_half(options, initial, order, predictions):
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer = receipts.load_tokenizer(initial / "tokenizer.json")
    label_ids = receipts.load_label_ids(initial)
    windows = receipts.Windows(options.train, tokenizer, label_ids)
    model = reference.load_model(initial).train()
    trainer = reference.Trainer(model, options.learning_rate, len(order),
                                warmup_updates=recipe.warmup_updates(options, len(order)))
    begin = time.perf_counter()
    for line in order:
        examples = line["examples"]
        loss, norm, rate = trainer.step([windows.collate(examples[first:first + options.micro_batch])
                                         for first in range(0, len(examples), options.micro_batch)])
        if trainer.update % 10 == 0 or trainer.update == len(order):
            print(f"pytorch {trainer.update}/{len(order)}  loss {loss:.4f}  norm {norm:.3f}  rate {rate:.2e}  "
                  f"{time.perf_counter() - begin:.0f} s", flush=True)
    predict(model.eval(), receipts.Windows(options.validation, tokenizer, label_ids), label_ids, predictions)


@torch.no_grad()
def predict(model, windows, label_ids, path):
    """Writes the prediction file: each word's label by its first sub-token, in the window that owns it."""
    names = {index: name for name, index in label_ids.items()}
    with open(path, "w", encoding="utf-8") as file:
        for page, record in enumerate(windows.pages):
            words = windows.tokens(page)[1]
            labels = ["O"] * len(record["words"])
            for window, (begin, end) in enumerate(windows.windows(page)):
                best = model(**windows.collate([(page, window)])).logits[0].argmax(dim=-1).tolist()
                for token in range(begin, end):
                    first = token == 0 or words[token - 1] != words[token]
                    if first and windows.owner(page, token) == window:
                        labels[words[token]] = names[best[1 + token - begin]]
            file.write(json.dumps({"id": record["id"], "labels": labels}, ensure_ascii=False) + "\n")


def page_counts(pages, predictions):
    """Returns [page, (gold entities, predicted entities, correct entities)]"""
    from seqeval.metrics.sequence_labeling import get_entities

    assert len(pages) == len(predictions), f"{len(predictions)} predicted pages for {len(pages)}"
    counts = []
    for page, predicted in zip(pages, predictions):
        assert page["id"] == predicted["id"], (page["id"], predicted["id"])
        assert len(page["labels"]) == len(predicted["labels"]), page["id"]
        gold, found = set(get_entities(page["labels"])), set(get_entities(predicted["labels"]))
        counts.append((len(gold), len(found), len(gold & found)))
    return numpy.array(counts)


def f1(counts):
    """Returns the micro F1 of summed counts [..., 3]."""
    total = counts[..., 0] + counts[..., 1]
    return numpy.where(total > 0, 2 * counts[..., 2] / numpy.maximum(total, 1), 0.0)


def judge(options, ours, theirs):
    from seqeval.metrics import f1_score

    pages = reference.read_jsonl(options.validation)
    files = [reference.read_jsonl(path) for path in (ours, theirs)]
    counts = [page_counts(pages, predictions) for predictions in files]
    scores = [float(f1(item.sum(axis=0))) for item in counts]
    for score, predictions in zip(scores, files):  # the counts above are seqeval's own
        gold = [page["labels"] for page in pages]
        assert abs(score - f1_score(gold, [page["labels"] for page in predictions])) < 1e-12
    draws = recipe.resamples(options, len(pages))  # [resample, page]
    differences = f1(draws @ counts[0]) - f1(draws @ counts[1])
    low, high = numpy.quantile(differences, (0.025, 0.975))
    not_lower = float((differences >= 0).mean())
    result = {"plimsoll_f1": scores[0], "pytorch_f1": scores[1], "difference": scores[0] - scores[1],
              "interval": [float(low), float(high)], "p_not_lower": not_lower, "pages": len(pages),
              "resamples": recipe.RESAMPLES, "holds": bool(high >= 0), "versions": reference.versions()}
    print(f"entity F1 on {len(pages)} pages: plimsoll {scores[0]:.4f}, pytorch {scores[1]:.4f}, "
          f"difference {scores[0] - scores[1]:+.4f}")
    print(f"paired bootstrap over pages ({recipe.RESAMPLES:,} resamples): 95 % interval {low:+.4f} to {high:+.4f}, "
          f"p (plimsoll is not lower) {not_lower:.3f}")
    print("bar: no lower by more than chance:", "holds" if result["holds"] else "FAILS")
    return result


def main():
    data = reference.SHARED / "data" / "sroie"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe.add_options(parser, REPOSITORY / "build" / "f1")
    parser.add_argument("--train", type=Path, default=data / "train.jsonl")
    parser.add_argument("--validation", type=Path, default=data / "validation.jsonl")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--json", type=Path, default=REPOSITORY / "bench" / "out" / "compare_f1.json")
    parser.add_argument("--judge", type=Path, nargs=2, metavar=("PLIMSOLL", "PYTORCH"))
    options = parser.parse_args()
    ours, theirs = options.judge or (options.work / "plimsoll.jsonl", options.work / "pytorch.jsonl")
    if not options.judge:
        initial, directory = options.work / "initial", options.work / "plimsoll"
        if not (options.reuse and ours.exists()):
            shutil.rmtree(options.work, ignore_errors=True)
            options.work.mkdir(parents=True)
            recipe.run([options.plimsoll, "init", "--model", options.model, "--labels",
                        ",".join(reference.SROIE_LABELS),
                        "--seed", options.seed, "--output-dir", initial])
            plimsoll_half(options, initial, directory, ours)
        if not (options.reuse and theirs.exists()):
            order = sorted(reference.read_jsonl(directory / "order.jsonl"), key=lambda line: line["update"])
            pytorch_half(options, initial, order, theirs)
    result = judge(options, ours, theirs)
    reference.write_json(result, options.json)
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
