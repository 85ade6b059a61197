"""Models and batches of every family of `transformers` that Plimsoll has, with random weights.

Used by check_families.py and make_golden.py; not a program itself.
"""

import torch
import transformers

import pair_heads
import reference
import relation_head

SHAPES = {
    "head": dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, vocab_size=40,
                 max_position_embeddings=20),
    "golden": dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96, vocab_size=120,
                   max_position_embeddings=40),
    "small": dict(hidden_size=192, num_hidden_layers=6, num_attention_heads=6, intermediate_size=768, vocab_size=5000,
                  max_position_embeddings=514),
    "base": dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
                 vocab_size=30522, max_position_embeddings=514),
}
# Config, beginning of the class names, values beside the shape.
FAMILIES = {
    "layoutlmv3": ("LayoutLMv3Config", "LayoutLMv3", dict(type_vocab_size=1)),
    "bert": ("BertConfig", "Bert", dict(type_vocab_size=2)),
    "layoutlm": ("LayoutLMConfig", "LayoutLM", dict(type_vocab_size=2)),
    "lilt": ("LiltConfig", "Lilt", dict(type_vocab_size=1, pad_token_id=1)),
    "roberta": ("RobertaConfig", "Roberta", dict(type_vocab_size=1)),
    "llama": ("LlamaConfig", "Llama", dict(num_key_value_heads=1, pad_token_id=0)),
    "mistral": ("MistralConfig", "Mistral", dict(num_key_value_heads=1, pad_token_id=0)),
    "qwen2": ("Qwen2Config", "Qwen2", dict(num_key_value_heads=1, pad_token_id=0)),
    "qwen3": ("Qwen3Config", "Qwen3", dict(num_key_value_heads=1, head_dim=16, pad_token_id=0)),
    "gpt2": ("GPT2Config", "GPT2", dict(pad_token_id=0, tie_word_embeddings=False)),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRoberta", dict(type_vocab_size=2)),
}
# End of the class names, values of the config.
TASKS = {
    "token-classification": ("ForTokenClassification", {}),
    "single-label": ("ForSequenceClassification", dict(problem_type="single_label_classification")),
    "multi-label": ("ForSequenceClassification", dict(problem_type="multi_label_classification")),
    "regression": ("ForSequenceClassification", dict(problem_type="regression")),
    "question-answering": ("ForQuestionAnswering", {}),
    "relation-extraction": ("ForRelationExtraction", dict(max_entities=12)),  # relation_head.py
    "pair-classification": ("ForPairClassification", {}),  # pair_heads.py
    "pair-ranking": ("ForPairRanking", {}),
    "pair-similarity": ("ForPairSimilarity", {}),
    "causal-lm": ("ForCausalLM", {}),
    "causal-lm-tied": ("ForCausalLM", dict(tie_word_embeddings=True)),
}


def has_task(family, task):
    """Of decoders there are no heads for links, and of most none for questions; they alone have one for the next token."""
    if task.startswith("causal-lm"):
        return family in pair_heads.DECODERS
    if (family, task) == ("gpt2", "question-answering"):
        return True
    return family not in pair_heads.DECODERS or task not in ("question-answering", "relation-extraction")


def shape_of(family, shape):
    """Values of the config: LayoutLMv3's also say how large its images and parts of boxes are. LiLT's six parts of boxes
    have to fill the hidden size."""
    if family == "lilt" and SHAPES[shape]["hidden_size"] % 6:
        return {**SHAPES[shape], "hidden_size": 24}
    return reference.SHAPES[shape] if family == "layoutlmv3" else SHAPES[shape]


def make_model(family, shape, labels, seed, task="token-classification", dropout=0.0):
    """A model for that task, no parameter exactly 0 or 1."""
    config_class, name, more = FAMILIES[family]
    architecture, values = TASKS[task]
    names = reference.label_names({"regression": 1, "question-answering": 2, "pair-ranking": 1, "pair-similarity": 1}.get(task, labels))
    config = getattr(transformers, config_class)(
        **shape_of(family, shape), **{**more, **values}, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        id2label=dict(enumerate(names)), label2id={label: i for i, label in enumerate(names)})
    if task == "relation-extraction":
        model = relation_head.RelationExtraction(name, config)
    elif task.startswith("pair-"):
        model = make_pair_model(name, architecture, config)
    else:
        model = class_of(name + architecture)(config)
    reference.randomise(model, seed)
    return model.eval()


def class_of(name):
    """The class of that name, or by the name that it has where it is older than the rule."""
    return getattr(transformers, {"GPT2ForCausalLM": "GPT2LMHeadModel"}.get(name, name))


