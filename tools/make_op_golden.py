#!/usr/bin/env python3
"""Makes test/data/ops.safetensors: the results of PyTorch and `transformers` for single ops, in float64 (AdamW: float32).

    python tools/make_op_golden.py [test/data]

test/backend/golden_test.cpp feeds the inputs to the reference backend and compares. Names are "<op>.<tensor>"; seed and
versions are in the file's metadata.
"""

import sys
from pathlib import Path
from unittest import mock

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.layoutlmv3 import modeling_layoutlmv3 as layoutlmv3

SEED = 20250611
DOUBLE = torch.float64


def attention(golden):
    """Two samples of 9 and 6 rows, 3 heads of 4, dropout off; packed rows, padding left out."""
    config = transformers.LayoutLMv3Config(
        hidden_size=12, num_attention_heads=3, num_hidden_layers=1, intermediate_size=8, vocab_size=8,
        rel_pos_bins=8, max_rel_pos=16, rel_2d_pos_bins=12, max_rel_2d_pos=256, input_size=32,
        attention_probs_dropout_prob=0.0)
    lengths, length = (9, 6), 9
    encoder = layoutlmv3.LayoutLMv3Encoder(config).double()
    self_attention = layoutlmv3.LayoutLMv3SelfAttention(config).double()
    tables = (encoder.rel_pos_bias.weight, encoder.rel_pos_x_bias.weight, encoder.rel_pos_y_bias.weight)
    for table in tables:
        torch.nn.init.normal_(table)
    hidden = torch.randn(2, length, 12, dtype=DOUBLE)
    positions = torch.cat([torch.arange(6), torch.arange(3)]).repeat(2, 1)  # visual positions start again at 0
    boxes = torch.randint(0, 1001, (2, length, 4))
    real = torch.tensor([[1.0] * n + [0.0] * (length - n) for n in lengths], dtype=DOUBLE)
    mask = ((1.0 - real) * torch.finfo(DOUBLE).min)[:, None, None, :]
    kept = {}
    for name in ("query", "key", "value"):
        getattr(self_attention, name).register_forward_hook(
            lambda module, inputs, output, name=name: kept.__setitem__(name, output))
    with mock.patch.object(torch, "no_grad", torch.enable_grad):  # transformers freezes the tables; we train them too
        position_bias, spatial_bias = encoder._cal_1d_pos_emb(positions), encoder._cal_2d_pos_emb(boxes)
    output, probabilities = self_attention(hidden, mask, rel_pos=position_bias, rel_2d_pos=spatial_bias)
    upstream = torch.randn_like(output) * real[:, :, None]
    gradients = torch.autograd.grad((output * upstream).sum(), [kept["query"], kept["key"], kept["value"], *tables])
    rows = real.bool()
    for name, value in zip(("q", "k", "v"), (kept["query"], kept["key"], kept["value"])):
        golden[f"attention.{name}"] = value[rows]
    for name, value in zip(("dq", "dk", "dv"), gradients[:3]):
        golden[f"attention.{name}"] = value[rows]
    for name, table, gradient in zip(("position", "x", "y"), tables, gradients[3:]):
        golden[f"attention.{name}_table"], golden[f"attention.d{name}_table"] = table, gradient
    golden["attention.output"], golden["attention.doutput"] = output[rows], upstream[rows]
    coordinates = torch.stack([positions, boxes[:, :, 0], boxes[:, :, 3]], dim=-1)
    golden["attention.relative_coordinates"] = coordinates[rows].int()
    golden["attention.sample_offsets"] = torch.tensor([0, 9, 15], dtype=torch.int32)
    assert probabilities[1, :, :6, 6:].detach().abs().sum().item() == 0.0


def spatial_embedding(golden):
    config = transformers.LayoutLMv3Config(
        hidden_size=24, coordinate_size=3, shape_size=6, vocab_size=8, max_position_embeddings=16,
        max_2d_position_embeddings=1024)
    module = layoutlmv3.LayoutLMv3TextEmbeddings(config).double()
    boxes = torch.tensor(
        [[[0, 0, 1000, 1000], [12, 40, 12, 41], [900, 800, 10, 20], [1, 1, 999, 999], [1023, 0, 0, 1023]]])
    with torch.no_grad():
        output = module.calculate_spatial_position_embeddings(boxes)
    golden["spatial_embedding.bbox"] = boxes[0].int()
    golden["spatial_embedding.output"] = output[0]
    # Only the rows that are looked up are stored: "rows" lists them; in the test the other rows are 0.
    x, y = boxes[0, :, [0, 2]], boxes[0, :, [1, 3]]
    sizes = {"h": (y[:, 1] - y[:, 0]).clip(0, 1023), "w": (x[:, 1] - x[:, 0]).clip(0, 1023)}
    for name, ids in {"x": x, "y": y, **sizes}.items():
        rows = ids.flatten().unique()
        golden[f"spatial_embedding.{name}_rows"] = rows.int()
        golden[f"spatial_embedding.{name}_values"] = getattr(module, f"{name}_position_embeddings").weight[rows]


