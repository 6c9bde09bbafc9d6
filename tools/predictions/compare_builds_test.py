#!/usr/bin/env python3
"""Tests of compare_builds.py: a program agrees with itself, and a figure that differs in one place is found.

usage: compare_builds_test.py PROGRAM
"""

import pathlib
import sys
import tempfile
import unittest

import compare_builds

PROGRAM = sys.argv.pop(1)
WORDS = ["--model", "tiny", "--card", "h100", "--dtype", "fp32,bf16"]


class CompareBuilds(unittest.TestCase):
    def altered(self, body):
        """Compares the program with one whose output `body` alters."""
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder, "other")
            other.write_text(f'#!/bin/bash\nset -o pipefail\n"{PROGRAM}" "$@" | {body}\n')
            other.chmod(0o755)
            return compare_builds.compare([PROGRAM, str(other)], [WORDS])

    def test_the_time_of_day_and_the_commit_do_not_count(self):
        body = """sed -E 's/"timestamp":"[^"]*"/"timestamp":"then"/; s/"revision":"[^"]*"/"revision":"other"/'"""
        self.assertEqual(self.altered(body), (2, []))

    def test_one_digit_is_found_and_shown(self):
        agree, faults = self.altered("""sed 's/"predicted_ms":[0-9]/&7/'""")
        self.assertEqual((agree, len(faults)), (0, 1))
        self.assertIn("plan --model tiny --card h100", faults[0])
        self.assertIn('"predicted_ms":', faults[0])

    def test_a_plan_that_no_program_makes_is_a_fault(self):
        agree, faults = compare_builds.compare([PROGRAM, PROGRAM], [["--model", "none-such"]])
        self.assertEqual(agree, 0)
        self.assertIn("both fail", faults[0])


if __name__ == "__main__":
    unittest.main()
