#!/usr/bin/env python3
"""Makes a LayoutLMv3ForTokenClassification directory with random weights, none of them exactly 0 or 1.

  tools/make_model.py --shape base --labels 7 --output build/parity/base7
"""

import argparse
from pathlib import Path

import reference


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=reference.SHAPES, default="tiny")
    parser.add_argument("--labels", type=int, default=7, help="below 10: linear head; from 10: MLP head")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=("safetensors", "bin"), default="safetensors")
    parser.add_argument("--no-prefix", action="store_true", help="names without 'layoutlmv3.'")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    model = reference.make_model(options.shape, options.labels, options.seed, options.dropout)
    reference.save_model(model, options.output, options.format, prefix=not options.no_prefix)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{options.output}: {options.shape}, {options.labels} labels, {parameters:,} parameters")


if __name__ == "__main__":
    main()
