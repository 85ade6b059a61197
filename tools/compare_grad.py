#!/usr/bin/env python3
"""Compares two files of loss, logits and gradients (`plimsoll grad`, tools/reference_grad.py) and judges the bars.

  tools/compare_grad.py CANDIDATE REFERENCE

Bars: logits differ by at most 1e-5; each parameter's gradient has a relative L2 error of at most 2e-5; one whose true
gradient is zero because softmax does not see it is below 1e-8 of the whole gradient's norm if it is a key bias, and below
float32's rounding of a number, 6e-8, if it adds the same to every row's logit (answers); the loss is within 1e-6 relative.
Exit 1 if a bar fails or the names differ.
"""

import argparse
import sys

import safetensors.torch

LOGITS_BAR = 1e-5
GRADIENT_BAR = 2e-5
KEY_BIAS_BAR = 1e-8
ZERO_BAR = 2.0 ** -24
LOSS_BAR = 1e-6
KEY_BIAS = "attention.self.key.bias"
ROUNDING = 1e-12  # of the whole gradient, in float64: what is below is zero


def compare(candidate, expected):
    """Returns rows of (what, measured, bar, where), and the gradients sorted by descending error."""
    candidate = {name: value.double() for name, value in candidate.items()}
    expected = {name: value.double() for name, value in expected.items()}
    missing, extra = sorted(expected.keys() - candidate.keys()), sorted(candidate.keys() - expected.keys())
    rows = [("names missing or extra", len(missing) + len(extra), 0, ", ".join((missing + extra)[:3]))]
    common = [name for name in expected if name in candidate]
    wrong = [name for name in common if candidate[name].shape != expected[name].shape]
    rows.append(("shapes that differ", len(wrong), 0, ", ".join(wrong[:3])))
    common = [name for name in common if name not in wrong]
    if "loss" in common:
        rows.append(("loss, relative", float((candidate["loss"] - expected["loss"]).abs() / expected["loss"].abs()),
                     LOSS_BAR, f"{float(candidate['loss']):.7f} against {float(expected['loss']):.7f}"))
    if "logits" in common:
        rows.append(("logits, largest difference", float((candidate["logits"] - expected["logits"]).abs().max()),
                     LOGITS_BAR, f"logits up to {float(expected['logits'].abs().max()):.3f}"))
    gradients = [name for name in common if name not in ("loss", "logits")]
    whole = sum(float(expected[name].square().sum()) for name in gradients) ** 0.5
    errors, keys, zeros = [], [], []
    for name in gradients:
        norm = float(expected[name].norm())
        if name.endswith(KEY_BIAS):
            keys.append((float(candidate[name].norm()) / whole, name))
        elif norm < ROUNDING * whole:
            zeros.append((float(candidate[name].norm()) / whole, name))
        else:
            error = float((candidate[name] - expected[name]).norm())
            errors.append((error / norm if norm > 0 else (0.0 if error == 0 else float("inf")), name))
    errors.sort(reverse=True)
    keys.sort(reverse=True)
    zeros.sort(reverse=True)
    for what, values, bar in (("gradient, relative L2", errors, GRADIENT_BAR),
                              ("key bias, of whole gradient", keys, KEY_BIAS_BAR),
                              ("zero gradient, of the whole", zeros, ZERO_BAR)):
        if values:
            rows.append((f"{what}, worst of {len(values)}", values[0][0], bar, values[0][1]))
    return rows, errors


def print_rows(rows, file=sys.stdout):
    """Prints the table; returns True if every bar holds (a NaN fails)."""
    good = True
    for what, measured, bar, where in rows:
        passed = measured <= bar
        good = good and passed
        print(f"  {what:<40} {measured:>10.3g}  bar {bar:<7.3g} {'ok  ' if passed else 'FAIL'}  {where}", file=file)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("candidate")
    parser.add_argument("reference")
    parser.add_argument("--worst", type=int, default=5, help="how many of the worst gradients to list")
    options = parser.parse_args()
    rows, errors = compare(safetensors.torch.load_file(options.candidate),
                           safetensors.torch.load_file(options.reference))
    good = print_rows(rows)
    for error, name in errors[:options.worst]:
        print(f"    {error:.3g}  {name}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
