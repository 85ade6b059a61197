#!/usr/bin/env python3
"""Everything that only a GPU can check, in one run: scripts/gpu_check.sh calls it.

  bench/gpu_check.py --plimsoll FILE --tests FILE [--python PYTHON] [--only tests sanitizer parity speed]
  bench/gpu_check.py --self-test      the report itself, with made-up results and no GPU

tests: test_gpu, every op of the CUDA backend against the reference; a test that fails is run again alone, since an error
of one kernel spoils its process. sanitizer: compute-sanitizer's memcheck and racecheck over a few ops, where it is
installed. parity: tools/check_parity.py. speed: bench/compare_pytorch.py, one of PyTorch's programs at a time. The last two
need PyTorch with CUDA and transformers in PYTHON.

Nothing stops at a failure. Written: bench/results/GPU-DATE.json and .md, to which a later run with another --only adds.
Exit 1 if a bar is missed; 0 without a GPU, which is said in one line. Python's standard library only.
"""

import argparse
import ctypes
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nvidia
from program import PLIMSOLL, REPOSITORY

PARTS = ("tests", "sanitizer", "parity", "speed")
PROGRAMS = ("eager", "compile", "compile-overhead", "compile-autotune")
# Few, since each takes some ten times as long: products of the backend's own, shared memory, atomics, sorting.
SANITIZED = ":".join(f"Gpu*/BackendSuite.*/{op}_*" for op in
                     ("attention", "layer_norm", "embedding", "cross_entropy", "bias_grad", "adafactor")) + ":GpuStep.*"
GIB = 1 << 30
MOST_AGAIN = 100


def figure(name, bar, measured, verdict, note=""):
    return {"figure": name, "bar": bar, "measured": measured, "verdict": verdict, "note": note}


def judged(name, bar, measured, holds, note=""):
    return figure(name, bar, measured, "holds" if holds else "misses", note)


def not_measured(name, bar, reason):
    return figure(name, bar, "", "not measured", reason)


