#!/usr/bin/env python3
"""Tests of compare_plan.py: runs on the CPU agree with their plans, and a changed figure is found.

usage: compare_plan_test.py PROGRAM
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
SCRIPT = pathlib.Path(__file__).with_name("compare_plan.py")
BENCH = ["bench", "--device", "cpu", "--model", "tiny", "--context", "32", "--batch", "1",
         "--mode", "training_forward,step", "--compile", "off,full", "--warmup", "1", "--steps", "4", "--format", "jsonl"]


# Ways to train, one a run.
TRAINING = [["--optimizer", "sgd", "--momentum", "0.9"], ["--optimizer", "adamw-8bit", "--weight-decay", "0.1"],
            ["--master-weights", "off", "--dtype", "bf16"], ["--frozen", "token_embeddings,ln1"],
            ["--lora", "r=4,targets=q_proj,w1"], ["--accumulate", "2", "--loss-chunk", "8"]]
STEP = ["bench", "--device", "cpu", "--layers", "1", "--d-model", "256", "--d-ff", "256", "--heads", "4",
        "--vocab", "64", "--context", "16", "--batch", "2", "--warmup", "1", "--steps", "3", "--format", "jsonl"]


def records_of(words):
    output = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return [json.loads(line) for line in output.stdout.splitlines()]


class ComparePlan(unittest.TestCase):
    def compare(self, records):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rows.jsonl")
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
            words = [sys.executable, SCRIPT, "--program", PROGRAM, path]
            return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)

    def test_runs_agree_and_a_changed_figure_is_found(self):
        records = records_of(BENCH)
        same = self.compare(records)
        self.assertEqual((same.returncode, same.stdout), (0, "4 runs agree to the byte, 0 differ.\n"))
        records[2]["memory_bytes"]["peak_reserved"] += 512
        records[3]["status"] = "oom"
        changed = self.compare(records)
        self.assertEqual(changed.returncode, 1)
        self.assertIn("peak_reserved", changed.stdout)
        self.assertIn("2 runs agree to the byte, 1 differ.", changed.stdout)

    def test_ways_to_train_are_planned_as_they_ran(self):
        records = [record for more in TRAINING for record in records_of(STEP + more)]
        self.assertEqual(self.compare(records).stdout, f"{len(TRAINING)} runs agree to the byte, 0 differ.\n")

    def test_models_with_replaced_fields_are_left_out(self):
        model = ["--model", "smollm2-135m", "--config-override", "num_hidden_layers=1,vocab_size=64"]
        records = records_of(["bench", "--device", "cpu", *model, "--context", "8", "--batch", "1", "--steps", "1",
                              "--format", "jsonl"])
        self.assertIn("not the model of that name; left out\n0 runs agree", self.compare(records).stdout)

    @unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
    def test_ranks_are_planned_as_they_ran(self):
        ranks = ["--parallel", "data=2,bucket=64KiB,reduce=fp32", "--ranks", "2", "--shard", "none,optimizer,parameters"]
        self.assertEqual(self.compare(records_of(STEP + ranks)).stdout, "3 runs agree to the byte, 0 differ.\n")
        ways = ["--parallel", "data=2,overlap=off,bucket=each,all", "--ranks", "2", "--shard", "none,optimizer"]
        self.assertEqual(self.compare(records_of(STEP + ways)).stdout, "4 runs agree to the byte, 0 differ.\n")


if __name__ == "__main__":
    unittest.main()
