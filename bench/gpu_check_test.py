#!/usr/bin/env python3
"""Tests bench/gpu_check.py and the scripts that it calls without a GPU, with fake programs. Python's standard library only."""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import compare_pytorch
import tight_budget
from gpu_check import Check, Outcome, PARTS, names_of, run
from gpu_report import (GIB, budget_figures, judged, neighbour_figures, peaks_figures, ranks_figures, rate_figure,
                        speed_figures, write_report)
from hold_memory import SMALLEST, Holder
from program import MIB

BENCH = Path(__file__).resolve().parent

# A fake plimsoll whose plans take 100 to 200 MiB. The requested options decide how it ends.
PRETENDED = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
option = lambda name, usual="": words[words.index(name) + 1] if name in words else usual
if words[0] == "plan":
    print(json.dumps({{"sweep": [{{"budget_bytes": mib << 20}} for mib in (100, 200)]}}))
if words[0] != "train":
    sys.exit(0)
output = pathlib.Path(option("--output-dir"))
output.mkdir(parents=True)
budget = option("--budget")
mib = int(budget[:-3]) if budget.endswith("MiB") else int(budget or 1 << 40) >> 20
if mib < 100:
    print("warning: anything\\nerror: too small", file=sys.stderr)
    sys.exit(4)
if option("--optim") == "adamw_8bit" and "--bf16" in words:
    print("error: the GPU has less free memory", file=sys.stderr)
    sys.exit(5)
(output / "plan.json").write_text("{{}}")
if option("--optim") == "adamw_8bit":
    print("error: the GPU refused: a step that was recorded", file=sys.stderr)
    sys.exit(5)
predicted = min(mib, 1000) << 20
measured = predicted + ((9 << 20) if option("--optim") == "adafactor" else -(1 << 20))
seconds = 0.1 if mib > 1000 else 0.115
pages = int(option("--train-batch-size"))
# The first update takes a second, and half of the time is spent waiting.
lines = [{{"step": n, "pages_per_second": n * pages / (2 * (1 + (n - 1) * seconds)), "data_wait": 0.5}}
         for n in range(1, int(option("--max-steps")) + 1)]
