"""The heads of Plimsoll's tasks for pairs of pages in PyTorch, over an encoder of `transformers`: how a model that
Plimsoll saved is used there, and what check_families.py compares its gradients with.

    encoder = transformers.AutoModel.from_pretrained("run")                 # the saved directory
    head = pair_heads.PairClassification(encoder).load_head("run")
    logits = head(input_ids=..., bbox=..., pixel_values=...).logits         # pages 2k and 2k + 1 are a pair
"""

import json
from pathlib import Path

import safetensors.torch
import torch
import transformers
from torch import nn
from torch.nn import functional

NONE = -100
DECODERS = ("llama", "mistral", "qwen2", "qwen3", "gpt2")  # whose pages stand in their last row, which alone sees all of them


class PairHead(nn.Module):
    """`encoder`: of a family of transformers; its first row of each page is what the head sees, a decoder's last one."""

    architecture = None

    def __init__(self, encoder):
        super().__init__()
        self.config, self.prefix = encoder.config, encoder.base_model_prefix
        self.name = type(encoder).__name__.removesuffix("Model")
        setattr(self, self.prefix, encoder)
        self.dropout = nn.Dropout(getattr(self.config, "hidden_dropout_prob", 0))

    def page_rows(self, **inputs):
        states = getattr(self, self.prefix)(**inputs).last_hidden_state
        if self.config.model_type not in DECODERS:
            return states[:, 0]
        return states[torch.arange(len(states)), inputs["attention_mask"].sum(1) - 1]

    def load_head(self, directory):
        """Takes the head's parameters of a saved directory, which transformers passes over."""
        with safetensors.safe_open(Path(directory) / "model.safetensors", "pt") as file:
            own = [name for name in self.state_dict() if not name.startswith(self.prefix)]
            self.load_state_dict({name: file.get_tensor(name) for name in own}, strict=False)
        return self.eval()

    def save_pretrained(self, directory):
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config = {**self.config.to_dict(), "architectures": [self.name + "For" + self.architecture]}
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        safetensors.torch.save_file({name: value.contiguous() for name, value in self.state_dict().items()},
                                    directory / "model.safetensors", metadata={"format": "pt"})

    @staticmethod
    def output(loss, logits):
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)

    @staticmethod
    def in_even_rows(x):
        """[P, C] as [2P, C] with zeros in odd rows, as Plimsoll has them."""
        return torch.stack([x, torch.zeros_like(x)], dim=1).flatten(0, 1)


class PairClassification(PairHead):
    """A class of the pair: a linear map of [a, b, |a - b|, a b]. `labels` [2P]: NONE in odd rows."""

    architecture = "PairClassification"

    def __init__(self, encoder):
        super().__init__(encoder)
        self.classifier = nn.Linear(4 * self.config.hidden_size, self.config.num_labels)

    def forward(self, labels=None, **inputs):
        rows = self.page_rows(**inputs)
        a, b = rows[::2], rows[1::2]
        joined = self.in_even_rows(torch.cat([a, b, (a - b).abs(), a * b], dim=-1))
        logits = self.classifier(self.dropout(joined))
        return self.output(None if labels is None else functional.cross_entropy(logits, labels), logits)


class PairRanking(PairHead):
    """Scores of pages; the first of a pair is the better one. `labels` [2P]: 0 in even rows, NONE in odd ones."""

    architecture = "PairRanking"

    def __init__(self, encoder):
        super().__init__(encoder)
        self.score = nn.Linear(self.config.hidden_size, 1, bias=False)

    def forward(self, labels=None, **inputs):
        scores = self.score(self.dropout(self.page_rows(**inputs))).squeeze(-1)
        logits = self.in_even_rows(torch.stack([scores[::2], scores[1::2]], dim=-1))
        loss = None if labels is None else -functional.logsigmoid(scores[::2] - scores[1::2]).mean()
        return self.output(loss, logits)


class PairSimilarity(PairHead):
    """Embeddings of pages. `labels` [2P]: the pages' groups; pages of one group are never each other's negatives."""

    architecture = "PairSimilarity"
    temperature = 0.05

    def forward(self, labels=None, **inputs):
        rows = self.page_rows(**inputs)
        loss = None if labels is None else self.contrast(functional.normalize(rows, dim=-1), labels)
        return self.output(loss, rows)

    def contrast(self, units, groups):
        """The sum of both directions' losses, halved, over the number of labelled pages."""
        scores = units[::2] @ units[1::2].T / self.temperature
        of_a, of_b = groups[::2], groups[1::2]
        own = torch.eye(len(of_a), dtype=torch.bool)
        counts = (of_a == of_b) & (of_a != NONE)

        def one_way(scores, mine, others):
            meets = own | ((mine[:, None] != others[None]) & (others != NONE)[None])
            return functional.cross_entropy(scores.masked_fill(~meets, -torch.inf), torch.arange(len(mine)),
                                            reduction="none")

        losses = one_way(scores, of_a, of_b) + one_way(scores.T, of_b, of_a)
        return losses[counts].sum() / 2 / (groups != NONE).sum()


HEADS = {head.architecture: head for head in (PairClassification, PairRanking, PairSimilarity)}
