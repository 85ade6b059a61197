#!/usr/bin/env python3
"""Compares one training step of PyTorch with transformers and of Plimsoll: time and peak resident set.

Both train the same model on the same batch with the same threads: forward, backward, clipping to 1.0, AdamW with weight
decay, dropout as in config.json. Each run is a separate process, and all programs take turns in every round, so that a
slow minute of the machine hits all of them; ratios are taken within a round, the figure is the median over the rounds.
The first step of a process (of a compiled model, and on a GPU: three) warms up and is not counted.

  bench/compare_pytorch.py [--batches filled receipts] [--precisions fp32 bf16] [--programs eager allocator compile]
                           [--batch-size 4] [--rounds 3] [--steps 3]
  bench/compare_pytorch.py --family lilt      another family than LayoutLMv3: filled pages of 512 random tokens, eager
  bench/compare_pytorch.py --device cuda      both on the first GPU: bf16, filled, batch 16, eager and torch.compile's modes
  bench/compare_pytorch.py --device cuda --shape large --programs    only ours: its fraction of the GPU's rate

Batches: `filled`, S = 709 (512 text tokens, no padding, and 197 of the image); `receipts`, the first real receipts of
../shared/data/sroie, which PyTorch gets padded to 512 text tokens and Plimsoll packs.
PyTorch's programs: `eager`, transformers' eager attention (the only one it has for this model), fused AdamW as its Trainer
takes by default; `allocator`, the same under jemalloc, which keeps freed pages (scripts of PyTorch's CPU guide);
`compile`, torch.compile of the model under jemalloc. Other families take the attention that transformers chooses for them. bf16 is autocast there, --bf16 here; oneDNN is on everywhere.
Plimsoll's half is `plimsoll bench-step`. The peak compared is the kernel's figure for the whole process (getrusage).

On a GPU the peak is what NVML sees of the device's memory in use beyond what was in use before, context and libraries
included; PyTorch's own figure (max_memory_allocated) is in the JSON. `compile-overhead` and `compile-autotune` are the
modes reduce-overhead and max-autotune; TF32 is off. A share of the GPU's rate is counted from the model's formula
(scaling.py) against torch.matmul of bf16, 8192^3, measured in the same rounds. --emulated puts PyTorch on the CPU, and
peaks are resident sets.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nvidia
from program import PLIMSOLL, REPOSITORY
from scaling import SHAPES, arithmetic

sys.path.insert(0, str(REPOSITORY / "tools"))

GIB = 1 << 30
JEMALLOC = Path("/usr/lib") / f"{platform.machine()}-linux-gnu" / "libjemalloc.so.2"
# The smallest allowed ratio of PyTorch's time to ours, by (batch, precision, PyTorch's program).
BARS = {("filled", "fp32", "eager"): 1.5, ("filled", "bf16", "eager"): 2.0,
        ("filled", "fp32", "allocator"): 1.5, ("filled", "bf16", "allocator"): 2.0,
        ("filled", "fp32", "compile"): 1.3, ("filled", "bf16", "compile"): 1.5,
        ("receipts", "fp32", "eager"): 2.2, ("receipts", "bf16", "eager"): 2.8,
        ("receipts", "fp32", "allocator"): 2.2, ("receipts", "bf16", "allocator"): 2.8}
# The same of other families, eager alone: without the image's rows and the bias of attention less is to be saved.
FAMILY_BARS = {"lilt": 1 / 0.6, "layoutlm": 1 / 0.75, "roberta": 1 / 0.75, "bert": 1 / 0.75, "xlm-roberta": 1 / 0.75}
FAMILY_BF16_BARS = {True: 1 / 0.6, False: 1 / 0.75}  # with and without AMX
# The same on a GPU, against the fastest of the programs.
GPU_BARS = {"eager": 3.0, "compile": 1.5}  # "compile": the best of its modes, so this applies to each
COMPILE_MODES = {"compile": "default", "compile-overhead": "reduce-overhead", "compile-autotune": "max-autotune"}
LARGEST_PEAK, LARGEST_SHARE = 3.6, 1 / 3  # limits of our filled peak: GiB, and its ratio to PyTorch's eager peak


def pytorch_worker(options):
    import torch
    from safetensors.torch import load_file

    import families
    import reference

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    reference.exact_products()
    model = families.load_model(options.model).to(options.device).train()
    batch = {name: value.to(options.device) for name, value in load_file(options.batch).items()}
    stepped = torch.compile(model, mode=options.compile) if options.compile else model
    trainer = reference.Trainer(stepped, learning_rate=1e-5, updates=1000)
    half = torch.autocast(options.device, dtype=torch.bfloat16) if options.precision == "bf16" else contextlib.nullcontext()
    seconds, losses = [], []
    for _ in range(options.warm + options.steps):
        begin = time.perf_counter()
        with half:
            losses.append(trainer.step([batch])[0])
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    peak = {"max_memory_allocated": torch.cuda.max_memory_allocated()} if options.device == "cuda" else {}
    print(json.dumps({"step_seconds": seconds, "losses": losses, "versions": reference.versions(), **peak}))


def matmul_worker(options, size=8192):
    """Measures the floating-point operations per second of the GPU's own bf16 product, to which our rate is compared."""
    import torch

    size = size if options.device == "cuda" else 256
    a, b = (torch.randn(size, size, device=options.device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(options.warm + options.steps):
        begin = time.perf_counter()
        for _ in range(10):
            torch.matmul(a, b)
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begin) / 10)
    print(json.dumps({"step_seconds": seconds, "flops": 2 * size ** 3}))


