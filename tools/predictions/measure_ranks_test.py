#!/usr/bin/env python3
"""Tests of measure_ranks.py: plans of eight cards, all parts on four ranks of the processor, and a program that fails.

usage: measure_ranks_test.py PROGRAM
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
SCRIPT = pathlib.Path(__file__).with_name("measure_ranks.py")


class MeasureRanks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def measure(self, *words, program=PROGRAM):
        return subprocess.run([sys.executable, SCRIPT, "--program", program, "--output", self.folder, *words],
                              capture_output=True, text=True, check=False)

    def test_eight_cards_are_planned(self):
        result = self.measure("--ranks", "8", "--device", "null", "--card", "h100")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rows = [line for line in result.stdout.splitlines() if line.startswith("| ")]
        self.assertEqual(len(rows), 1 + 4 * 4)
        self.assertTrue(all(float(row.split("|")[-2]) > 0 for row in rows[1:]))

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_every_part_runs_on_four_ranks_of_the_processor(self):
        result = self.measure("--ranks", "4", "--device", "cpu", "--quick", "--peer", "echo seen")
        checks = (self.folder / "checks.txt").read_text()
        self.assertEqual(result.returncode, 0, checks)
        self.assertEqual(checks.count("\nok: "), 12, checks)
        self.assertIn("4 runs agree to the byte, 0 differ.", checks)
        self.assertEqual((self.folder / "peer.txt").read_text(), "seen\n")
        self.assertLess(len(list(self.folder.iterdir())), 8)

    def test_a_failure_is_said(self):
        result = self.measure("--ranks", "2", "--device", "cpu", "--quick", "--only", "collectives", program="/bin/false")
        self.assertEqual(result.returncode, 1)
        self.assertIn("1 checks failed", result.stdout)


if __name__ == "__main__":
    unittest.main()
