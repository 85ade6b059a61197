#!/usr/bin/env python3
"""Makes test/data/metrics.json again: entity-level scores by seqeval, for each labelling scheme.

  tools/golden_metrics.py

IOB1, IOB2 and BIOES are scored in seqeval's default mode, BILOU in strict mode with scheme=BILOU, and names without tags in
default mode with "I-" put before each name: src/data/label_scheme.h says why.
"""

import argparse
import json
import random
import warnings
from pathlib import Path

SEED = 2024
TYPES = ["DATE", "TOTAL", "ADDRESS-LINE", "X"]


def random_labels(length, types, tags, generator):
    """Returns sequences in which every tag follows every other: I- without B-, changes of type, E- and S- prefixes."""
    labels = []
    while len(labels) < length:
        kind = generator.random()
        if kind < 0.35:
            labels.extend(["O"] * generator.randint(1, 3))
        elif kind < 0.65:
            name = generator.choice(types)
            labels.extend([f"B-{name}"] + [f"I-{name}"] * generator.randint(0, 3))
        else:
            labels.append(f"{generator.choice(tags)}-{generator.choice(types)}")
    return labels[:length]


def entity_labels(length, types, scheme, generator):
    """Returns sequences that follow the scheme, including adjacent entities."""
    labels, before = [], None
    while len(labels) < length:
        name = generator.choice(types) if generator.random() < 0.6 else None
        words = generator.randint(1, 4)
        if name is None:
            labels.extend(["O"] * words)
        elif scheme == "plain":
            labels.extend([name] * words)
        elif scheme == "IOB1":
            labels.extend([("B-" if before == name else "I-") + name] + [f"I-{name}"] * (words - 1))
        else:
            single, last = {"BIOES": "SE", "BILOU": "UL", "IOB2": "BI"}[scheme]
            if words == 1:
                labels.append(f"{single}-{name}")
            else:
                labels.extend([f"B-{name}"] + [f"I-{name}"] * (words - 2) + [f"{last}-{name}"])
        before = name
    return labels[:length]


def disturbed(gold, other, generator):
    return [other(1)[0] if generator.random() < 0.25 else label for label in gold]


def random_cases(generator):
    """Returns labels in any order, as a model may predict them."""
    cases = []
    for index in range(24):
        types = TYPES[:1 + index % 4]
        tags = "BI" if index % 3 == 0 else "BIES"
        pages = []
        for _ in range(generator.randint(1, 5)):
            gold = random_labels(generator.randint(1, 25), types, tags, generator)
            predicted = list(gold)
            for position in range(len(gold)):
                if generator.random() < 0.25:
                    predicted[position] = random_labels(1, types, tags, generator)[0]
            pages.append([gold, predicted])
        cases.append((None, pages))
    cases.append((None, [[["O", "O"], ["O", "O"]]]))  # no entity
    cases.append((None, [[["O", "O"], ["B-X", "I-X"]]]))  # no gold entity, one predicted
    cases.append((None, [[["B-X", "I-X"], ["O", "O"]]]))  # no predicted entity
    cases.append((None, [[["I-X"], ["B-X"]], [["I-X"], ["I-X"]]]))  # an entity never spans two pages
    cases.append((None, [[["B-", "I", "B", "O", "O", "I"], ["B", "I", "O", "O", "I", "I"]]]))  # tags without types
    return cases


def scheme_cases(generator):
    """Returns gold labels that follow a scheme, and predictions that mostly do."""
    cases = []
    for scheme in ("IOB1", "IOB2", "BIOES", "BILOU", "plain"):
        for index in range(8):
            types = TYPES[:1 + index % 4]

            def labels(length):
                return entity_labels(length, types, scheme, generator)

            pages = []
            for _ in range(generator.randint(2, 5)):
                gold = labels(generator.randint(1, 30))
                other = labels
                if scheme == "BILOU":  # also tags that may not follow one another
                    def other(length):
                        return random_labels(length, types, "BILU", generator)
                pages.append([gold, disturbed(gold, other, generator)])
            # The scheme can be recognised only if its tags occur.
            if scheme in ("BIOES", "BILOU"):
                single = {"BIOES": "S", "BILOU": "U"}[scheme]
                pages.append([[f"{single}-X", f"{single}-X"], [f"{single}-X", f"{single}-X"]])
            if scheme == "plain":
                pages.append([["X", "O"], ["X", "O"]])
            cases.append((scheme, pages))
    return cases


def strict_scores(gold, predicted):
    from seqeval.metrics import v1
    from seqeval.scheme import BILOU, Entities

    entities = {name for labels in (gold, predicted) for page in Entities(labels, BILOU).entities
                for name in [entity.tag for entity in page]}
    support = sum(len(page) for page in Entities(gold, BILOU).entities)
    precision, recall, f1, _ = v1.precision_recall_fscore_support(gold, predicted, average="micro", scheme=BILOU)
    report = v1.classification_report(gold, predicted, output_dict=True, scheme=BILOU) if entities else {}
    return {"precision": precision, "recall": recall, "f1": f1, "support": support}, report, sorted(entities)


def default_scores(gold, predicted):
    from seqeval.metrics import classification_report, f1_score, precision_score, recall_score
    from seqeval.metrics.sequence_labeling import get_entities

    names = sorted({entity[0] for entity in get_entities(gold) + get_entities(predicted)})
    overall = {"precision": precision_score(gold, predicted), "recall": recall_score(gold, predicted),
               "f1": f1_score(gold, predicted), "support": len(get_entities(gold))}
    return overall, classification_report(gold, predicted, output_dict=True) if names else {}, names


def tagged(labels):
    return [[label if label == "O" else f"I-{label}" for label in page] for page in labels]


def make_metrics(path):
    import numpy

    warnings.filterwarnings("ignore")
    generator = random.Random(SEED)
    golden = []
    for scheme, pages in random_cases(generator) + scheme_cases(generator):
        gold, predicted = [page[0] for page in pages], [page[1] for page in pages]
        if scheme == "BILOU":
            overall, report, names = strict_scores(gold, predicted)
        elif scheme == "plain":
            overall, report, names = default_scores(tagged(gold), tagged(predicted))
        else:
            overall, report, names = default_scores(gold, predicted)
        per_label = {name: {"precision": report[name]["precision"], "recall": report[name]["recall"],
                            "f1": report[name]["f1-score"], "support": report[name]["support"]} for name in names}
        case = {"pages": pages, "overall": overall, "per_label": per_label}
        golden.append(case if scheme is None else {"scheme": scheme, **case})
    value = {"versions": {"seqeval": "1.2.2", "numpy": numpy.__version__}, "seed": SEED, "cases": golden}
    path.write_text(json.dumps(value, separators=(",", ":"), default=lambda number: number.item()) + "\n",
                    encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(__file__).resolve().parent.parent / "test" / "data"
    parser.add_argument("--output", type=Path, default=data / "metrics.json")
    make_metrics(parser.parse_args().output)


if __name__ == "__main__":
    main()