(output / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
(output / "summary.json").write_text(json.dumps({{"predicted_peak_bytes": predicted, "measured_peak_bytes": measured,
                                                  "micro_batch_size": 2, "data_wait": 0.5, "device_busy": 0.97, "loss": 1.0}}))
"""

# A fake plimsoll that is one of two ranks; at bf16 its losses depend on the stage.
PRETENDED_RANK = """#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
option = lambda name, usual="": words[words.index(name) + 1] if name in words else usual
if words[0] != "train":
    sys.exit(0)
ranks = int(os.environ["WORLD_SIZE"])
assert os.environ["MASTER_ADDR"] and int(os.environ["MASTER_PORT"]) and os.environ["LOCAL_RANK"] == os.environ["RANK"]
if os.environ["RANK"] != "0":
    sys.exit(0)
output = pathlib.Path(option("--output-dir"))
output.mkdir(parents=True)
off = int(option("--zero-stage", "0")) if "--bf16" in words else 0
lines = [{{"step": n, "loss": 1 / n + off}} for n in range(1, int(option("--max-steps")) + 1)]
(output / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
peaks = {{"predicted_peak_bytes": 100, "measured_peak_bytes": 99}}
more = {{"ranks": [peaks] * ranks}} if ranks > 1 else {{}}
(output / "summary.json").write_text(json.dumps({{**peaks, "seconds": 1.0, **more}}))
"""


def verdicts(rows):
    return [row["verdict"] for row in rows]


def outcome(output, status=0):
    return lambda *_: Outcome(status, output)


def check_with(answers):
    """Returns a check whose commands get the first of `answers` whose words they contain."""

    def runner(command, _environment, _seconds):
        line = " ".join(map(str, command))
        for words, answer in answers.items():
            if words in line:
                return answer(line)
        return Outcome(0, "")
    options = argparse.Namespace(tests="test_gpu", plimsoll="plimsoll", python="python", work=Path("work"), cublaslt=None,
                                 nccl=None, gpus=2, rounds=3, seconds=400)
    return Check(options, runner)


def writes(report, status=0):
    """Returns an answer that leaves a report."""

    def answer(line):
        Path(line.split("--json ")[1].split(" ")[0]).write_text(json.dumps(report))
        return Outcome(status, "")
    return answer


def test_tests():
    listing = "Gpu.\n  A\n  B  # a parameter\nGpu/Suite.\n  C/0\n"

    def ok(*names):
        return "".join(f"[       OK ] {name} (1 ms)\n" for name in names)

    assert names_of(listing) == ["Gpu.A", "Gpu.B", "Gpu/Suite.C/0"]
    everything = {"list_tests": outcome(listing), "test_gpu --gtest_color=no": outcome(ok("Gpu.A", "Gpu.B", "Gpu/Suite.C/0"))}
    assert check_with(everything).tests()[0]["verdict"] == "holds"
    # One kernel's error makes the later tests fail: run alone they pass, and it does not.
    spoilt = {"list_tests": outcome(listing), "filter=Gpu.B": outcome("[  FAILED  ] Gpu.B (1 ms)", 1),
              "filter=Gpu/Suite.C/0": outcome(ok("Gpu/Suite.C/0")),
              "test_gpu --gtest_color=no": outcome(ok("Gpu.A"), -11)}
    row = check_with(spoilt).tests()[0]
    assert (row["verdict"], row["measured"], row["note"]) == ("misses", "2 of 3", "failed: Gpu.B"), row
    assert check_with({"list_tests": outcome("")}).tests()[0]["verdict"] == "misses"


def test_sanitizer():
    clean = "========= ERROR SUMMARY: 0 errors\n========= RACECHECK SUMMARY: 0 hazards displayed"
    for answer, expected in ((outcome(clean), "holds"), (outcome(clean, 9), "misses"), (outcome("", None), "not measured"),
                             (outcome("========= Error: Device not supported", 1), "not measured")):
        assert verdicts(check_with({"compute-sanitizer": answer}).sanitizer()) == [expected] * 2


def test_who_failed():
    without_torch = check_with({"import torch": outcome("No module named 'torch'", 1)})
    for part in ("parity", "families", "generation", "speed", "compile-autotune", "large", "language", "budget"):
        assert all(row["verdict"] == "not measured" and "'torch'" in row["note"] for row in without_torch.part(part)), part
    # The failure is in Plimsoll, in PyTorch, or a time limit.
    for part, ours, theirs in (("parity", "plimsoll grad\nexit 5", None), ("speed", "plimsoll bench-step\nexit 5", "worker\nno Triton"),
                               ("large", "plimsoll bench-step\nexit 5", "worker\nno memory"),
                               ("families", "plimsoll grad\nexit 5", "reference\nno memory"),
                               ("generation", "plimsoll init\nexit 5", "generate\nno memory"),
                               ("language", "plimsoll train\nended with 5", "worker\nno memory"),
                               ("budget", "plimsoll train\nended with 5:\nno device", "worker\nexit 1"),
                               ("peaks", "plimsoll init\nended with 5", None), ("neighbour", "plimsoll plan ended with 5", None),
                               ("ranks", "plimsoll train\n2 ranks, ended with 5", None)):
        assert check_with({"/": outcome(ours, 1)}).part(part)[0]["verdict"] == "misses", part
        if theirs:
            assert check_with({"/": outcome(theirs, 1)}).part(part)[0]["verdict"] == "not measured", part
    for part in ("large", "budget", "peaks", "neighbour", "ranks"):
        row = check_with({"/": outcome("ended after 540 s", None)}).part(part)[0]
        assert (row["verdict"], row["note"]) == ("not measured", "ended after 540 s"), row


def test_parity_and_speed():
    case = [{"case": "base-7-labels", "rows": [{"what": "logits", "measured": 2e-6, "bar": 1e-5, "where": ""},
                                               {"what": "gradients", "measured": 3e-5, "bar": 2e-5, "where": "w"}]}]
    assert verdicts(check_with({"check_parity": writes(case)}).parity()) == ["holds", "misses"] * 2
    runs = [{"max_memory_allocated": 3 * GIB}]
    ours = {"program": "plimsoll", "ratio": 1.0, "bar": None, "median_seconds": 0.1, "peak_bytes": 2 * GIB,
            "share_of_matmul": 0.45, "matmul_flops": 7e14, "runs": []}
    theirs = {**ours, "program": "eager", "ratio": 3.7, "bar": 3.0, "median_seconds": 0.17, "peak_bytes": 8 * GIB, "runs": runs}
    check = check_with({"compare_pytorch": writes({"rows": [ours, theirs]})})
    rows = check.part("speed")
    assert verdicts(rows) == ["holds"] * 3 and "eager" in rows[0]["figure"], rows
    assert "compile-overhead" in check.part("compile-overhead")[0]["figure"]
    assert rows[1]["measured"] == "2.00 of 8.00 GiB"
    # The budget follows from the peak that was measured: PyTorch need not run again.
    assert check.eager_peak == 8 * 1024
    asked = []
    check.runner = lambda command, *_: asked.append(" ".join(map(str, command))) or outcome("")(command, {})
    check.part("budget")
    assert any("tight_budget.py" in command and command.endswith("--peak 8192") for command in asked), asked
    assert speed_figures("eager", [ours, {**theirs, "ratio": 0.9}])[0]["verdict"] == "misses"
    # The same rate is too low for the large model.
    row = check_with({"--shape large --programs --steps": writes({"rows": [ours]})}).large()[0]
    assert (row["verdict"], row["bar"], row["measured"]) == ("misses", "0.5", "0.45"), row
    assert rate_figure("large", {**ours, "share_of_matmul": 0.5})["verdict"] == "holds"


def test_families_and_language():
    rows = [{"what": "logits", "measured": 2e-6, "bar": 1e-5, "where": ""}, {"what": "names", "measured": 0, "bar": 0, "where": ""}]
    good, bad = {"case": "gpt2, causal-lm", "rows": rows}, {"case": "llama, causal-lm", "rows": [{**rows[0], "measured": float("nan")}]}
    row = check_with({"check_families": writes([good])}).part("families")[0]
    assert row["verdict"] == "holds" and "gpt2, causal-lm: logits 2e-06" in row["note"], row
    row = check_with({"check_families": writes([good, bad])}).part("families")[0]
    assert (row["verdict"], row["measured"]) == ("misses", "1 of 2") and "llama" in row["note"], row
    for last, status, verdict in ((4, 0, "holds"), (3, 1, "misses")):
        told = f"gpt2, own head: 4 of 4 texts of 64 tokens are the same\nllama, tied head: {last} of 4 texts of 64 tokens are the same"
        row = check_with({"check_generation": outcome(told, status)}).part("generation")[0]
        assert (row["verdict"], row["measured"]) == (verdict, f"{4 + last} of 8"), row
    row = {"shape": "gpt2", "way": "full", "precision": "bf16", "ratio": 0.5, "bar": 0.8, "holds": True, "seconds": 0.01,
           "their_seconds": 0.02, "peak_mib": 700, "their_peak_mib": 4000}
    check = check_with({"language_steps": writes({"rows": [row, {**row, "ratio": 0.9, "holds": False}]})})
    assert verdicts(check.part("language")) == ["holds", "misses"]


def test_ranks(folder):
    """Tests the evaluation of gpu_ranks.py, and the script itself with a program that pretends to be one of two ranks."""
    run_of = {"seconds": 2.0}
    row = {"precision": "fp32", "same_losses": True, "largest_difference": 1e-6, "tolerance": 1e-4, "updates": 20,
           "above_plan_bytes": -MIB, "runs": [run_of, run_of]}
    report = {"ranks": 2, "rows": [row]}
    check = check_with({"gpu_ranks": writes(report)})
    assert verdicts(check.part("ranks")) == ["holds"]
    for change in ({"same_losses": False}, {"largest_difference": 1e-3}, {"above_plan_bytes": 1}):
        assert verdicts(ranks_figures({"ranks": 2, "rows": [{**row, **change}]})) == ["misses"], change
    check.options.gpus = 1
    found = check.part("ranks")[0]
    assert (found["verdict"], found["note"]) == ("not measured", "1 GPU on this machine"), found
    missing = check_with({"/": outcome("error: NCCL, which moves tensors between GPUs, cannot be loaded", 1)})
    assert missing.part("ranks")[0]["note"] == "NCCL is not installed here"

    plimsoll = folder / "plimsoll"
    plimsoll.write_text(PRETENDED_RANK.format(python=sys.executable))
    plimsoll.chmod(0o755)
    result = subprocess.run([sys.executable, BENCH / "gpu_ranks.py", "--emulated", "--plimsoll", plimsoll, "--steps", "3", "--work",
                             folder / "work", "--json", folder / "report.json"], capture_output=True, text=True)
    assert result.returncode == 1, result.stdout + result.stderr
    fp32, bf16 = json.loads((folder / "report.json").read_text())["rows"]
    assert fp32["same_losses"] and fp32["largest_difference"] == 0 and fp32["above_plan_bytes"] == -1, fp32
    assert not bf16["same_losses"], bf16
    assert verdicts(ranks_figures({"ranks": 2, "rows": [fp32, bf16]})) == ["holds", "misses"]


def test_measurements(folder):
    """Tests the scripts themselves, and the evaluation of their reports."""
    plimsoll = folder / "plimsoll"
    plimsoll.write_text(PRETENDED.format(python=sys.executable))
    plimsoll.chmod(0o755)

    def measured(script, *arguments):
        report = folder / "report.json"
        report.unlink(missing_ok=True)
        result = subprocess.run([sys.executable, BENCH / script, "--device", "cuda", "--emulated", "--plimsoll", plimsoll, "--work",
                                 folder / "work", "--json", report, *map(str, arguments)], capture_output=True, text=True)
        assert result.returncode in (0, 1), result.stdout + result.stderr
        return json.loads(report.read_text()), result

    wanted = argparse.Namespace(shape="large", device="cuda", emulated=True, batch_size=2, length=64, threads=3,
                                plimsoll="plimsoll", work=folder)
    theirs = compare_pytorch.parse(tight_budget.words_for_pytorch(wanted))
    assert (theirs.family, theirs.shape, theirs.programs, theirs.length) == ("layoutlmv3", "large", ["eager"], 64), theirs
    report, result = measured("tight_budget.py", "--peak", 1600, "--rounds", 1)
    row = budget_figures(report)[0]
    assert (row["verdict"], row["measured"]) == ("holds", "1.15") and report["budget_bytes"] == 200 * MIB, (row, report)
    assert budget_figures({**report, "ratio": 1.21})[0]["verdict"] == "misses"
    assert budget_figures({**report, "peak_bytes": 201 * MIB})[0]["verdict"] == "misses"
    report, result = measured("tight_budget.py", "--peak", 400, "--rounds", 1)
    row = budget_figures(report)[0]
    assert row["measured"] == "refused" and row["note"].endswith(": error: too small") and result.returncode == 1, row

    # Of eleven levers, three end with an error or above the prediction.
    report, result = measured("predicted_against_measured.py", "--runs", 11)
    failures = {" ".join(row["levers"]): row["failure"] for row in report["rows"] if row["failure"]}
    assert result.returncode == 1 and report["failed"] == 3 and report["above_prediction"] == 1, result.stdout
    assert failures["--optim adafactor"] == "above its budget" and "ended with 5" in failures["--optim adamw_8bit"], failures
    assert peaks_figures(report)[0]["verdict"] == "misses"
    report, result = measured("predicted_against_measured.py", "--runs", 3)
    assert result.returncode == 0 and peaks_figures(report)[0]["verdict"] == "holds", result.stdout
    report, result = measured("predicted_against_measured.py", "--runs", 3, "--seconds", 0)
    assert result.returncode == 1 and peaks_figures(report)[0]["verdict"] == "not measured", report

    # One run is refused before it held its memory, one fails afterwards.
    report, result = measured("random_budgets.py", "--runs", 5, "--models", "layoutlmv3-tiny")
    assert [report[kind] for kind in ("done", "refused", "failed")] == [3, 1, 1] and result.returncode == 1, result.stdout
    report["neighbour"] = {"most_bytes": 70 * GIB, "times_full": 9}
    assert neighbour_figures(report)[0]["verdict"] == "misses"
    assert neighbour_figures({**report, "failed": 0})[0]["verdict"] == "holds"
    assert neighbour_figures({**report, "failed": 0, "asked": 6})[0]["verdict"] == "not measured"
    assert neighbour_figures({**report, "failed": 0, "done": 0})[0]["verdict"] == "not measured"


class PretendedDevice:
    def __init__(self, size):
        self.size, self.held, self.last = size, {}, 0

    def free_bytes(self):
        return self.size - sum(self.held.values())

    def take(self, size):
        assert size >= SMALLEST
        if size > self.free_bytes() or size > self.size * 3 // 4:  # not all of it in one piece
            return None
        self.last += 1
        self.held[self.last] = size
        return self.last

    def give(self, address):
        del self.held[address]


def test_holder():
    device = PretendedDevice(GIB)
    holder, left = Holder(device, random.Random(1)), []
    for _ in range(200):
        holder.change()
        left.append(device.free_bytes())
    assert min(left) < SMALLEST and max(left) == GIB and len(set(left)) > 50, left
    assert holder.times_full == sum(free < SMALLEST for free in left) and holder.most_bytes > GIB - SMALLEST
    holder.give_all()
    assert device.held == {}


def test_run():
    """A command whose time is up is ended with its child processes."""
    result = run(["sh", "-c", "echo begun; sleep 60 & sleep 60"], {}, 1)
    assert result.status is None and result.output == "begun\n\nended after 1 s", result.output
    assert run(["sh", "-c", "echo $WORD; exit 3"], {"WORD": "w"}, 60).output == "w\n"
    assert run(["/nowhere/to/be/found"], {}, 60).status == 127


def test_report(folder):
    def figures(part, name, count=1):
        return [{"part": part, **judged(name, "all", "3 of 3", True)}] * count

    write_report(folder, "NVIDIA H200", {"driver": "1"}, figures("speed", "a step", 2) + figures("gone", "of another time"),
                 (*PARTS, "gone"), "2026-01-02")
    write_report(folder, "NVIDIA H200", {"driver": "1"}, figures("tests", "GPU tests that pass"), PARTS, "2026-01-02")
    path = write_report(folder, "NVIDIA H200", {"driver": "1"}, figures("speed", "another step"), PARTS, "2026-01-02")
    assert path.name == "nvidia-h200-2026-01-02.json"
    assert [row["figure"] for row in json.loads(path.read_text())["figures"]] == ["GPU tests that pass", "another step"]
    text = path.with_suffix(".md").read_text()
    assert "# NVIDIA H200, 2026-01-02" in text and "| GPU tests that pass | all | 3 of 3 | holds |" in text, text


def main():
    test_tests()
    test_sanitizer()
    test_who_failed()
    test_parity_and_speed()
    test_families_and_language()
    test_holder()
    test_run()
    with tempfile.TemporaryDirectory() as name:
        test_measurements(Path(name))
    with tempfile.TemporaryDirectory() as name:
        test_ranks(Path(name))
    with tempfile.TemporaryDirectory() as name:
        test_report(Path(name) / "results")
    print("10 passed, 0 failed")


if __name__ == "__main__":
    main()
