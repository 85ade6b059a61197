"""Runs the package's tests; where PLIMSOLL_TEST_TALLY names a file, counts them there as the C++ tests do."""

import os
import sys
import unittest
from pathlib import Path


class Tally(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        path = os.environ.get("PLIMSOLL_TEST_TALLY")
        self.file = open(path, "w", encoding="utf-8") if path else None

    def note(self, line):
        if self.file:
            print(line, file=self.file, flush=True)

    def name(self, test):
        return ".".join(test.id().split(".")[-2:])

    def startTest(self, test):
        super().startTest(test)
        self.note(f"begin {self.name(test)}")

    def end(self, outcome, test):
        self.note(f"{outcome} {self.name(test)}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.end("passed", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.end("skipped", test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.end("failed", test)

    def addError(self, test, error):
        super().addError(test, error)
        self.end("failed", test)


class Runner(unittest.TextTestRunner):
    resultclass = Tally

    def run(self, test):
        self.count = test.countTestCases()
        return super().run(test)

    def _makeResult(self):
        result = super()._makeResult()
        result.note(f"cases {self.count}")
        return result


if __name__ == "__main__":
    tests = unittest.defaultTestLoader.discover(str(Path(__file__).resolve().parent))
    sys.exit(not Runner(verbosity=2).run(tests).wasSuccessful())
