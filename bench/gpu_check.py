#!/usr/bin/env python3
"""Runs all checks that need a GPU; scripts/gpu_check.sh calls it.

  bench/gpu_check.py --plimsoll FILE --tests FILE [--python PYTHON] [--only PART …] [--rounds 3] [--seconds 400]

tests: test_gpu, every op of the CUDA backend against the reference, in several processes at a time; a test that fails is
run again alone, since an error of one kernel spoils its process. sanitizer: compute-sanitizer's memcheck and racecheck over a few ops, where it is
installed. parity: tools/check_parity.py. families: tools/check_families.py. generation: tools/check_generation.py. speed: bench/compare_pytorch.py, beside PyTorch's eager step; compile,
compile-overhead, compile-autotune: beside its compiled ones. large: the large model's rate, by the same. language: bench/language_steps.py. budget:
bench/tight_budget.py. From parity on, these need PyTorch with CUDA and transformers in PYTHON. peaks:
bench/predicted_against_measured.py. neighbour: bench/random_budgets.py, beside a process that takes device memory.
ranks: bench/gpu_ranks.py, on two GPUs, where there are two and NCCL.

Nothing stops at a failure; a part whose time is up says so. --rounds: processes of each program whose times are compared;
--seconds: peaks and neighbour begin no run later. Written: bench/results/GPU-DATE.json and .md, to which a later
run with another --only adds.
Exit 1 if a bar is missed; 0 without a GPU, with a message. Python's standard library only.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import nvidia
from gpu_report import (BUDGET, FAMILIES, GENERATION, LANGUAGE, LARGE, NEIGHBOUR, PEAKS, RANKS, budget_figures,
                        families_figures, judged, language_figures, last_words, neighbour_figures, not_measured,
                        parity_figures, peaks_figures, ranks_figures, rate_figure, speed_figures, write_report)
from program import PLIMSOLL, REPOSITORY

PROGRAMS = {"speed": "eager", **{name: name for name in ("compile", "compile-overhead", "compile-autotune")}}
PARTS = ("tests", "sanitizer", "parity", "families", "generation", *PROGRAMS, "large", "language", "budget", "peaks",
         "neighbour", "ranks")
# Few ops, since each takes some ten times as long: products of the backend's own, shared memory, atomics, sorting.
SANITIZED = ":".join(f"Gpu*/BackendSuite.*/{op}_*" for op in
                     ("attention", "layer_norm", "embedding", "cross_entropy", "bias_grad", "adafactor")) + ":GpuStep.*"
MOST_AGAIN = 100
MOST_PROCESSES = 12  # each holds a context of some 500 MiB
ENDS = 540  # seconds, after which a part that has a report is ended


class Outcome:
    """A program's exit status (None: it took too long) and output."""

    def __init__(self, status, output):
        self.status, self.output = status, output


def run(command, environment, seconds):
    """Runs a command and, when its time is up, ends all that it has started, so that none of it is left on the device."""
    try:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env={**os.environ, **environment}, start_new_session=True)
    except OSError as error:
        return Outcome(127, str(error))
    try:
        output, _ = process.communicate(timeout=seconds)
        return Outcome(process.returncode, output)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return Outcome(None, process.communicate()[0] + f"\nended after {seconds} s")
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def names_of(listing):
    """Returns full names from --gtest_list_tests."""
    names, suite = [], ""
    for line in listing.splitlines():
        line = line.split("#")[0].rstrip()
        if re.fullmatch(r"\S+\.", line):
            suite = line
        elif line.startswith("  ") and suite:
            names.append(suite + line.strip())
    return names


def passed_names(output):
    return set(re.findall(r"^\[       OK \] (\S+?)(?:,| \()", output, re.MULTILINE))


