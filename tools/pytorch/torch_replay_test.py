#!/usr/bin/env python3
"""Tests of `torch_replay.py compare`, with snapshots of the repository as the measured runs."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().with_name("torch_replay.py")
SNAPSHOTS = SCRIPT.parents[2] / "tests" / "golden" / "torch_snapshots"
PROGRAM = sys.argv.pop()


def row(setting, name, **others):
    """PyTorch's statistics of a run with that setting."""
    peak = json.loads((SNAPSHOTS / f"{name}.json").read_text())["peak"]
    figures = {"reserved_bytes": peak["reserved"], "allocated_bytes": peak["allocated"], "capacity_bytes": None}
    return {"program": "step", "setting": setting, "retries": 0, "fits": True, **figures, **others}


class Compare(unittest.TestCase):
    def compare(self, rows):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(SNAPSHOTS / "step.pickle.gz", folder)
            (pathlib.Path(folder) / "measured.json").write_text(json.dumps(rows))
            command = [sys.executable, str(SCRIPT), "compare", folder, "--program", PROGRAM]
            return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_runs_that_the_replay_has_are_right(self):
        result = self.compare(
            [
                row("default", "step"),
                row("expandable_segments:True", "expandable"),
                row("default", "step", capacity_bytes=100 << 20, fits=False),
            ]
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("3 runs, 0 differ; the largest error of reserved bytes is 0.00 %.", result.stdout)

    def test_other_figures_are_wrong(self):
        step = row("default", "step")
        for wrong in (
            {"reserved_bytes": step["reserved_bytes"] * 1.01},
            {"allocated_bytes": step["allocated_bytes"] + 512},
            {"capacity_bytes": 100 << 20},
            {"fits": False, "capacity_bytes": 1 << 30},
        ):
            result = self.compare([{**step, **wrong}])
            self.assertEqual(result.returncode, 1, wrong)
            self.assertIn("WRONG", result.stdout)


if __name__ == "__main__":
    unittest.main()
