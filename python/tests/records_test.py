"""Records: their fields, and their forms."""

import pickle
import sys
import types
import unittest
from unittest import mock

import ridgepoint

FIELDS = {"status": "ok", "model": {"name": "tiny", "layers": 2}, "as": "torch", "samples": [1.0, 2.0],
          "kernels": [{"name": "a"}, {"name": "b"}], "keys": 3}


class Record(unittest.TestCase):
    def test_has_fields(self):
        record = ridgepoint.Record(FIELDS)
        self.assertEqual(record.model.name, "tiny")
        self.assertEqual(record["model.layers"], 2)
        self.assertEqual((record.as_, record["as"]), ("torch", "torch"))
        self.assertEqual(record.keys_, 3)
        self.assertEqual([kernel.name for kernel in record.kernels], ["a", "b"])
        self.assertEqual(record.samples, [1.0, 2.0])
        self.assertIn("status", record)
        self.assertIn("status", dir(record))
        self.assertIn("model.name='tiny'", repr(record))

    def test_refuses_what_it_has_not(self):
        record = ridgepoint.Record(FIELDS)
        with self.assertRaisesRegex(AttributeError, "the record has no field 'staus'; did you mean 'status'?"):
            record.staus
        with self.assertRaises(KeyError):
            record["model.nam"]
        with self.assertRaisesRegex(AttributeError, "records do not change"):
            record.status = "oom"

    def test_gives_dictionaries(self):
        record = ridgepoint.Record(FIELDS)
        copied = record.to_dict()
        copied["model"]["name"] = "other"
        self.assertEqual(record.model.name, "tiny")
        self.assertEqual(record.flat()["model.layers"], 2)
        self.assertEqual(pickle.loads(pickle.dumps(record)), record)


class Frames(unittest.TestCase):
    def test_without_pandas(self):
        with mock.patch.dict(sys.modules, pandas=None):
            with self.assertRaisesRegex(ImportError, "to_pandas\\(\\) needs pandas, which is not installed"):
                ridgepoint.Records([FIELDS]).to_pandas()

    def test_have_flat_columns(self):
        pandas = types.ModuleType("pandas")
        pandas.DataFrame = list
        with mock.patch.dict(sys.modules, pandas=pandas):
            rows = ridgepoint.Records([FIELDS, FIELDS]).to_pandas()
        self.assertEqual([row["model.name"] for row in rows], ["tiny", "tiny"])

    def test_of_pandas(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = ridgepoint.plan(model="tiny", batch=[1, 2]).to_pandas()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual(list(frame["batch"]), [1, 2])
        self.assertGreater(frame["memory_bytes.peak_allocated"].iloc[1], frame["memory_bytes.peak_allocated"].iloc[0])


if __name__ == "__main__":
    unittest.main()