class Check:
    def __init__(self, options, runner=run):
        self.options, self.runner = options, runner
        self.eager_peak = None  # MiB of PyTorch's eager step, once it is measured
        self.environment = {variable: str(file) for variable, file in
                            (("PLIMSOLL_CUBLASLT", options.cublaslt), ("PLIMSOLL_NCCL", options.nccl)) if file is not None}

    def run(self, *command, seconds=1800, variables={}):
        print("+", " ".join(map(str, command)), flush=True)
        return self.runner(command, {**self.environment, **variables}, seconds)

    def part(self, name):
        return self.speed(PROGRAMS[name]) if name in PROGRAMS else getattr(self, name)()

    def tests(self):
        name, bar = "GPU tests that pass", "all"
        names = names_of(self.run(self.options.tests, "--gtest_list_tests").output)
        if not names:
            return [judged(name, bar, "none", False, f"{self.options.tests} lists no test")]
        shards = max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) - 1))
        with concurrent.futures.ThreadPoolExecutor(shards) as pool:
            wholes = list(pool.map(lambda shard: self.run(self.options.tests, "--gtest_color=no", variables={
                "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}), range(shards)))
            passed = {name for whole in wholes for name in passed_names(whole.output)}
            left = [each for each in names if each not in passed]
            failed = left[MOST_AGAIN:]
            alone = list(pool.map(lambda each: self.run(self.options.tests, "--gtest_color=no", f"--gtest_filter={each}",
                                                        seconds=300), left[:MOST_AGAIN]))
        for each, result in zip(left, alone):
            if each not in passed_names(result.output):
                failed.append(each)
                print(result.output[-2000:])
        note = f"failed: {', '.join(failed[:10])}" if failed else ""
        if left and not failed:
            note = f"{len(left)} passed only alone, after another's failure"
        holds = not failed and (not left or any(whole.status not in (0, 1) for whole in wholes))
        return [judged(name, bar, f"{len(names) - len(failed)} of {len(names)}", holds, note)]

    def sanitizer(self):
        rows = []
        program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        for tool in ("memcheck", "racecheck"):
            name, bar = f"compute-sanitizer {tool}, a few ops", "no error"
            if program is None and self.runner is run:
                rows.append(not_measured(name, bar, "compute-sanitizer is not installed here"))
                continue
            # In a bundle test_gpu is a script that starts the program.
            result = self.run(program or "compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", 9,
                              self.options.tests, f"--gtest_filter={SANITIZED}", seconds=540)
            if result.status is None or "Device not supported" in result.output:  # as on some virtual machines
                rows.append(not_measured(name, bar, last_words(result.output)))
                continue
            found = re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): ([^\n]*)", result.output)
            if result.status:
                print(result.output[-4000:])
            rows.append(judged(name, bar, found[-1] if found else "no summary", result.status == 0 and bool(found)))
        return rows

    def parity(self):
        rows = []
        for precision in ("fp32", "bf16"):
            title = f"parity with transformers, {precision}"
            reason = self.missing_torch()
            if reason:
                rows.append(not_measured(title, "tools/check_parity.py", reason))
                continue
            report, result = self.reported("tools/check_parity.py", "parity", *(["--bf16"] if precision == "bf16" else []),
                                           "--synthetic", "--device", "cuda", seconds=1800)
            rows += parity_figures(precision, report) if report else [
                judged(title, "tools/check_parity.py", "failed", False, last_words(result.output))]
        return rows

    def families(self):
        reason = self.missing_torch()
        if reason:
            return [not_measured(*FAMILIES, reason)]
        report, result = self.reported("tools/check_families.py", "families", "--device", "cuda")
        return [families_figures(report) if report else self.nothing(*FAMILIES, result, "plimsoll")]

    def generation(self):
        reason = self.missing_torch()
        if reason:
            return [not_measured(*GENERATION, reason)]
        result = self.run(self.options.python, REPOSITORY / "tools/check_generation.py", "--plimsoll", self.options.plimsoll,
                          "--work", self.options.work / "generation", "--device", "cuda", seconds=ENDS)
        print(result.output)
        found = [tuple(map(int, pair)) for pair in re.findall(r": (\d+) of (\d+) texts", result.output)]
        if not found:
            return [self.nothing(*GENERATION, result, "plimsoll")]
        same, texts = (sum(numbers) for numbers in zip(*found))
        return [judged(*GENERATION, f"{same} of {texts}", result.status == 0 and same == texts)]

    def language(self):
        reason = self.missing_torch()
        if reason:
            return [not_measured(*LANGUAGE, reason)]
        report, result = self.reported("bench/language_steps.py", "language", "--device", "cuda", "--batch-size", 8, "--steps",
                                       20, "--rounds", self.options.rounds, "--precisions", "bf16")
        return language_figures(report) if report else [self.nothing(*LANGUAGE, result, "plimsoll train")]

    def speed(self, program):
        name, bar = f"step beside PyTorch, {program}, bf16, batch 16, S = 709", "3.0" if program == "eager" else "1.5"
        reason = self.missing_torch()
        if reason:
            return [not_measured(name, bar, reason)]
        report, result = self.reported("bench/compare_pytorch.py", "bench", "--synthetic", "--programs", program, "--steps", 10,
                                       "--rounds", self.options.rounds, "--device", "cuda")
        if report is None:
            return [self.nothing(name, bar, result, "bench-step")]
        if program == "eager":
            self.eager_peak = report["rows"][1]["peak_bytes"] >> 20
        return speed_figures(program, report["rows"])

    def large(self):
        reason = self.missing_torch()
        if reason:
            return [not_measured(*LARGE, reason)]
        report, result = self.reported("bench/compare_pytorch.py", "bench", "--synthetic", "--shape", "large", "--programs",
                                       "--steps", 5, "--rounds", self.options.rounds, "--device", "cuda")
        return [rate_figure("large", report["rows"][0]) if report else self.nothing(*LARGE, result, "bench-step")]

    def budget(self):
        reason = self.missing_torch()
        if reason:
            return [not_measured(*BUDGET, reason)]
        peak = [] if self.eager_peak is None else ["--peak", self.eager_peak]
        report, result = self.reported("bench/tight_budget.py", "tight_budget", "--rounds", self.options.rounds, "--device",
                                       "cuda", *peak)
        return budget_figures(report) if report else [self.nothing(*BUDGET, result, "\nended with")]

    def peaks(self):
        report, result = self.reported("bench/predicted_against_measured.py", "predicted", "--seconds", self.options.seconds,
                                       "--device", "cuda")
        return peaks_figures(report) if report else [self.nothing(*PEAKS, result)]

    def neighbour(self):
        report, result = self.reported("bench/random_budgets.py", "random_budgets", "--seconds", self.options.seconds,
                                       "--device", "cuda")
        return neighbour_figures(report) if report else [self.nothing(*NEIGHBOUR, result)]

    def ranks(self):
        count = self.options.gpus
        if count < 2:
            return [not_measured(*RANKS, f"{count} GPU on this machine")]
        report, result = self.reported("bench/gpu_ranks.py", "gpu_ranks")
        if report is None and "NCCL, which moves tensors between GPUs, cannot be loaded" in result.output:
            return [not_measured(*RANKS, "NCCL is not installed here")]
        return ranks_figures(report) if report else [self.nothing(*RANKS, result)]

    def reported(self, script, work, *arguments, seconds=ENDS):
        """Returns the JSON that a script writes, None if it does not, and its outcome."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            result = self.run(self.options.python, REPOSITORY / script, "--plimsoll", self.options.plimsoll, "--work",
                              self.options.work / work, "--json", report, *arguments, seconds=seconds)
            print(result.output)
            return json.loads(report.read_text()) if report.exists() else None, result

    @staticmethod
    def nothing(name, bar, result, ours=""):
        """Returns the row of a script without a report. `ours` is its output if plimsoll failed, and not PyTorch."""
        if result.status is None:
            return not_measured(name, bar, last_words(result.output))
        if ours in result.output:
            return judged(name, bar, "failed", False, last_words(result.output))
        return not_measured(name, bar, f"PyTorch failed: {last_words(result.output)}")

    def missing_torch(self):
        result = self.runner([self.options.python, "-c", "import torch, transformers; torch.ones(1).cuda()"], {}, 300)
        return None if result.status == 0 else f"no PyTorch with CUDA and transformers: {last_words(result.output)}"


def find_library(python, *names):
    """Returns None if the loader finds one of these or all are missing; else the file of one of Python's nvidia packages."""
    for name in names:
        try:
            ctypes.CDLL(name)
            return None
        except OSError:
            pass
    folders = subprocess.run([python, "-c", "import sysconfig, site; print('\\n'.join({sysconfig.get_path('purelib'), "
                                            "*site.getsitepackages(), site.getusersitepackages()}))"],
                             capture_output=True, text=True).stdout.split("\n")
    for name in names:
        for folder in filter(None, folders):
            found = sorted(Path(folder).glob(f"nvidia/**/{name}"))
            if found:
                return found[0]
    return None


def environment_of(options, device):
    words = {"driver": device.driver(), "plimsoll": run([options.plimsoll, "--version"], {}, 60).output.partition("\n")[0],
             "cuBLASLt": str(options.cublaslt or "where the loader finds it"),
             "NCCL": str(options.nccl or "where the loader finds it"), "GPUs": str(options.gpus)}
    torch = run([options.python, "-c", "import torch, transformers; print('torch', torch.__version__, 'CUDA', "
                                       "torch.version.cuda, 'transformers', transformers.__version__)"], {}, 120)
    words["PyTorch"] = last_words(torch.output) if torch.status == 0 else "not there"
    return words


def check(options):
    device = nvidia.Device()
    options.cublaslt = None if os.environ.get("PLIMSOLL_CUBLASLT") else find_library(options.python, "libcublasLt.so.13",
                                                                                     "libcublasLt.so.12")
    options.nccl = None if os.environ.get("PLIMSOLL_NCCL") else find_library(options.python, "libnccl.so.2")
    options.gpus = nvidia.device_count()
    environment = environment_of(options, device)
    print(f"{device.name()}; " + "; ".join(f"{key} {value}" for key, value in environment.items()), flush=True)
    checks, figures = Check(options), []
    for part in options.only:
        figures += [{"part": part, **row} for row in checks.part(part)]
        path = write_report(options.results, device.name(), environment, figures, PARTS)
    print(path.with_suffix(".md").read_text())
    print(f"written: {path} and .md")
    return 1 if any(row["verdict"] == "misses" for row in figures) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--tests", type=Path, default=PLIMSOLL.parent / "test" / "gpu" / "test_gpu")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch and transformers")
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "gpu_check")
    parser.add_argument("--results", type=Path, default=REPOSITORY / "bench" / "results")
    options = parser.parse_args()
    reason = nvidia.missing_device()
    if reason:
        print(f"gpu_check: nothing to check, no GPU: {reason}")
        return 0
    return check(options)


if __name__ == "__main__":
    sys.exit(main())
