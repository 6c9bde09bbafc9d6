"""kill_training.py: runs of one process and of ranks come through kills, and one that goes on with other bits is found.

usage: kill_training_test.py PATH_OF_RIDGEPOINT
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
SCRIPT = pathlib.Path(__file__).with_name("kill_training.py")


def kill(*words, program=PROGRAM):
    return subprocess.run([sys.executable, SCRIPT, "--program", program, *words], capture_output=True, text=True,
                          check=False)


class KillTraining(unittest.TestCase):
    def test_one_process_loses_nothing(self):
        result = kill("--kills", "6", "--iterations", "150")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("6 kills", result.stdout)
        self.assertIn("another loss or norm: 0; files of the last checkpoint that differ: 0", result.stdout)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_two_ranks_lose_nothing(self):
        result = kill("--kills", "3", "--iterations", "60", "--ranks", "2", "--shard", "parameters")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_run_that_goes_on_with_other_bits_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "ridgepoint"
            program.write_text(f'#!/bin/sh\ncase "$*" in *--resume*) set -- "$@" --seed 7;; esac\nexec {PROGRAM} "$@"\n',
                               encoding="utf-8")
            program.chmod(0o755)
            result = kill("--kills", "8", "--iterations", "150", program=str(program))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertNotIn("another loss or norm: 0;", result.stdout)


if __name__ == "__main__":
    unittest.main()
