"""Links between entities in PyTorch: LayoutXLM's decoder (Xu et al. 2021; `REDecoder` of microsoft/unilm) over an encoder of
`transformers`, which has no such model. check_families.py compares Plimsoll's gradients with its.

Written from the paper's description: every two entities are a pair; logits are those of head^T W_c tail + L_c [head; tail]
+ b_c. Differences from unilm's: the loss is the mean over all pairs of the batch, not of each page's mean, and the
gradient of the labels' embedding is not divided by how often a label occurs (scale_grad_by_freq).
"""

import json
from pathlib import Path

import safetensors.torch
import torch
import transformers
from torch import nn

NONE = -100


class Decoder(nn.Module):
    def __init__(self, hidden_size, labels, dropout):
        super().__init__()
        half = hidden_size // 2

        def network():
            return nn.Sequential(nn.Linear(2 * hidden_size, hidden_size), nn.ReLU(), nn.Dropout(dropout),
                                 nn.Linear(hidden_size, half), nn.ReLU(), nn.Dropout(dropout))

        self.entity_emb = nn.Embedding(labels, hidden_size)
        self.ffnn_head, self.ffnn_tail = network(), network()
        self.rel_classifier = nn.ModuleDict({"bilinear": nn.Bilinear(half, half, 2, bias=False),
                                             "linear": nn.Linear(2 * half, 2)})

    def forward(self, states, labels):
        """states [B, E, D], labels [B, E]; returns logits [B, E * E, 2], pair (from, to) at from * E + to."""
        entities = torch.cat([states, self.entity_emb(labels)], dim=-1)
        pages, count, _ = entities.shape
        pair = (pages, count, count, -1)
        heads = self.ffnn_head(entities)[:, :, None].expand(*pair).flatten(1, 2)
        tails = self.ffnn_tail(entities)[:, None].expand(*pair).flatten(1, 2)
        return (self.rel_classifier["bilinear"](heads.contiguous(), tails.contiguous())
                + self.rel_classifier["linear"](torch.cat([heads, tails], dim=-1)))


class RelationExtraction(nn.Module):
    """`name`: how the family's classes begin, "LayoutLMv3"."""

    def __init__(self, name, config):
        super().__init__()
        self.config, self.name = config, name
        base = getattr(transformers, name + "Model")
        with_pooler = name in ("LayoutLMv3", "LayoutLM")  # they take no choice
        self.prefix = base.base_model_prefix
        setattr(self, self.prefix, base(config) if with_pooler else base(config, add_pooling_layer=False))
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.extractor = Decoder(config.hidden_size, config.num_labels, config.hidden_dropout_prob)

    def forward(self, entity_tokens, entity_labels, link_labels=None, **inputs):
        states = getattr(self, self.prefix)(**inputs).last_hidden_state
        tokens = entity_tokens.clamp(min=0)  # none: the first token, with label 0; its pairs do not count
        at = tokens[..., None].expand(-1, -1, states.shape[-1])
        logits = self.extractor(self.dropout(states.gather(1, at)), entity_labels.clamp(min=0))
        loss = None
        if link_labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), link_labels.flatten(), ignore_index=NONE)
        return transformers.modeling_outputs.TokenClassifierOutput(loss=loss, logits=logits)

    def save_pretrained(self, directory):
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config = {**self.config.to_dict(), "architectures": [self.name + "ForRelationExtraction"]}
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        safetensors.torch.save_file({name: value.contiguous() for name, value in self.state_dict().items()},
                                    directory / "model.safetensors", metadata={"format": "pt"})
