#!/usr/bin/env python3
"""Tests that a run ends cleanly, whatever fails in it.

A short run (two workers that decode images, a cache, updates, evaluations, a checkpoint after every update) is repeated, each time with
one thing failing, by test/failure's library: every system call that changes a file or starts a thread once, with an error
and, where it writes, by writing half; and an allocation at every distinct call stack (eight frames) once, and, for a sample
of stacks, from there on. So is the run that resumes from that run's first checkpoint.

Each must end in time, by a documented exit code with one message, which for a call names the file and the error; or
with 0, and then with the results of the run in which nothing failed, to the byte. What carries a checkpoint's name must be
that checkpoint. Resumed without a failure, the directory must end as if nothing had happened, with nothing left over.
With --leaks a leak checker looks at every run.

  bench/inject_failures.py [--leaks] [--jobs 2] [--kinds calls halves allocations exhausted] [--every 1] [--seconds 600]

Reactions of libraries to failures that only they see are listed in EXCEPTIONS, by name and with the reason. Exit status
1 if one run is neither clean nor such an exception. Python's standard library only.
"""

import argparse
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kill_anywhere import digests, metrics, results
from program import PLIMSOLL, REPOSITORY, run

DOCUMENTED = {2, 3, 4, 5, 6}
UNREACHED = "what should fail was not reached"
# Name: the full text of the failed event or standard error; the faults that it excuses; the reason. A checkpoint that
# is not good, or a directory that does not resume, is never excused.
EXCEPTIONS = {
    "libgomp cannot start a thread": (
        ["libgomp: Thread creation failed"], ("exit code 1", "0 messages", "the message"),
        "libgomp ends the process itself, with 1; CpuBackend tries before that as many threads can be started"),
    "libgomp has no memory": (
        ["libgomp: Out of memory"], ("exit code 1", "0 messages", "the message"), "libgomp ends the process itself, with 1"),
    "oneDNN's own objects": (
        [" libdnnl.so"], ("leaks of oneDNN", "ended by signal 11", "0 messages", "the message"),
        "oneDNN 2.6 leaks, or writes through null, where one of its own allocations fails; MatmulCache asks for more than it needs "
        "before each call, so that only a failure within the call itself gets there"),
    "Leptonica's own objects": (
        [" liblept.so"], ("ended by signal 11", "0 messages", "the message"),
        "Leptonica 1.82 reads through null where one of its own small allocations fails (a path's copy, a picture's head); "
        "data/image asks for the memory before each call, so that only a failure within the call itself gets there"),
    "nlohmann's json under construction": (
        [], ("leaks of nlohmann's json",),
        "a basic_json whose constructor throws (3.11, from an initializer list) does not free the object it began; the run ends"),
}


class Scenario:
    """A run, and the files that it leaves if nothing fails."""

    def __init__(self, options, name, base, resumes):
        self.options, self.name, self.base = options, name, base
        self.arguments = [options.plimsoll, "train", "--model", "layoutlmv3-tiny", "--data", options.work / "pages" / "train.jsonl",
                          "--eval-data", options.work / "pages" / "validation.jsonl", "--budget", "1GiB", "--threads", 2,
                          "--train-batch-size", 2, "--max-steps", 3, "--save-steps", 1, "--save-total-limit", 1,
                          "--logging-steps", 1, "--dataloader-num-workers", 2]
        self.resumes = resumes
        self.ends = {}  # for directories that were resumed: the outcome of a state
        self.lock = threading.Lock()

    def execute(self, directory, environment, resumes, log):
        command = [*self.arguments, "--output-dir", directory, "--cache", directory.with_name("page-cache")]
        if resumes:
            command += ["--resume-from-checkpoint", "latest"]
        with open(log, "w") as output:
            try:
                done = subprocess.run([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT,
                                      env={**os.environ, "GOMP_SPINCOUNT": "2000", "OMP_WAIT_POLICY": "passive", **environment},
                                      timeout=self.options.timeout, stdin=subprocess.DEVNULL)
                code = done.returncode
            except subprocess.TimeoutExpired:
                code = None
        return code, Path(log).read_text(errors="replace")

    def fresh_copy(self, directory):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(directory.with_name("page-cache"), ignore_errors=True)
        if self.base is None:
            return
        for path in self.base.rglob("*"):  # hard links: the program replaces files and never changes them
            target = directory / path.relative_to(self.base)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, target)