def run(options, command, warm, preload=None):
    """Runs to the end; adds the kernel's own figures of the process: peak resident set and processor time; on a GPU the
    peak is the device's."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    if preload is not None:
        environment["LD_PRELOAD"] = str(preload)
        environment["MALLOC_CONF"] = "oversize_threshold:1,background_thread:true,metadata_thp:auto," \
                                     "dirty_decay_ms:9000000000,muzzy_decay_ms:9000000000"
    command = [str(part) for part in command]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with nvidia.watch(options) as watch:
            process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            sys.exit(f"{' '.join(command)}\nexit {process.returncode}\n{errors.read()}")
        # The result is the last line; a program may have logged other lines before it.
        result = json.loads(output.read().strip().splitlines()[-1])
    result["step_seconds"] = result["step_seconds"][warm:]
    result["peak_resident_bytes"] = usage.ru_maxrss * 1024
    result["peak_bytes"] = watch.bytes if watch else result["peak_resident_bytes"]
    result["processor_seconds"] = usage.ru_utime + usage.ru_stime
    return result


def has_amx():
    return " amx_bf16" in Path("/proc/cpuinfo").read_text()


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def make(script, *arguments):
    subprocess.run([sys.executable, str(REPOSITORY / "tools" / script), *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL)


def family_files(options):
    return (options.work / f"{options.family}-{options.shape}-7-labels",
            options.work / f"{options.family}-{options.shape}-filled-{options.batch_size}x{options.length}.safetensors")


def make_family_files(options):
    import families
    import reference

    directory, batch = family_files(options)
    model = families.make_model(options.family, options.shape, labels=7, seed=1, dropout=0.1)
    reference.write_tensors(families.make_batch(model.config, [options.length] * options.batch_size, options.length,
                                                seed=1), batch)
    model.save_pretrained(directory)


def prepare_model(options):
    if options.family != "layoutlmv3":
        model, batch = family_files(options)
        if not (model / "config.json").exists() or not batch.exists():
            # In another process: what PyTorch leaves in memory would count as the peak of those that this one starts.
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--prepare"], check=True)
        return model
    model = options.work / f"{options.shape}-7-labels"
    if not (model / "config.json").exists():
        if options.shape in SHAPES:  # as `plimsoll` knows them: without PyTorch, which takes half a minute to start on a GPU
            subprocess.run([str(options.plimsoll), "init", "--model", f"layoutlmv3-{options.shape}", "--labels", "A,B,C,D,E,F,G",
                            "--output-dir", str(model)], check=True, stdout=subprocess.DEVNULL)
        else:
            make("make_model.py", "--shape", options.shape, "--labels", 7, "--output", model)
    return model


def prepare(options, kind):
    """Makes the batch in PyTorch's form."""
    if options.family != "layoutlmv3":
        return family_files(options)[1]
    path = options.work / f"{kind}-{options.batch_size}x{options.length}.safetensors"
    make("make_batch.py", "--batch", options.batch_size, "--length", options.length, "--labels", 7, "--output", path,
         *(["--fill"] if kind == "filled" else []), *(["--synthetic"] if options.synthetic else []),
         *reference_sizes(options.shape))
    return path


