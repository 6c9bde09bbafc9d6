#!/usr/bin/env python3
"""Tests that the program of docs/commands/verify_attention.md runs, and that its command prints what the page shows.

usage: verify_attention_page_test.py PROGRAM
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/commands/verify_attention.md").read_text(encoding="utf-8")
PROGRAM = os.path.abspath(sys.argv.pop()) if len(sys.argv) > 1 else "build/ridgepoint"


def unwrapped(text):
    return " ".join(text.split())


class OraclePage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1)
        self.command = re.search(r"^ {4}ridgepoint (verify .*)$", PAGE, re.MULTILINE).group(1).split()
        # What the page shows: the output of the program that is right, and of the one with a fault.
        self.shown = [unwrapped(block) for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)]

    def verify(self, source):
        subprocess.run([sys.executable, "-c", source], cwd=self.folder, check=True)
        return subprocess.run([PROGRAM, *self.command], cwd=self.folder, capture_output=True, text=True, check=False)

    def test_agrees(self):
        result = self.verify(self.source)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(self.shown[0], unwrapped(result.stdout))

    def test_names_the_fault(self):
        faulty = self.source.replace("- delta) * SCALE", "- delta)")
        self.assertNotEqual(faulty, self.source)
        result = self.verify(faulty)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(self.shown[1], unwrapped(result.stdout))


if __name__ == "__main__":
    unittest.main()