def state_of(directory):
    """Returns a name for the contents of a directory, except times and memory."""
    if not directory.exists():
        return "nothing"
    files = digests(directory)
    for name in ("metrics.jsonl", "summary.json"):
        files.pop(name, None)
    text = json.dumps(files, sort_keys=True)
    if (directory / "metrics.jsonl").exists():
        for line in (directory / "metrics.jsonl").read_text(errors="replace").splitlines():
            try:
                text += str(json.loads(line).get("step"))
            except ValueError:
                text += "torn"
    return hashlib.sha256(text.encode()).hexdigest()


class Judge:
    def __init__(self, options):
        self.options = options
        self.environment = {"XDG_CACHE_HOME": str(options.work / "cache")}

    def preload(self, log, leaks, slot, **inject):
        preload = str(self.options.library)
        environment = dict(self.environment)
        if leaks:
            preload += f" {self.options.leak_library}"
            environment["LSAN_OPTIONS"] = f"exitcode=0:handle_segv=0:handle_abort=0:log_path={slot / 'leak'}:fast_unwind_on_malloc={0 if leaks == 'where' else 1}"
        environment["LD_PRELOAD"] = preload
        environment["PLIMSOLL_INJECT_LOG"] = str(log)
        environment.update({f"PLIMSOLL_{key.upper()}": str(value) for key, value in inject.items()})
        return environment

    def prepare(self, scenario):
        slot = self.options.work / scenario.name
        slot.mkdir(parents=True)
        directory = slot / "run"
        scenario.fresh_copy(directory)
        code, text = scenario.execute(directory, self.environment, scenario.resumes, slot / "text")
        if code != 0:
            sys.exit(f"the run in which nothing fails ended with {code}:\n{text}")
        scenario.results, scenario.metrics = results(directory), metrics(directory)
        scenario.checkpoints = self.options.checkpoints
        scenario.events = {}
        for what in ("calls", "allocations"):
            scenario.fresh_copy(directory)
            log = slot / what
            code, text = scenario.execute(directory, self.preload(log, self.options.leaks, slot, inject=what), scenario.resumes,
                                          slot / "text")
            if code != 0:
                sys.exit(f"the run that records its {what} ended with {code}:\n{text}")
            scenario.events[what] = [line.split(" ", 4 if what == "calls" else 3) for line in log.read_text().splitlines()]
        if self.leaks_of(slot):
            sys.exit(f"the run in which nothing fails leaks:\n{self.leaks_of(slot)}")

    @staticmethod
    def leaks_of(slot):
        return "".join(path.read_text(errors="replace") for path in sorted(slot.glob("leak.*")))

    def faults_of_results(self, scenario, directory):
        found = results(directory)
        faults = [f"{name} differs" for name in sorted(found.keys() & scenario.results.keys()) if found[name] != scenario.results[name]]
        faults += [f"{name} is missing" for name in sorted(scenario.results.keys() - found.keys())]
        faults += [f"{name} is left over" for name in sorted(found.keys() - scenario.results.keys())]
        if not faults and metrics(directory) != scenario.metrics:
            faults.append("metrics.jsonl differs")
        return faults

    def judge(self, scenario, slot, inject, expected):
        """Runs once; returns (exit code, faults, text, failed line)."""
        shutil.rmtree(slot, ignore_errors=True)
        slot.mkdir(parents=True)
        directory, log = slot / "run", slot / "log"
        scenario.fresh_copy(directory)
        code, text = scenario.execute(directory, self.preload(log, self.options.leaks, slot, **inject), scenario.resumes, slot / "text")
        failed = log.read_text().strip() if log.exists() else ""
        faults = []
        if not failed:
            faults.append(UNREACHED)
        if code is None:
            faults.append("hangs")
        elif code < 0:
            faults.append(f"ended by signal {-code}")
        elif code == 0:
            faults += self.faults_of_results(scenario, directory)
        elif code not in DOCUMENTED:
            faults.append(f"exit code {code}")
        if code not in (0, None):
            count = text.count("error: ")
            if count != 1:
                faults.append(f"{count} messages")
            faults += [f"the message does not say '{part}'" for part in expected
                       if not any(each in text for each in part.split(" or "))]
        if directory.exists():
            for path in directory.glob("checkpoint-*"):
                if digests(path) != scenario.checkpoints.get(path.name):
                    faults.append(f"{path.name} is not what it should be")
        leaks = self.leaks_of(slot)
        if leaks:
            # Runs again with whole stacks, which takes longer, to find whose objects they are.
            shutil.rmtree(slot / "again", ignore_errors=True)
            again = slot / "again"
            again.mkdir()
            scenario.fresh_copy(again / "run")
            scenario.execute(again / "run", self.preload(again / "log", "where", again, **inject), scenario.resumes, again / "text")
            found = self.leaks_of(again) or leaks
            # An indirect leak belongs to a direct one, unless the objects point to each other.
            records = found.split("Direct leak of")[1:] or found.split("Indirect leak of")[1:]
            faults += sorted({f"leaks {owner_of(record)}" for record in records})
            text += "".join(records)
        if code != 0:
            state = state_of(directory)
            with scenario.lock:
                known = scenario.ends.get(state)
            if known is None:
                again, said = scenario.execute(directory, self.environment, True, slot / "resumed")
                known = [f"resumed, it ended with {again}: {said}"] if again != 0 else [
                    f"after it resumed, {fault}" for fault in self.faults_of_results(scenario, directory)]
                with scenario.lock:
                    scenario.ends[state] = known
            faults += known
        return code, faults, text, failed


