#!/usr/bin/env python3
"""Tests of torch_trace.py without a card: what it compares, and the timing of a trace that is repeated.

usage: torch_trace_test.py PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_trace

PROGRAM = sys.argv.pop(1)
SCRIPT = pathlib.Path(__file__).with_name("torch_trace.py")

EVENTS = [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1.5, "dur": 2, "args": {"correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "nvjet_tst", "pid": 0, "tid": 7, "ts": 5, "dur": 10, "args": {"correlation": 1}},
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 20, "dur": 1.25},
    {"ph": "i", "name": "mark", "pid": 0, "tid": 7, "ts": 20},
]


class TorchTrace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "trace.json"
        self.trace.write_text(json.dumps({"traceEvents": EVENTS, "schemaVersion": 1}))

    def document(self):
        return torch_trace.documents(PROGRAM, "trace", self.trace)[0]

    def test_equal_sums_differ_by_nothing(self):
        rows = torch_trace.compare_kernels(self.document(), {"nvjet_tst": 10, "Memset (Device)": 1.25})
        self.assertEqual([row["difference"] for row in rows], [0] * len(rows))
        self.assertIn("class matmul, us", [row["what"] for row in rows])

    def test_a_kernel_that_is_missing_is_the_worst(self):
        rows = torch_trace.compare_kernels(self.document(), {"nvjet_tst": 10, "Memset (Device)": 1.25, "flash_fwd": 5})
        self.assertEqual(rows[1]["difference"], 1)
        self.assertIn("flash_fwd", rows[1]["what"])
        self.assertAlmostEqual(rows[0]["difference"], 5 / 16.25)

    def test_memory_is_compared_step_by_step(self):
        levels = [{"step": "ProfilerStep#0", "phase": None, "peak_bytes": 100, "end_bytes": 50},
                  {"step": "ProfilerStep#0", "phase": "forward", "peak_bytes": 90, "end_bytes": 70}]
        rows = torch_trace.compare_memory({"memory": {"levels": levels}}, [(100, 40), (1, 1)])
        self.assertEqual([row["difference"] for row in rows], [0, 0.2, 0.5])

    def test_a_repeated_trace_has_the_same_kernels_again_and_again(self):
        result = subprocess.run([sys.executable, SCRIPT, "--program", PROGRAM, "--output", self.folder / "timed", "--time",
                                 self.trace, "--megabytes", "0.01"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        found = json.loads((self.folder / "timed/results.json").read_text())
        self.assertGreater(found["copies"], 10)
        self.assertEqual(found["events"], 3 * found["copies"])
        self.assertAlmostEqual(found["rows"][0]["ridgepoint"], 11.25 * found["copies"], places=3)
        self.assertGreater(found["bytes"], 10000)


if __name__ == "__main__":
    unittest.main()
