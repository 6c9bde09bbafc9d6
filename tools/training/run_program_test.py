#!/usr/bin/env python3
"""Scripts that run the program show its messages where it fails.

usage: run_program_test.py PROGRAM
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from run_program import output_of

PROGRAM = sys.argv.pop()


class RunProgram(unittest.TestCase):
    def test_output_is_returned(self):
        self.assertIn("ridgepoint", output_of([PROGRAM, "--version"]))

    def test_the_reason_of_a_failure_is_shown(self):
        with self.assertRaises(SystemExit) as caught:
            output_of([PROGRAM, "train", "--data", "/nowhere/x"])
        self.assertIn("ended with exit code", str(caught.exception))
        self.assertIn("cannot read '/nowhere/x': No such file", str(caught.exception))

    def test_a_script_ends_with_it(self):
        script = pathlib.Path(__file__).with_name("measure_checkpoints.py")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, script, "--program", PROGRAM, "--folder", folder, "--", "--data",
                                   "/nowhere/x"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/x", done.stderr)


if __name__ == "__main__":
    unittest.main()
