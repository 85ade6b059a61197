#!/usr/bin/env python3
"""Makes test/data/formats/quantized.safetensors: matrices that bitsandbytes quantized, in the tensors that
`transformers` saves for them, and beside each NAME as NAME.decoded what bitsandbytes makes of it.

    .venv/bin/python tools/make_quantized_golden.py test/data/formats

Element i of a matrix was counted(i) below, which test/formats/quantized_source_test.cpp computes too.
"""

import sys
from pathlib import Path

import bitsandbytes.functional as bnb
import numpy
import torch
from safetensors.torch import save_file


def counted(rows, columns):
    i = numpy.arange(rows * columns, dtype=numpy.uint64)
    share = (i * numpy.uint64(2654435761) % numpy.uint64(2**32)).astype(numpy.float64) / 2**32 - 0.5
    size = 1 + (i // numpy.uint64(64) % numpy.uint64(7)).astype(numpy.float64)
    return torch.from_numpy((share * size * 0.01).astype(numpy.float32)).reshape(rows, columns)


def in_4_bits(name, matrix, **options):
    codes, state = bnb.quantize_4bit(matrix, **options)
    tensors = {f"{name}.{key}": value for key, value in state.as_dict(packed=True).items()}
    state.dtype = torch.float32
    return {name: codes, f"{name}.decoded": bnb.dequantize_4bit(codes, state), **tensors}


def in_8_bits(module, matrix):
    codes, scales, _ = bnb.int8_vectorwise_quant(matrix.to(torch.float16))
    return {f"{module}.weight": codes, f"{module}.SCB": scales, f"{module}.weight_format": torch.tensor(0, dtype=torch.uint8),
            f"{module}.weight.decoded": bnb.int8_vectorwise_dequant(codes, scales)}


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "test/data/formats")
    small = counted(6, 128)
    tensors = {"bias": torch.arange(3, dtype=torch.float32),
               **in_4_bits("plain.weight", small, quant_type="nf4"),
               # Two blocks of factors.
               **in_4_bits("double.weight", counted(130, 128), quant_type="nf4", compress_statistics=True),
               # Blocks that rows share, and a row that ends within a byte.
               **in_4_bits("odd.weight", counted(5, 37), quant_type="nf4"),
               **in_4_bits("wide.weight", small, quant_type="nf4", blocksize=128),
               **in_4_bits("fp4.weight", small, quant_type="fp4"),
               **in_4_bits("stored.weight", small.to(torch.bfloat16), quant_type="nf4", quant_storage=torch.bfloat16),
               **in_8_bits("eight", small)}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out / "quantized.safetensors",
              metadata={"format": "pt"})


if __name__ == "__main__":
    main()
