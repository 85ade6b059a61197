"""Models and batches of every family of `transformers` that Plimsoll has, with random weights.

Used by check_families.py and make_golden.py; not a program itself.
"""

import torch
import transformers

import reference

SHAPES = {
    "golden": dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96, vocab_size=120,
                   max_position_embeddings=40),
    "small": dict(hidden_size=192, num_hidden_layers=6, num_attention_heads=6, intermediate_size=768, vocab_size=5000,
                  max_position_embeddings=514),
    "base": dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
                 vocab_size=30522, max_position_embeddings=514),
}
# Config, beginning of the class names, values beside the shape.
FAMILIES = {
    "bert": ("BertConfig", "Bert", dict(type_vocab_size=2)),
    "roberta": ("RobertaConfig", "Roberta", dict(type_vocab_size=1)),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRoberta", dict(type_vocab_size=2)),
}


def make_model(family, shape, labels, seed):
    """A model that labels words, without dropout, no parameter exactly 0 or 1."""
    config_class, name, more = FAMILIES[family]
    names = reference.label_names(labels)
    config = getattr(transformers, config_class)(
        **SHAPES[shape], **more, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(names)), label2id={label: i for i, label in enumerate(names)})
    model = getattr(transformers, f"{name}ForTokenClassification")(config)
    reference.randomise(model, seed)
    return model.eval()


def make_batch(config, lengths, length, seed):
    """Pages of so many tokens, padded to `length`; every other word's first token has a label."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low, high):
        return torch.randint(low, high, (len(lengths), length), generator=generator)

    ids, types, labels, unlabelled = (draw(5, config.vocab_size), draw(0, config.type_vocab_size),
                                      draw(0, config.num_labels), draw(0, 2) == 0)
    mask = torch.zeros(len(lengths), length, dtype=torch.long)
    for page, real in enumerate(lengths):
        mask[page, :real] = 1
    ids[mask == 0], types[mask == 0] = config.pad_token_id, 0
    labels[unlabelled | (mask == 0)] = reference.IGNORED_LABEL
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "labels": labels}