def make_pair_model(name, architecture, config):
    base = getattr(transformers, name + "Model")
    takes_no_choice = name in ("LayoutLMv3", "LayoutLM") or config.model_type in pair_heads.DECODERS
    encoder = base(config) if takes_no_choice else base(config, add_pooling_layer=False)
    return pair_heads.HEADS[architecture.removeprefix("For")](encoder)


def load_model(directory):
    """The model as transformers builds it, with the attention that it chooses itself."""
    config = transformers.AutoConfig.from_pretrained(directory)
    return getattr(transformers, config.architectures[0]).from_pretrained(directory)


def make_targets(config, task, mask, generator):
    """What the model's loss takes of a task: labels of every other token, or of the pages."""
    pages, length = mask.shape
    if task == "single-label":
        return {"labels": torch.randint(0, config.num_labels, (pages,), generator=generator)}
    if task == "multi-label":
        return {"labels": torch.randint(0, 2, (pages, config.num_labels), generator=generator).float()}
    if task == "question-answering":
        spans = torch.stack([torch.randint(0, int(real), (2,), generator=generator).sort().values
                             for real in mask.sum(1)])
        return {"start_positions": spans[:, 0].clone(), "end_positions": spans[:, 1].clone()}
    if task == "relation-extraction":
        return make_links(config, mask, generator)
    if task.startswith("pair-"):
        return make_pairs(config, task, pages, generator)
    if task == "regression":
        return {"labels": torch.randn(pages, generator=generator)}
    classes = config.vocab_size if task.startswith("causal-lm") else config.num_labels
    labels = torch.randint(0, classes, (pages, length), generator=generator)
    unlabelled = torch.randint(0, 2, (pages, length), generator=generator) == 0
    labels[unlabelled | (mask == 0)] = reference.IGNORED_LABEL
    return {"labels": labels}


def make_pairs(config, task, pages, generator):
    """Targets of pairs: classes or 0 in even rows; groups of pages, the first two pairs of one."""
    if task == "pair-similarity":
        return {"labels": (torch.arange(pages) // 2).clamp(min=1)}
    labels = torch.full((pages,), pair_heads.NONE)
    classes = 1 if task == "pair-ranking" else config.num_labels
    labels[::2] = torch.randint(0, classes, ((pages + 1) // 2,), generator=generator)
    return {"labels": labels}


def make_links(config, mask, generator):
    """Entities at some tokens of each page, of which two may begin at the same one, and links between some of them."""
    pages, most = mask.shape[0], config.max_entities
    none = relation_head.NONE
    tokens, labels = (torch.full((pages, most), none) for _ in range(2))
    links = torch.full((pages, most, most), none)
    for page, real in enumerate(mask.sum(1)):
        count = int(torch.randint(3, 12, (), generator=generator))
        tokens[page, :count] = torch.randint(1, int(real), (count,), generator=generator)
        labels[page, :count] = torch.randint(0, config.num_labels, (count,), generator=generator)
        links[page, :count, :count] = (torch.rand(count, count, generator=generator) < 0.2).long()
        links[page, :count, :count].fill_diagonal_(none)
    return {"entity_tokens": tokens, "entity_labels": labels, "link_labels": links}


def make_boxes(config, shape, generator):
    corners = torch.randint(0, config.max_2d_position_embeddings - 24, (*shape, 2, 2), generator=generator)
    return torch.cat([corners.amin(2), corners.amax(2)], dim=-1)


def exact(batch):
    """The batch for a model in float64."""
    return {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}


def make_batch(config, lengths, length, seed, task="token-classification"):
    """Pages of so many tokens, padded to `length`, with targets of that task."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), length)
    ids = torch.randint(5, config.vocab_size, shape, generator=generator)
    types = torch.randint(0, getattr(config, "type_vocab_size", 1), shape, generator=generator)
    mask = torch.zeros(shape, dtype=torch.long)
    for page, real in enumerate(lengths):
        mask[page, :real] = 1
    ids[mask == 0], types[mask == 0] = config.pad_token_id or 0, 0
    batch = {"input_ids": ids, "attention_mask": mask}
    if hasattr(config, "type_vocab_size"):
        batch["token_type_ids"] = types
    if hasattr(config, "max_2d_position_embeddings"):
        batch["bbox"] = make_boxes(config, shape, generator) * mask[..., None]
    if hasattr(config, "patch_size"):
        side = config.input_size
        batch["pixel_values"] = torch.randn(len(lengths), config.num_channels, side, side, generator=generator)
    return {**batch, **make_targets(config, task, mask, generator)}