def reference_sizes(shape):
    """Returns the sizes of synthetic pages for a model that is smaller than the published ones."""
    return ["--vocabulary", 120, "--input-size", 32] if shape == "golden" else []


def commands(options, model, batch, precision):
    """Returns {program: (command, warm steps, preloaded library)}, ours first."""
    warm = dict.fromkeys(COMPILE_MODES, 3)
    # On a GPU our second step is recorded, and allocators and libraries settle in the first few steps.
    usual_warm = 3 if options.device == "cuda" else 1
    device = ["--device", "cpu" if options.emulated else options.device]
    result = {"plimsoll": ([options.plimsoll, "bench-step", "--model", model, "--batch", batch, "--steps",
                            options.steps + usual_warm, "--threads", options.threads, "--json",
                            *(["--device", "cuda"] if options.device == "cuda" else []), *(["--bf16"] if precision == "bf16" else [])], usual_warm, None)}
    for program in options.programs:
        steps_before = warm.get(program, usual_warm)
        result[program] = ([sys.executable, __file__, "--worker", "--model", model, "--batch", batch, "--precisions",
                            precision, "--steps", options.steps, "--warm", steps_before, "--threads", options.threads,
                            *device, *(["--compile", COMPILE_MODES[program]] if program in COMPILE_MODES else [])],
                           steps_before, None if program == "eager" or options.device == "cuda" else JEMALLOC)
    if options.device == "cuda":
        result["matmul"] = ([sys.executable, __file__, "--worker", "--matmul", "--warm", 2, "--steps", options.steps,
                             "--threads", options.threads, *device], 2, None)
    return result


def compare(options, model, kind, precision):
    """Runs all rounds of one batch in one precision; returns a row for each program."""
    batch = prepare(options, kind)
    programs = commands(options, model, batch, precision)
    runs = {program: [] for program in programs}
    for _ in range(options.rounds):
        for program, (command, warm, preload) in programs.items():
            runs[program].append(run(options, command, warm, preload))
    medians = {program: [statistics.median(one["step_seconds"]) for one in of] for program, of in runs.items()}
    rates = [one["flops"] / seconds for one, seconds in zip(runs.pop("matmul", []), medians.pop("matmul", []))]
    rows = []
    for program, of in runs.items():
        ratio = statistics.median(other / ours for other, ours in zip(medians[program], medians["plimsoll"]))
        rows.append({"batch": kind, "precision": precision, "program": program,
                     "median_seconds": statistics.median(medians[program]), "ratio": ratio,
                     "bar": bar_of(options, kind, precision, program),
                     "peak_bytes": max(one["peak_bytes"] for one in of), "runs": of})
        if rates and options.shape in SHAPES:
            share = [arithmetic(options.batch_size, options.length, options.shape) / seconds / rate
                     for seconds, rate in zip(medians[program], rates)]
            rows[-1].update(share_of_matmul=statistics.median(share), matmul_flops=statistics.median(rates))
    return rows


def bar_of(options, kind, precision, program):
    """Returns None if there is no bar."""
    if options.device == "cuda":
        return GPU_BARS.get(program.split("-")[0]) if options.shape == "base" and precision == "bf16" else None
    if program == "plimsoll":
        return None
    if options.family != "layoutlmv3":
        return FAMILY_BARS[options.family] if precision == "fp32" else FAMILY_BF16_BARS[has_amx()]
    return BARS.get((kind, precision, program))


def print_rows(options, rows):
    ours = rows[0]
    for row in rows:
        pages = options.batch_size / row["median_seconds"]
        bar = "" if row["bar"] is None else f"{row['bar']:.2f} {'holds' if row['ratio'] >= row['bar'] else 'FAILS'}"
        share = f" {row['share_of_matmul']:.2f} |" if "share_of_matmul" in row else ""
        print(f"| {row['batch']} | {row['precision']} | {row['program']} | {row['median_seconds']:.3f} | {pages:.2f} | "
              f"{row['ratio']:.2f} | {bar} | {row['peak_bytes'] / GIB:.2f} | {row['peak_bytes'] / max(1, ours['peak_bytes']):.1f} |{share}",
              flush=True)