def owner_of(record):
    """Returns the owner of a leaked object: the library nearest to the allocation in its stack."""
    for line in record.splitlines():
        if "nlohmann::" in line or "libdnnl" in line:
            return "of nlohmann's json" if "nlohmann::" in line else "of oneDNN"
        if " in plimsoll::" in line:
            return "of ours"
    return "of nobody that its stack names"


def expected_of_call(event, number):
    name, path = event[2], event[4]
    if name == "pthread_create":
        return ["thread", os.strerror(errno.EAGAIN)]
    if name == "unlinkat":  # its path is relative to a directory that is being removed, so that one is named
        return [os.strerror(number)]
    return [os.strerror(number), Path(path).name.removesuffix(".plimsoll.tmp")]


def symbols(program, frames):
    """Returns the function names of a stack's frames, for the program only."""
    offsets = [frame.split("+")[1] for frame in frames if frame.startswith("program+")]
    if not offsets:
        return " ".join(frames)
    out = subprocess.run(["addr2line", "-Cfse", str(program), *[hex(int(offset, 16) - 1) for offset in offsets]],
                         capture_output=True, text=True).stdout.splitlines()[::2]
    return " < ".join(name[:100] for name in out) + " | " + " ".join(frame for frame in frames if not frame.startswith("program+"))


