#!/usr/bin/env python3
"""Runs one forward and backward of a batch with transformers, without dropout, and writes the same file as `plimsoll grad`.

Written: loss F32 [], logits F32 [B, T, L], and the gradient of every trained parameter under its Hugging Face name (the
relative position tables are looked up without gradient by transformers and are absent).

  tools/reference_grad.py --model DIR --batch FILE --output FILE [--precision float64|bfloat16|autocast] [--device cuda]
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
    parser.add_argument("--precision", default="float32", choices=("float32", "float64", "bfloat16", "autocast"),
                        help="of model and batch; autocast: float32 under autocast to bfloat16. Written as float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="cuda: without TF32")
    options = parser.parse_args()
    reference.exact_products()
    torch.set_num_threads(options.threads)
    dtype = torch.float32 if options.precision == "autocast" else getattr(torch, options.precision)
    model = reference.load_model(options.model, dtype).to(options.device)
    with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.precision == "autocast"):
        result = reference.loss_and_gradients(model, reference.read_batch(options.batch, dtype, options.device))
    reference.write_tensors({name: value.float().cpu() for name, value in result.items()}, options.output)
    print(f"{options.output}: loss {float(result['loss']):.7f}, {len(result) - 2} gradients")


if __name__ == "__main__":
    main()