def verdicts(options, rows):
    """Returns every bar that the rows can judge."""
    result = [row["ratio"] >= row["bar"] for row in rows if row["bar"] is not None]
    peaks = {(row["precision"], row["program"]): row["peak_bytes"] for row in rows if row["batch"] == "filled"}
    for (precision, program), peak in peaks.items():
        if options.device == "cuda" or program != "eager" or options.family != "layoutlmv3":
            continue
        ours = peaks[precision, "plimsoll"]
        holds = ours <= LARGEST_PEAK * GIB and ours <= LARGEST_SHARE * peak
        print(f"peak resident set, filled, {precision}: {ours / GIB:.2f} GiB, {ours / peak:.2f} of PyTorch's "
              f"(bar {LARGEST_PEAK} GiB and a third): {'holds' if holds else 'FAILS'}")
        result.append(holds)
    return result


def parse(arguments=None):
    """Returns the options of these arguments, or of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="base", choices=("tiny", "small", "base", "large", "golden"))
    parser.add_argument("--family", default="layoutlmv3", choices=("layoutlmv3", *FAMILY_BARS))
    nvidia.add_device_options(parser)
    parser.add_argument("--batches", nargs="+", choices=("filled", "receipts"))
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"))
    parser.add_argument("--programs", nargs="*", choices=("eager", "allocator", *COMPILE_MODES))
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--synthetic", action="store_true", help="random tokens even where receipts are present")
    parser.add_argument("--length", type=int, default=512, help="T, text tokens; the image adds 197")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each program")
    parser.add_argument("--steps", type=int, default=3, help="counted steps a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "bench")
    parser.add_argument("--json", type=Path, default=REPOSITORY / "bench" / "out" / "compare_pytorch.json")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    parser.add_argument("--matmul", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--warm", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.family != "layoutlmv3" and options.batches not in (None, ["filled"]):
        parser.error("--family: only filled batches")
    return options


def main():
    options = parse()
    if options.worker:
        options.precision = (options.precisions or ["fp32"])[0]
        return matmul_worker(options) if options.matmul else pytorch_worker(options)
    on_gpu = nvidia.on_gpu(options)
    other_family = options.family != "layoutlmv3"
    options.batches = options.batches or (["filled"] if on_gpu or other_family else ["filled", "receipts"])
    options.precisions = options.precisions or (["bf16"] if on_gpu else ["fp32", "bf16"])
    if options.programs is None:
        options.programs = ["eager", *COMPILE_MODES] if on_gpu else ["eager"] if other_family else ["eager", "compile"]
    options.batch_size = options.batch_size or (16 if on_gpu else 4)
    if not on_gpu and set(options.programs) - {"eager"} and not JEMALLOC.exists():
        sys.exit(f"{JEMALLOC} is missing: apt-get install libjemalloc2")

    if options.prepare:
        return make_family_files(options)
    model = prepare_model(options)
    place = nvidia.Device().name() if on_gpu and not options.emulated else f"{options.threads} threads on {processor()}"
    print(f"{options.family}, {options.shape}, batch {options.batch_size}, T = {options.length}, {place}, "
          f"{options.rounds} x {options.steps} steps each, in turn\n\n"
          "| batch | precision | program | median step, s | pages/s | its time over ours | bar | peak, GiB | over ours |"
          + (" of a matmul's rate |" if on_gpu else "")
          + "\n| --- | --- | --- | ---: | ---: | ---: | --- | ---: | ---: |" + (" ---: |" if on_gpu else ""), flush=True)
    rows = []
    for kind in options.batches:
        for precision in options.precisions:
            rows += compare(options, model, kind, precision)
            print_rows(options, rows[-1 - len(options.programs):])
    versions = next((row["runs"][0]["versions"] for row in rows if "versions" in row["runs"][0]), {})
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"device": place, "processor": processor(), "threads": options.threads, "versions": versions,
                                        "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten: {options.json}")
    return 0 if all(verdicts(options, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