def exception_for(text, failed, faults):
    for name, (words, excused, _) in EXCEPTIONS.items():
        if all(word in text or word in failed for word in words) and all(fault.startswith(excused) for fault in faults):
            return name
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["calls", "halves", "allocations", "exhausted"])
    parser.add_argument("--scenarios", nargs="+", default=["afresh", "resumed"])
    parser.add_argument("--every", type=int, default=1, help="take every Nth place only")
    parser.add_argument("--first", type=int, default=0, help="begin with this place")
    parser.add_argument("--last", type=int, default=1 << 30, help="end before this place")
    parser.add_argument("--exhausted-every", type=int, default=40, help="of stacks from which on all allocations fail")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing more after so long, and say so")
    parser.add_argument("--timeout", type=float, default=60, help="seconds after which a run hangs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--leaks", action="store_true", help="under the leak checker that the compiler brings")
    parser.add_argument("--plimsoll", type=Path, default=PLIMSOLL)
    parser.add_argument("--library", type=Path, help="default: libplimsoll_inject.so of the program's build")
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "inject_failures")
    options = parser.parse_args()
    if options.library is None:
        options.library = options.plimsoll.parent / "test" / "failure" / "libplimsoll_inject.so"
    if options.leaks:
        options.leak_library = subprocess.run(["g++", "-print-file-name=liblsan.so"], capture_output=True, text=True).stdout.strip()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    os.environ.update({"XDG_CACHE_HOME": str(options.work / "cache")})
    run(options.plimsoll, "calibrate", "--threads", 2)
    run(options.plimsoll, "synth", "--output", options.work / "pages", "--count", 6, "--validation-fraction", 0.34)
    judge = Judge(options)

    # Keeps every checkpoint of the run, and the directory of a run that was killed while it saved the second.
    every = Scenario(options, "every", None, False)
    every.arguments[every.arguments.index("--save-total-limit") + 1] = 0
    code, text = every.execute(options.work / "whole", {}, False, options.work / "text")
    if code != 0:
        sys.exit(f"the run in which nothing fails ended with {code}:\n{text}")
    options.checkpoints = {path.name: digests(path) for path in (options.work / "whole").glob("checkpoint-*")}
    base = options.work / "killed"
    shutil.copytree(options.work / "whole" / "checkpoint-1", base / "checkpoint-1")
    shutil.copytree(options.work / "whole" / "checkpoint-2", base / ".plimsoll" / "checkpoint-2")
    (base / ".plimsoll" / "checkpoint-2" / "trainer_state.json").unlink()
    shutil.copy(options.work / "whole" / "metrics.jsonl", base)
    before = digests(base)
    scenarios = [scenario for scenario in (Scenario(options, "afresh", None, False), Scenario(options, "resumed", base, True))
                 if scenario.name in options.scenarios]

    begin, bad, unreached, done_stacks = time.monotonic(), 0, 0, set()
    excused = Counter()
    print(f"{'run':8} {'what fails':12} {'places':>7} {'tried':>6} {'clean':>6} {'excused':>8} {'missed':>7} {'faults':>7}  exit codes", flush=True)
    for scenario in scenarios:
        judge.prepare(scenario)
        calls = scenario.events["calls"]
        stacks = [event for event in scenario.events["allocations"] if event[1] not in done_stacks]
        done_stacks |= {event[1] for event in stacks}
        for kind in options.kinds:
            places = {"calls": calls, "halves": [event for event in calls if event[2] in ("write", "writev", "pwrite")],
                      "allocations": stacks, "exhausted": stacks[::options.exhausted_every]}[kind]
            tried = places[options.first:options.last:options.every]

            def one(numbered):
                number, event = numbered
                if time.monotonic() - begin > options.seconds:
                    return event, None
                slot = options.work / f"slot-{threading.get_ident()}"
                if kind in ("calls", "halves"):
                    error = errno.EAGAIN if event[2] == "pthread_create" else (errno.ENOSPC, errno.EIO)[number % 2]
                    inject = {"inject": "calls", "inject_at": event[1], "inject_how": error if kind == "calls" else "short"}
                    expected = expected_of_call(event, error)
                else:
                    inject = {"inject": "allocations", "inject_at": event[1], "inject_how": "once" if kind == "allocations" else "on"}
                    expected = ["memory or another thread"]  # needed to start a thread
                for _ in range(3):  # a few places depend on the threads' schedule
                    verdict = judge.judge(scenario, slot, inject, expected)
                    if UNREACHED not in verdict[1]:
                        break
                return event, verdict

            codes, clean, faulty, let_pass, missed, left = Counter(), 0, 0, 0, 0, 0
            with ThreadPoolExecutor(options.jobs) as pool:
                for event, verdict in pool.map(one, enumerate(tried)):
                    if verdict is None:
                        left += 1
                        continue
                    code, faults, text, failed = verdict
                    codes["hangs" if code is None else code] += 1
                    if not faults:
                        clean += 1
                        continue
                    if faults == [UNREACHED]:
                        missed += 1
                        continue
                    if (name := exception_for(text, failed, faults)) is not None:
                        let_pass += 1
                        excused[name] += 1
                        continue
                    faulty += 1
                    print(f"\n{scenario.name}, {kind} {' '.join(event[:3])} {event[3] if kind in ('calls', 'halves') else ''}"
                          f"{event[4] if len(event) > 4 else ''}: {'; '.join(faults)}", flush=True)
                    if kind in ("allocations", "exhausted"):
                        print("  stack: " + symbols(options.plimsoll, event[3].split()))
                    print("  " + "\n  ".join(text.strip().splitlines()[-12:]), flush=True)
            bad += faulty
            print(f"{scenario.name:8} {kind:12} {len(places):7} {len(tried) - left:6} {clean:6} {let_pass:8} {missed:7} {faulty:7}  "
                  + ", ".join(f"{code}: {count}" for code, count in sorted(codes.items(), key=str)), flush=True)
    if digests(base) != before:
        bad += 1
        print("a file was changed in place that should have been replaced")
    for name, count in excused.items():
        print(f"excused {count} times: {name}: {EXCEPTIONS[name][2]}")
    print("bar: every failure ends cleanly, with good checkpoints"
          f"{' and no leak' if options.leaks else ''}:", "holds" if bad == 0 else "FAILS")
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