def patches(golden):
    """A convolution with stride = kernel is patchify and a linear map."""
    pixels, weight = torch.randn(2, 3, 8, 12, dtype=DOUBLE), torch.randn(5, 3, 4, 4, dtype=DOUBLE)
    bias = torch.randn(5, dtype=DOUBLE)
    golden["patches.pixels"], golden["patches.weight"], golden["patches.bias"] = pixels, weight.flatten(1), bias
    output = torch.nn.functional.conv2d(pixels, weight, bias, stride=4)
    golden["patches.output"] = output.flatten(2).transpose(1, 2).flatten(0, 1)


def row_wise(golden):
    functional = torch.nn.functional
    x, gamma, beta = torch.randn(4, 12, dtype=DOUBLE) * 3, torch.randn(12, dtype=DOUBLE), torch.randn(12, dtype=DOUBLE)
    golden["layer_norm.x"], golden["layer_norm.gamma"], golden["layer_norm.beta"] = x, gamma, beta
    golden["layer_norm.output"] = functional.layer_norm(x, (12,), gamma, beta, 1e-5)
    golden["gelu.output"], golden["tanh.output"] = functional.gelu(x), torch.tanh(x)
    labels = torch.tensor([3, -100, 11, 0])
    golden["cross_entropy.labels"] = labels.int()
    golden["cross_entropy.loss"] = functional.cross_entropy(x, labels, reduction="sum").reshape(1) * 0.125


def adamw(golden):
    """Three float32 steps of torch.optim.AdamW with the gradient clipped as clip_grad_norm_ does."""
    parameter = torch.nn.Parameter(torch.randn(3, 8))
    golden["adamw.parameter"] = parameter.detach().clone()
    optimizer = torch.optim.AdamW([parameter], lr=2e-3, weight_decay=0.01, foreach=False, fused=False)
    for step in (1, 2, 3):
        gradient = torch.randn(3, 8)
        golden[f"adamw.gradient_{step}"] = gradient.clone()
        parameter.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_([parameter], 1.0 if step < 3 else 100.0)
        golden[f"adamw.norm_{step}"] = norm.reshape(1)
        optimizer.step()
        golden[f"adamw.parameter_{step}"] = parameter.detach().clone()
    state = optimizer.state[parameter]
    golden["adamw.m_3"], golden["adamw.v_3"] = state["exp_avg"], state["exp_avg_sq"]


def adafactor(golden):
    """Three float64 steps of transformers' Adafactor with the Trainer's choices, on a matrix, a stack of matrices and a
    vector; the third step's gradients are large, so that updates are scaled down."""
    parameters = {"matrix": torch.nn.Parameter(torch.randn(5, 7, dtype=DOUBLE)),
                  "stack": torch.nn.Parameter(torch.randn(2, 3, 4, 6, dtype=DOUBLE)),
                  "vector": torch.nn.Parameter(torch.randn(9, dtype=DOUBLE))}
    optimizer = transformers.Adafactor(
        parameters.values(), lr=2.0 ** -9, scale_parameter=False, relative_step=False, weight_decay=0.125)
    for name, parameter in parameters.items():
        golden[f"adafactor.{name}"] = parameter.detach().clone()
    for step in (1, 2, 3):
        for name, parameter in parameters.items():
            parameter.grad = torch.randn_like(parameter) * (1, 1, 20)[step - 1]
            golden[f"adafactor.{name}.gradient_{step}"] = parameter.grad.clone()
        optimizer.step()
        for name, parameter in parameters.items():
            golden[f"adafactor.{name}_{step}"] = parameter.detach().clone()
    for name, parameter in parameters.items():
        state = optimizer.state[parameter]
        for part in ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq"):
            if part in state:
                golden[f"adafactor.{name}.{part}"] = state[part]


def main():
    torch.manual_seed(SEED)
    golden = {}
    for part in (attention, spatial_embedding, patches, row_wise, adamw, adafactor):
        part(golden)
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "test/data") / "ops.safetensors"
    save_file({name: value.detach().contiguous() for name, value in golden.items()}, out,
              metadata={"made_by": f"tools/make_op_golden.py, seed {SEED}, torch {torch.__version__}, "
                                   f"transformers {transformers.__version__}"})
    print(f"{out}: {out.stat().st_size} bytes, {len(golden)} tensors")


if __name__ == "__main__":
    main()
