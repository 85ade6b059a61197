#!/usr/bin/env python3
"""Makes test/data/formats/*: weight files written by other programs, all below 10 KiB.

    python tools/make_formats_golden.py test/data/formats

The values are counted, not drawn, so that test/formats/golden_test.cpp can state them: element i of
a tensor is i (f32: i / 4 - 1; f16, bf16: i / 2 - 1; i64: i - 2). versions.json lists the versions used.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import safetensors
import torch
from safetensors.torch import save_file


def counted(count, dtype, scale=1.0, shift=0.0):
    return (torch.arange(count, dtype=torch.float64) * scale + shift).to(dtype)


class RunsCode:
    """Pickles as a call of os.system, which would be harmless if it ever ran."""

    def __reduce__(self):
        return os.system, ("true",)


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "test/data/formats")
    out.mkdir(parents=True, exist_ok=True)

    save_file(
        {
            "f64": counted(3, torch.float64),
            "f32": counted(6, torch.float32, 0.25, -1).reshape(2, 3),
            "f16": counted(8, torch.float16, 0.5, -1).reshape(2, 2, 2),
            "bf16": counted(5, torch.bfloat16, 0.5, -1),
            "i64": counted(4, torch.int64, 1, -2),
            "i32": counted(2, torch.int32),
            "u8": counted(7, torch.uint8),
            "bool": torch.tensor([True, False, True]),
            "scalar": torch.tensor(7.0),
            "empty": torch.zeros(0, 3),
            "rank5": counted(4, torch.float32).reshape(1, 2, 1, 2, 1),
        },
        out / "hugging_face.safetensors",
        metadata={"format": "pt", "note": 'a "quoted" Unicode é'},
    )

    tied = counted(6, torch.float32, 0.25, -1).reshape(2, 3)
    square = counted(12, torch.float32).reshape(3, 4)
    state = {
        "embedding.weight": tied,
        "head.weight": tied,  # the same storage
        "row": tied[1],  # a view that begins inside it
        "f16": counted(8, torch.float16, 0.5, -1).reshape(2, 2, 2),
        "bf16": counted(5, torch.bfloat16, 0.5, -1),
        "i64": counted(4, torch.int64, 1, -2),
        "bool": torch.tensor([True, False, True]),
        "f64.transposed": counted(6, torch.float64).reshape(2, 3).t(),
        "transposed": square.t(),
        "every_other": square[:, ::2],
        "expanded": counted(2, torch.float32).reshape(2, 1).expand(2, 3),
        "permuted": counted(24, torch.float32).reshape(2, 3, 4).permute(2, 0, 1),
        "parameter": torch.nn.Parameter(counted(3, torch.float32)),
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 3),
    }
    torch.save(state, out / "state.bin")
    torch.save(state, out / "state_protocol4.bin", pickle_protocol=4)

    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(counted(parameter.numel(), torch.float32).reshape(parameter.shape))
    # An OrderedDict with attributes, nested as in trainers' checkpoints.
    torch.save({"epoch": 3, "loss": 0.5, "state_dict": module.state_dict()}, out / "nested.bin")
    torch.save(module.state_dict(), out / "legacy.bin", _use_new_zipfile_serialization=False)
    torch.save({"weight": tied, "surprise": RunsCode()}, out / "runs_code.bin")
    torch.save(module, out / "whole_module.bin")

    matrix = np.arange(6, dtype="<f4").reshape(2, 3)
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(out / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, matrix, version=version)
    np.save(out / "fortran.npy", np.asfortranarray(matrix))
    np.save(out / "big_endian.npy", matrix.astype(">f4"))
    np.save(out / "records.npy", np.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")]))
    np.save(out / "scalar.npy", np.int64(5))
    arrays = {"matrix": matrix, "labels": np.arange(300, dtype="<i8")}
    np.savez(out / "stored.npz", **arrays)
    np.savez_compressed(out / "deflated.npz", **arrays)

    versions = {
        "made_by": "tools/make_formats_golden.py",
        "seed": None,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "numpy": np.__version__,
        "safetensors": safetensors.__version__,
    }
    (out / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
