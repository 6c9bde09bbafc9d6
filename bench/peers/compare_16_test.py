#!/usr/bin/env python3
"""Tests of compare_16.py on records that nothing measured."""

import argparse
import json
import os
import tempfile
import unittest

import compare_16


def record(row, engine="ridgepoint", ms=2.0, ridgepoint_ms=None, status="ok"):
    return {
        "engine": engine, "status": status, "error": {"message": "too large"}, "mode": row.mode, "dtype": row.dtype,
        "batch": row.batch, "context": row.context, "model": {"name": row.model}, "time_ms": {"median": ms},
        "peer": {"ridgepoint_ms": ridgepoint_ms},
    }


class Compare16(unittest.TestCase):
    def rows_of(self, records):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(each) + "\n" for each in records)
            return compare_16.read_rows(path)

    def test_has_sixteen_different_rows(self):
        self.assertEqual(len(set(compare_16.ROWS)), 16)

    def test_spreads_over_models_modes_types_batches_and_contexts(self):
        values = [set(column) for column in zip(*compare_16.ROWS)]
        self.assertEqual(values[0], {"small", "medium", "large", "xl"})
        self.assertEqual(values[1], {"forward", "forward_backward", "step"})
        self.assertEqual(values[2], {"bf16", "fp32"})
        self.assertEqual((min(values[3]), max(values[3])), (1, 64))
        self.assertEqual((min(values[4]), max(values[4])), (128, 1024))

    def test_takes_ranges_and_lists_of_rows(self):
        self.assertEqual(compare_16.parse_rows("1-3,7"), [1, 2, 3, 7])
        self.assertEqual(compare_16.parse_rows("none"), [])
        with self.assertRaises(argparse.ArgumentTypeError):
            compare_16.parse_rows("17")

    def test_shows_times_and_their_ratio_to_ridgepoint(self):
        row = compare_16.ROWS[3]
        rows = self.rows_of([
            record(row), record(row, "torch 2.11.0 eager", 6.0, 2.0), record(row, "torch 2.11.0 reduce-overhead", 2.5, 2.0),
        ])
        table = compare_16.table_of(rows)
        self.assertEqual(len(table), 3)
        self.assertEqual(table[2], "| 4 | small | step | bf16 | 4 x 256 | 2 | 6 (3.00) | 2.5 (1.25) | 1.25 |")

    def test_shows_the_status_of_what_failed(self):
        row = compare_16.ROWS[0]
        rows = self.rows_of([record(row), record(row, "torch 2.11.0 eager", status="oom")])
        self.assertIn("| oom | - |", compare_16.table_of(rows)[2])
        self.assertEqual(len(list(compare_16.problems_of(rows))), 1)

    def test_a_row_measured_again_replaces_the_first(self):
        row = compare_16.ROWS[0]
        rows = self.rows_of([record(row, ms=9.0), record(row, ms=3.0)])
        self.assertIn("| 3 | - |", compare_16.table_of(rows)[2])

    def test_asks_for_the_configuration_of_the_row(self):
        options = argparse.Namespace(program="p", device="cpu", warmup=1, steps=2, peers="torch:eager", python=None)
        words = compare_16.command(compare_16.ROWS[15], options)
        self.assertEqual(words[:2], ["p", "bench"])
        self.assertNotIn("--python", words)
        for flag, value in (("--model", "xl"), ("--mode", "step"), ("--batch", "4"), ("--compile", "full")):
            self.assertEqual(words[words.index(flag) + 1], value)


if __name__ == "__main__":
    unittest.main()
