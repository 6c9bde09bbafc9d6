#!/usr/bin/env python3
"""Tests of compare_plan.py: runs on the CPU agree with their plans, and a changed figure is found.

usage: compare_plan_test.py PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
SCRIPT = pathlib.Path(__file__).with_name("compare_plan.py")
BENCH = ["bench", "--device", "cpu", "--model", "tiny", "--context", "32", "--batch", "1",
         "--mode", "training_forward,step", "--compile", "off,full", "--warmup", "1", "--steps", "4", "--format", "jsonl"]


class ComparePlan(unittest.TestCase):
    def compare(self, records):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rows.jsonl")
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
            words = [sys.executable, SCRIPT, "--program", PROGRAM, path]
            return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)

    def test_runs_agree_and_a_changed_figure_is_found(self):
        output = subprocess.run([PROGRAM, *BENCH], stdout=subprocess.PIPE, text=True, check=True).stdout
        records = [json.loads(line) for line in output.splitlines()]
        same = self.compare(records)
        self.assertEqual((same.returncode, same.stdout), (0, "4 runs agree to the byte, 0 differ.\n"))
        records[2]["memory_bytes"]["peak_reserved"] += 512
        records[3]["status"] = "oom"
        changed = self.compare(records)
        self.assertEqual(changed.returncode, 1)
        self.assertIn("peak_reserved", changed.stdout)
        self.assertIn("2 runs agree to the byte, 1 differ.", changed.stdout)


if __name__ == "__main__":
    unittest.main()
