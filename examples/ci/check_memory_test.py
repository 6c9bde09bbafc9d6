#!/usr/bin/env python3
"""Tests of check_memory.sh: plans that are as committed pass, one that needs more or does not fit fails.

usage: check_memory_test.py PROGRAM
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
SCRIPT = pathlib.Path(__file__).with_name("check_memory.sh")


class CheckMemory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.committed = self.folder / "plans.jsonl"
        self.summary = self.folder / "summary.md"

    def check(self, *lines, more=()):
        configurations = self.folder / "configurations.txt"
        configurations.write_text("# a comment\n\n" + "\n".join(lines), encoding="utf-8")
        environment = {**os.environ, "RIDGEPOINT": PROGRAM, "GITHUB_STEP_SUMMARY": str(self.summary)}
        return subprocess.run([SCRIPT, configurations, self.committed, *more], capture_output=True, text=True, check=False,
                              env=environment)

    def accept(self, *lines):
        self.committed.write_text("", encoding="utf-8")
        self.check(*lines)  # which finds nothing to compare with
        (self.folder / "NEW.jsonl").rename(self.committed)

    def test_the_example_passes_where_nothing_changed(self):
        lines = SCRIPT.with_name("configurations.txt").read_text(encoding="utf-8").splitlines()
        self.accept(*lines)
        result = self.check(*lines, more=["0%", "0%"])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("| memory ratio |", result.stdout)
        self.assertEqual(self.summary.read_text(encoding="utf-8").count("### Memory of the configurations"), 2)

    def test_more_memory_and_more_time_fail_with_codes_of_their_own(self):
        self.accept("--model small --batch 4 --card h100")
        committed = self.committed.read_text(encoding="utf-8")
        self.committed.write_text(committed.replace('"batch":4', '"batch":5'), encoding="utf-8")
        result = self.check("--model small --batch 5 --card h100")
        self.assertEqual(result.returncode, 5, result.stdout)
        self.assertIn("needs more memory than its baseline by more than 1%", result.stdout)
        self.assertEqual(self.check("--model small --batch 5 --card h100", more=["50%", "3%"]).returncode, 3)
        self.assertEqual(self.check("--model small --batch 5 --card h100", more=["50%"]).returncode, 0)

    def test_what_does_not_fit_or_is_no_option_ends_the_check(self):
        self.accept("--model tiny")
        result = self.check("--model 2.7b --batch 64 --card h100 --fail-unless-fits")
        self.assertEqual(result.returncode, 4)
        self.assertIn("**`ridgepoint plan --model 2.7b --batch 64 --card h100 --fail-unless-fits` fails with exit code 4.**",
                      self.summary.read_text(encoding="utf-8"))
        self.assertEqual(self.check("--modle tiny").returncode, 2)


if __name__ == "__main__":
    unittest.main()