def last_words(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


class Outcome:
    """Of a program: exit status (None: it took too long), what it printed."""

    def __init__(self, status, output):
        self.status, self.output = status, output


def run(command, environment, seconds):
    try:
        result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", env={**os.environ, **environment}, timeout=seconds)
        return Outcome(result.returncode, result.stdout)
    except subprocess.TimeoutExpired as error:
        return Outcome(None, (error.stdout or b"").decode(errors="replace") + f"\nended after {seconds} s")
    except OSError as error:
        return Outcome(127, str(error))


def names_of(listing):
    """Full names from --gtest_list_tests."""
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
        self.environment = {} if options.cublaslt is None else {"PLIMSOLL_CUBLASLT": str(options.cublaslt)}

    def run(self, *command, seconds=1800):
        print("+", " ".join(map(str, command)), flush=True)
        return self.runner(command, self.environment, seconds)

    def tests(self):
        name, bar = "GPU tests that pass", "all"
        names = names_of(self.run(self.options.tests, "--gtest_list_tests").output)
        if not names:
            return [judged(name, bar, "none", False, f"{self.options.tests} lists no test")]
        whole = self.run(self.options.tests, "--gtest_color=no")
        passed = passed_names(whole.output)
        left = [each for each in names if each not in passed]
        failed = left[MOST_AGAIN:]
        for each in left[:MOST_AGAIN]:
            alone = self.run(self.options.tests, "--gtest_color=no", f"--gtest_filter={each}", seconds=300)
            if each not in passed_names(alone.output):
                failed.append(each)
                print(alone.output[-2000:])
        note = f"failed: {', '.join(failed[:10])}" if failed else ""
        if left and not failed:
            note = f"{len(left)} passed only alone, after another's failure"
        holds = not failed and (not left or whole.status not in (0, 1))
        return [judged(name, bar, f"{len(names) - len(failed)} of {len(names)}", holds, note)]

    def sanitizer(self):
        rows = []
        program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        for tool in ("memcheck", "racecheck"):
            name, bar = f"compute-sanitizer {tool}, a few ops", "no error"
            if program is None and self.runner is run:
                rows.append(not_measured(name, bar, "compute-sanitizer is not installed here"))
                continue
            result = self.run(program or "compute-sanitizer", "--tool", tool, "--error-exitcode", 9, self.options.tests,
                              f"--gtest_filter={SANITIZED}", seconds=540)
            if result.status is None:
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
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "parity.json"
                result = self.run(self.options.python, REPOSITORY / "tools" / "check_parity.py", "--device", "cuda",
                                  "--synthetic", "--plimsoll", self.options.plimsoll, "--work", self.options.work / "parity",
                                  "--json", report, *(["--bf16"] if precision == "bf16" else []))
                print(result.output)
                if report.exists():
                    rows += parity_figures(precision, json.loads(report.read_text()))
                else:
                    rows.append(judged(title, "tools/check_parity.py", "failed", False, last_words(result.output)))
        return rows

    def speed(self):
        rows = []
        for program in PROGRAMS:
            name, bar = f"step beside PyTorch, {program}, bf16, batch 16, S = 709", "3.0" if program == "eager" else "1.5"
            reason = self.missing_torch()
            if reason:
                rows.append(not_measured(name, bar, reason))
                continue
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "speed.json"
                result = self.run(self.options.python, REPOSITORY / "bench" / "compare_pytorch.py", "--device", "cuda",
                                  "--synthetic", "--programs", program, "--plimsoll", self.options.plimsoll, "--work",
                                  self.options.work / "bench", "--json", report, "--steps", 10)
                print(result.output)
                if report.exists():
                    rows += speed_figures(program, json.loads(report.read_text())["rows"])
                elif "bench-step" in result.output:
                    rows.append(judged(name, bar, "failed", False, last_words(result.output)))
                else:
                    rows.append(not_measured(name, bar, f"PyTorch failed: {last_words(result.output)}"))
        return rows

    def missing_torch(self):
        result = self.runner([self.options.python, "-c", "import torch, transformers; torch.ones(1).cuda()"], {}, 300)
        return None if result.status == 0 else f"no PyTorch with CUDA and transformers: {last_words(result.output)}"


def parity_figures(precision, report):
    rows = []
    for case in report:
        for row in case["rows"]:
            measured, bar = row["measured"], row["bar"]
            limit = f"{bar:.3g}" + (" (transformers' own)" if precision == "bf16" else "")
            rows.append(judged(f"{precision}, {case['case']}: {row['what']}", limit, f"{measured:.3g}", measured <= bar,
                               row["where"]))
    return rows


PEAK_SHARE, FLOPS_SHARE = 0.25, 0.4  # of PyTorch's eager peak, and of a matmul's rate, at base in bf16
# Bars for which there is no measurement yet.
PENDING_PART = "pending"
PENDING = [("share of torch.matmul's bf16 rate, large", "0.5"),
           ("peak beside PyTorch's eager, at 20 % more time", "an eighth of its"),
           ("measured device peak against predicted, 20 configurations", "never above; within 1 % or 8 MiB"),
           ("50 runs with random budgets beside a process that takes device memory", "none out of memory after step 0")]


def speed_figures(program, rows):
    ours, theirs = rows[0], rows[1]
    bar = theirs["bar"]
    result = [figure(f"step beside PyTorch, {program}, bf16, batch 16, S = 709: its time over ours", f"{bar}",
                     f"{theirs['ratio']:.2f}", "holds" if theirs["ratio"] >= bar else "misses",
                     f"{ours['median_seconds'] * 1000:.1f} ms and {theirs['median_seconds'] * 1000:.1f} ms"),
              judged(f"peak device memory beside PyTorch, {program}",
                     "a quarter of its" if program == "eager" else "no more than its",
                     f"{ours['peak_bytes'] / GIB:.2f} of {theirs['peak_bytes'] / GIB:.2f} GiB",
                     ours["peak_bytes"] <= theirs["peak_bytes"] * (PEAK_SHARE if program == "eager" else 1),
                     f"its tensors {max(one['max_memory_allocated'] for one in theirs['runs']) / GIB:.2f} GiB")]
    if "share_of_matmul" in ours:
        result.append(judged(f"share of torch.matmul's bf16 rate, base, beside {program}", f"{FLOPS_SHARE}",
                             f"{ours['share_of_matmul']:.2f}", ours["share_of_matmul"] >= FLOPS_SHARE,
                             f"PyTorch {theirs['share_of_matmul']:.2f}; matmul {ours['matmul_flops'] / 1e12:.0f} TFLOP/s"))
    return result


def table(report):
    lines = [f"# {report['device']}, {report['date']}", "", *(f"{key}: {value}  " for key, value in report["environment"].items()),
             "", "| figure | bar | measured | verdict |", "| --- | --- | --- | --- |"]
    for row in report["figures"]:
        cells = [row["figure"], row["bar"], row["measured"], row["verdict"] + (f" ({row['note']})" if row["note"] else "")]
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def write_report(folder, device, environment, figures, parts, date=None):
    """Adds to what another run of the same day has found in other parts."""
    date = date or datetime.date.today().isoformat()
    path = folder / f"{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-')}-{date}.json"
    known = json.loads(path.read_text())["figures"] if path.exists() else []
    kept = [row for row in known if row["part"] not in (*parts, PENDING_PART)]
    rows = sorted(kept + figures, key=lambda row: (*PARTS, PENDING_PART).index(row["part"]))
    report = {"device": device, "date": date, "environment": environment, "figures": rows}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    return path


def find_cublaslt(python):
    """None where the loader finds it, or nobody does; else the file of Python's nvidia-cublas."""
    for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
        try:
            ctypes.CDLL(name)
            return None
        except OSError:
            pass
    folders = subprocess.run([python, "-c", "import sysconfig, site; print('\\n'.join({sysconfig.get_path('purelib'), "
                                            "*site.getsitepackages(), site.getusersitepackages()}))"],
                             capture_output=True, text=True).stdout.split("\n")
    for version in ("13", "12"):
        for folder in filter(None, folders):
            found = sorted(Path(folder).glob(f"nvidia/**/libcublasLt.so.{version}"))
            if found:
                return found[0]
    return None


def environment_of(options, device):
    words = {"driver": device.driver(), "plimsoll": last_words(run([options.plimsoll, "--version"], {}, 60).output),
             "cuBLASLt": str(options.cublaslt or "where the loader finds it")}
    torch = run([options.python, "-c", "import torch, transformers; print('torch', torch.__version__, 'CUDA', "
                                       "torch.version.cuda, 'transformers', transformers.__version__)"], {}, 120)
    words["PyTorch"] = last_words(torch.output) if torch.status == 0 else "not there"
    return words


def check(options):
    device = nvidia.Device()
    options.cublaslt = None if os.environ.get("PLIMSOLL_CUBLASLT") else find_cublaslt(options.python)
    environment = environment_of(options, device)
    print(f"{device.name()}; " + "; ".join(f"{key} {value}" for key, value in environment.items()), flush=True)
    checks, done = Check(options), []
    figures = [{"part": PENDING_PART, **not_measured(name, bar, "no command measures it yet")} for name, bar in PENDING]
    for part in options.only:
        found = [{"part": part, **row} for row in getattr(checks, part)()]
        figures += found
        done.append(part)
        path = write_report(options.results, device.name(), environment, figures, done)
    print(path.with_suffix(".md").read_text())
    print(f"written: {path} and .md")
    return 1 if any(row["verdict"] == "misses" for row in figures) else 0


def self_test():
    """The parts with programs that pretend, and the table."""
    listing = "Gpu.\n  A\n  B  # a parameter\nGpu/Suite.\n  C/0\n"

    def outcome(output, status=0):
        return lambda *_: Outcome(status, output)

    def check_with(answers):
        def runner(command, _environment, _seconds):
            line = " ".join(map(str, command))
            for words, answer in answers.items():
                if words in line:
                    return answer(line)
            return Outcome(0, "")
        options = argparse.Namespace(tests="test_gpu", plimsoll="plimsoll", python="python", work=Path("work"), cublaslt=None)
        return Check(options, runner)

    def ok(*names):
        return "".join(f"[       OK ] {name} (1 ms)\n" for name in names)

    assert names_of(listing) == ["Gpu.A", "Gpu.B", "Gpu/Suite.C/0"]
    everything = {"list_tests": outcome(listing), "test_gpu --gtest_color=no": outcome(ok("Gpu.A", "Gpu.B", "Gpu/Suite.C/0"))}
    assert check_with(everything).tests()[0]["verdict"] == "holds"
    # One kernel's error spoils those behind it: they pass alone, and it does not.
    spoilt = {"list_tests": outcome(listing), "filter=Gpu.B": outcome("[  FAILED  ] Gpu.B (1 ms)", 1),
              "filter=Gpu/Suite.C/0": outcome(ok("Gpu/Suite.C/0")),
              "test_gpu --gtest_color=no": outcome(ok("Gpu.A"), -11)}
    row = check_with(spoilt).tests()[0]
    assert (row["verdict"], row["measured"], row["note"]) == ("misses", "2 of 3", "failed: Gpu.B"), row
    assert check_with({"list_tests": outcome("")}).tests()[0]["verdict"] == "misses"

    clean = "========= ERROR SUMMARY: 0 errors\n========= RACECHECK SUMMARY: 0 hazards displayed"
    assert [row["verdict"] for row in check_with({"compute-sanitizer": outcome(clean)}).sanitizer()] == ["holds"] * 2
    assert [row["verdict"] for row in check_with({"compute-sanitizer": outcome(clean, 9)}).sanitizer()] == ["misses"] * 2
    assert [row["verdict"] for row in check_with({"compute-sanitizer": outcome("", None)}).sanitizer()] == ["not measured"] * 2

    without_torch = {"import torch": outcome("No module named 'torch'", 1)}
    for rows in (check_with(without_torch).parity(), check_with(without_torch).speed()):
        assert all(row["verdict"] == "not measured" and "'torch'" in row["note"] for row in rows), rows
    # Who failed is told apart.
    assert check_with({"check_parity": outcome("plimsoll grad\nexit 5\nno device", 1)}).parity()[0]["verdict"] == "misses"
    assert check_with({"compare_pytorch": outcome("plimsoll bench-step\nexit 5", 1)}).speed()[0]["verdict"] == "misses"
    assert check_with({"compare_pytorch": outcome("python worker\nno Triton", 1)}).speed()[0]["verdict"] == "not measured"

    def write(line, text):
        Path(line.split("--json ")[1].split(" ")[0]).write_text(json.dumps(text))
        return Outcome(0, "")

    case = [{"case": "base-7-labels", "rows": [{"what": "logits", "measured": 2e-6, "bar": 1e-5, "where": ""},
                                               {"what": "gradients", "measured": 3e-5, "bar": 2e-5, "where": "w"}]}]
    rows = check_with({"check_parity": lambda line: write(line, case)}).parity()
    assert [row["verdict"] for row in rows] == ["holds", "misses"] * 2, rows
    runs = [{"max_memory_allocated": 3 * GIB}]
    ours = {"program": "plimsoll", "ratio": 1.0, "bar": None, "median_seconds": 0.1, "peak_bytes": 2 * GIB,
            "share_of_matmul": 0.5, "matmul_flops": 7e14, "runs": []}
    theirs = {**ours, "program": "eager", "ratio": 3.7, "bar": 3.0, "median_seconds": 0.17, "peak_bytes": 8 * GIB, "runs": runs}
    rows = check_with({"compare_pytorch": lambda line: write(line, {"rows": [ours, theirs]})}).speed()
    assert [row["verdict"] for row in rows] == ["holds"] * 12, rows
    assert rows[1]["measured"] == "2.00 of 8.00 GiB"
    assert speed_figures("eager", [ours, {**theirs, "ratio": 0.9}])[0]["verdict"] == "misses"

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "results"
        tests = [{"part": "tests", **judged("GPU tests that pass", "all", "3 of 3", True)}]
        speed = [{"part": "speed", **row} for row in rows]
        pending = [{"part": PENDING_PART, **not_measured("a figure", "a bar", "why")}]
        write_report(folder, "NVIDIA H200", {"driver": "1"}, pending + speed, ["speed"], "2026-01-02")
        path = write_report(folder, "NVIDIA H200", {"driver": "1"}, pending + tests, ["tests"], "2026-01-02")
        assert path.name == "nvidia-h200-2026-01-02.json"
        assert [row["part"] for row in json.loads(path.read_text())["figures"]] == ["tests"] + ["speed"] * 12 + [PENDING_PART]
        text = path.with_suffix(".md").read_text()
        assert "# NVIDIA H200, 2026-01-02" in text and "| GPU tests that pass | all | 3 of 3 | holds |" in text, text
    print("1 passed, 0 failed")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--tests", type=Path, default=PLIMSOLL.parent / "test" / "gpu" / "test_gpu")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch and transformers")
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "gpu_check")
    parser.add_argument("--results", type=Path, default=REPOSITORY / "bench" / "results")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    reason = nvidia.missing_device()
    if reason:
        print(f"gpu_check: nothing to check, no GPU: {reason}")
        return 0
    return check(options)


if __name__ == "__main__":
    sys.exit(main())
