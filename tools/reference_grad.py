#!/usr/bin/env python3
"""One forward and backward of a batch by transformers, dropout off: the file that `plimsoll grad` writes too.

Written: loss F32 [], logits F32 [B, T, L], and the gradient of every trained parameter under its Hugging Face name (the
relative position tables are looked up without gradient by transformers and are absent).

  tools/reference_grad.py --model DIR --batch FILE --output FILE [--float64]
"""

import argparse
from pathlib import Path

import torch

import reference


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--batch", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--float64", action="store_true", help="computed in float64, still written as float32")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = torch.float64 if options.float64 else torch.float32
    model = reference.load_model(options.model, dtype)
    result = reference.loss_and_gradients(model, reference.read_batch(options.batch, dtype))
    reference.write_tensors({name: value.float() for name, value in result.items()}, options.output)
    print(f"{options.output}: loss {float(result['loss']):.7f}, {len(result) - 2} gradients")


if __name__ == "__main__":
    main()
