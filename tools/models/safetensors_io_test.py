#!/usr/bin/env python3
"""Tests that the program and safetensors_io.py, which know nothing of each other, read each other's files.

usage: safetensors_io_test.py PROGRAM
"""

import os
import struct
import subprocess
import sys
import tempfile
import unittest

import safetensors_io

MODEL = "--layers 1 --d-model 8 --heads 2 --d-ff 12 --vocab 11".split()
PROGRAM = os.path.abspath(sys.argv.pop()) if len(sys.argv) > 1 else "build/ridgepoint"


class SafetensorsIo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def verify(self, *arguments):
        command = [PROGRAM, "verify", *MODEL, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def save(self):
        """Weights and tokens as the program writes them."""
        arguments = "--context 3 --batch 2 --optimizer-steps 0".split()
        done = self.verify(*arguments, "--save-weights", self.path("w"), "--save-tokens", self.path("t"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return safetensors_io.read(self.path("w"))[0], safetensors_io.read(self.path("t"))[0]

    def test_python_reads_what_the_program_wrote(self):
        weights, tokens = self.save()
        self.assertEqual(len(weights), 12)
        self.assertEqual(weights["layers.0.ffn.w2.weight"][:2], ("F32", (8, 12)))
        self.assertEqual(weights["ln_final.weight"][2], struct.pack("<8f", *[1.0] * 8))
        self.assertEqual(tokens["inputs"][:2], ("I64", (2, 3)))
        self.assertTrue(all(0 <= token < 11 for token in struct.unpack("<6q", tokens["targets"][2])))

    def test_the_program_reads_what_python_wrote(self):
        weights, tokens = self.save()
        # With a zero head every logit is 0 and the loss is log(vocab), whatever the rest.
        dtype, shape, data = weights["lm_head.weight"]
        weights["lm_head.weight"] = (dtype, shape, bytes(len(data)))
        safetensors_io.write(self.path("w"), weights, {"note": "from Python"})
        safetensors_io.write(self.path("t"), tokens)
        done = self.verify("--weights", self.path("w"), "--tokens", self.path("t"), "--dump", self.path("d"))
        self.assertEqual(done.returncode, 0, done.stderr)
        dump, _ = safetensors_io.read(self.path("d"))
        self.assertAlmostEqual(struct.unpack("<f", dump["loss"][2])[0], 2.3978953, places=6)

    def test_half_precision_weights_are_widened(self):
        weights, tokens = self.save()
        for name, (_, shape, data) in weights.items():
            floats = struct.unpack(f"<{len(data) // 4}f", data)
            weights[name] = ("F16", shape, struct.pack(f"<{len(floats)}e", *floats))
        safetensors_io.write(self.path("w"), weights)
        done = self.verify("--weights", self.path("w"), "--tokens", self.path("t"), "--optimizer-steps", "0")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_file_begins_its_data_aligned(self):
        self.save()
        with open(self.path("w"), "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
        self.assertEqual(length % 8, 0)


if __name__ == "__main__":
    unittest.main()
