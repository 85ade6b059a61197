#!/usr/bin/env python3
"""Counts the instructions that attention and GELU spend on a score or a value, in the machine code of sm_90, and of
sm_90a for attention by warpgroups.

  tools/kernel_instructions.py            # prints the counts, loop by loop
  tools/kernel_instructions.py --write    # and writes src/backend/cuda/sizes/instructions.inc
  tools/kernel_instructions.py --check    # exit status 1 if that file says something else

It needs nvcc, and nvdisasm on the path or from PyPI (nvidia-cuda-nvdisasm). A kernel's
main loop is the outermost one that multiplies matrices, or the only one; an instruction in it counts once for each trip
of the loops that it is in. The trips are those of the kernels for heads of 64 columns, in halves, aligned and with
dropout, without gradients of bias tables: a warp computes 16 rows of a tile, of 32 keys in forward and of 64 queries in
backward, so that a thread has 16 or 32 scores of each.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FILE = REPOSITORY / "src" / "backend" / "cuda" / "sizes" / "instructions.inc"
SCORES = 32  # of a thread in a tile
LAST = 1 / 12      # of a block's steps, the one in which it is the last to add to dq and writes it
GROUP = 1 / 3      # of a block's steps, those in which it is a warpgroup's turn to make dq
RESCALED = 2 / 12  # twice in a walk over a sample: for the first keys, and once more
CALLS = 4    # of a thread in a tile, for eight scores each
BIASES = 8   # keys whose biases a thread makes at once, for each of
HEADS = 12   # of the model
VALUES = 8   # of a thread in a trip of an element-wise kernel

# CountedWork of kernel_work.h: (its name, source, what the kernel's mangled name has, what a trip of the main loop makes,
# trips of the loop that multiplies within the main loop).
KERNELS = (("kBiases", "attention_bias", "attention_biasINS0_4Bf16E", HEADS * BIASES, 1),
           ("kScores", "attention", "attentionINS0_4Bf16ELi64ELb1ELb1E", SCORES // 2, 1),
           ("kScoresGrad", "attention_grad", "attention_backwardINS0_4Bf16ELi64ELb1ELb1ELb1ELb1ELb0E", SCORES, 4),
           ("kGroupScores", "attention_warpgroup", "attention_warpgroupINS0_4Bf16ELb1E", SCORES, 1),
           ("kGroupScoresGrad", "attention_grad_warpgroup", "attention_backward_warpgroupINS0_4Bf16ELb1E", SCORES, 1),
           ("kGelu", "elementwise", "mapINS0_4Bf16ES3_NS1_4GeluIS3_E", VALUES, 1),
           ("kGeluGrad", "elementwise", "gelu_backwardILi8ENS0_4Bf16ENS1_8GeluGrad", VALUES, 1))


def nvdisasm():
    found = shutil.which("nvdisasm")
    if found:
        return found
    for path in Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/bin/nvdisasm"):
        return str(path)
    sys.exit("nvdisasm is missing: pip install nvidia-cuda-nvdisasm")


def machine_code(source, folder):
    """Returns {mangled name: [(address, instruction, label that it branches to)]} and {label: address}."""
    cubin = folder / f"{source}.cubin"
    subprocess.run(["nvcc", "-DFMT_SHARED", f"-I{REPOSITORY / 'src'}", "-O3", "-DNDEBUG", "-cubin", "-arch=sm_90a" if "warpgroup" in source else "-arch=sm_90",
                    "--expt-relaxed-constexpr", "-fmad=false", "-std=c++20", "-x", "cu",
                    str(REPOSITORY / "src" / "backend" / "cuda" / f"{source}.cu"), "-o", str(cubin)], check=True)
    text = subprocess.run([nvdisasm(), "-c", str(cubin)], capture_output=True, text=True, check=True).stdout
    functions, labels, code, waiting = {}, {}, None, []
    for line in text.splitlines():
        if begin := re.match(r"\.text\.(\S+):", line):
            code = functions.setdefault(begin.group(1), [])
        elif line.strip().startswith(".section"):
            code = None
        elif label := re.match(r"\s*(\.L_x_\d+):", line):
            waiting.append(label.group(1))
        elif code is not None and (found := re.search(r"/\*([0-9a-f]{4,5})\*/\s+(.*?);", line)):
            address = int(found.group(1), 16)
            labels.update({name: address for name in waiting})
            waiting = []
            branch = re.search(r"\bBRA\b.*?(\.L_x_\d+)", found.group(2))
            code.append((address, re.sub(r"^@!?U?P[\dT]+\s+", "", found.group(2)), branch and branch.group(1)))
    return functions, labels


class Loop:
    def __init__(self, begin, end, code):
        self.begin, self.end = begin, end
        self.names = [text.split()[0].split(".")[0] for address, text, _ in code if begin <= address <= end]
        self.inner = []

    def detours(self, code, labels):
        """Yields parts that a branch leads past and that a warp runs in few steps, with their share of them and why."""
        parts = [Loop(address + 16, labels[label] - 16, code) for address, _, label in code
                 if label and self.begin < address < labels.get(label, 0) <= self.end]
        for share, why, fits in (
                (LAST, "the last step", lambda part: part.has("SHFL") >= 32 and not part.has("HGMMA")),
                (GROUP, "a group's turn", lambda part: part.has("HGMMA") == 12),
                (GROUP, "the end of a turn", lambda part: self.has("HGMMA") and part.has("MEMBAR") == 1 and len(part.names) < 100)):
            found = [part for part in parts if fits(part)]
            for part in found:
                if not any(other.holds(part) for other in found):
                    yield part, share, why

    def has(self, *names):
        return sum(name in names for name in self.names)

    def holds(self, other):
        return self.begin <= other.begin and other.end <= self.end and self is not other


def main_loop(code, labels):
    loops = [Loop(labels[label], address, code) for address, _, label in code
             if label and labels.get(label, address + 1) <= address and labels[label] < address]
    loops.sort(key=lambda loop: loop.begin - loop.end)  # the longest first
    for loop in loops:
        around = [other for other in loops if other.holds(loop)]
        if around:
            around[-1].inner.append(loop)
    multiplying = [loop for loop in loops if loop.has("HMMA", "HGMMA")]
    return (multiplying or loops)[0]


def trips(loop, products):
    """How often a loop within the main loop runs in one trip of it, and why."""
    if loop.has("HMMA"):
        return products, "products of a part of the tile"
    if loop.has("LDGSTS") >= 8:
        return 0.5, "facts of 64 keys, by 128 threads"
    if loop.has("VOTE") and loop.has("FMUL") >= 32:
        return RESCALED, "sums made smaller for a larger score"
    if loop.has("LOP3") >= 16 and loop.has("STS"):
        return CALLS / loop.has("STS"), "dropout's random numbers, stored call by call"
    return 0, "rows that are not aligned, or copies that the unrolled ones leave over"


def count(loop, counted, products, depth=0):
    own = len(loop.names) - sum(len(inner.names) for inner in loop.inner)
    total = own
    for inner in loop.inner:
        often, why = (HEADS / 4, "four heads") if counted == "kBiases" else trips(inner, products)
        print(f"  {'  ' * depth}{len(inner.names):5} instructions x {often:g}: {why}")
        if often:
            total += often * count(inner, counted, products, depth + 1)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    lines, known = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for counted, source, name, makes, products in KERNELS:
            if source not in known:
                known[source] = machine_code(source, Path(folder))
            functions, labels = known[source]
            found = [function for function in functions if name in function]
            if len(found) != 1:
                sys.exit(f"{source}.cu has {len(found)} kernels with {name} in their names, not one")
            print(f"{counted}: {name}")
            loop = main_loop(functions[found[0]], labels)
            each = count(loop, counted, products)
            parts = list(loop.detours(functions[found[0]], labels))
            for part, share, why in parts:
                own = len(part.names) - sum(len(other.names) for other, *_ in parts if part.holds(other))
                print(f"  {own:5} instructions x {share:g}: {why}")
                each -= (1 - share) * own
            each /= makes
            print(f"  {each:.1f} instructions each")
            lines.append(f"    {each:.1f},  // {counted}\n")
    text = ("// Instructions of a thread, each, counted in sm_90's machine code by tools/kernel_instructions.py --write.\n"
            + "".join(lines))
    if options.write:
        FILE.write_text(text, encoding="utf-8")
    if options.check and FILE.read_text(encoding="utf-8") != text:
        print(f"{FILE.relative_to(REPOSITORY)} says something else:\n{FILE.read_text(encoding='utf-8')}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
