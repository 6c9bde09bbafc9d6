"""The commands of the program as functions: what they return, refuse and say, and how long a call takes."""

import ast
import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

import ridgepoint

PROGRAM = os.environ["RIDGEPOINT_PROGRAM"]


def by_program(*words):
    """The records that the program prints, and its messages."""
    done = subprocess.run([PROGRAM, *words, "--format", "json"], capture_output=True, text=True)
    return json.loads(done.stdout or "[]"), done.stderr


class Results(unittest.TestCase):
    def test_are_those_of_the_program(self):
        cases = [
            (dict(model="tiny", card="h100"), "--model tiny --card h100"),
            (dict(model="tiny,small", batch=[1, 2], context=range(128, 513, 128), dtype="bf16"),
             "--model tiny,small --batch 1,2 --context 128,256,384,512 --dtype bf16"),
            (dict(model="small", memory_limit="1GiB"), "--model small --memory-limit 1GiB"),
            (dict(model="tiny", as_="torch", keep_output=True), "--model tiny --as torch --keep-output true"),
            (dict(model="tiny", dtype="bf16", master_weights=False, lora={"r": 8, "alpha": 16}),
             "--model tiny --dtype bf16 --master-weights off --lora r=8,alpha=16"),
            (dict(model="tiny", weight_decay=0.05, momentum=0.5, optimizer="sgd"),
             "--model tiny --weight-decay 0.05 --momentum 0.5 --optimizer sgd"),
        ]
        for settings, words in cases:
            rows, _ = by_program("plan", *words.split())
            got = ridgepoint.plan(**settings).to_dict()
            for row in [*rows, *got]:
                row.pop("timestamp", None)
            self.assertEqual(got, rows, words)

    def test_of_one_row_have_its_fields(self):
        rows = ridgepoint.plan(model="tiny", card="h100")
        self.assertEqual(len(rows), 1)
        self.assertIs(rows.fits, True)
        self.assertEqual(rows.memory_bytes.peak_allocated, rows[0]["memory_bytes.peak_allocated"])
        self.assertEqual(rows[0].as_, "ridgepoint")
        with self.assertRaisesRegex(AttributeError, "there are 2 rows; ask one of them for 'fits', as rows\\[0\\].fits"):
            ridgepoint.plan(model="tiny", batch=[1, 2]).fits

    def test_have_other_names_of_settings(self):
        self.assertEqual(ridgepoint.plan(model="tiny", batch_size=2, seq_len=64).batch, 2)

    def test_say_that_a_row_does_not_fit(self):
        rows = ridgepoint.plan(model="2.7b", memory_limit="1GiB")
        self.assertEqual((rows.status, rows.fits, rows.exit_code), ("ok", False, 4))

    def test_of_files_and_of_records(self):
        before = ridgepoint.plan(model="tiny", batch=[1, 2], card="h100")
        after = ridgepoint.plan(model="tiny", batch=[1, 2], card="h100", optimizer="sgd")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "before.jsonl"
            before.save(path)
            by_file = ridgepoint.compare(path, path)
        self.assertEqual([row.verdict for row in by_file], ["same", "same"])
        self.assertEqual([row.memory_ratio for row in ridgepoint.compare(before, before)], [1.0, 1.0])
        self.assertEqual(len(before + after), 4)

    def test_of_a_snapshot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "memory.pickle")
            run = ridgepoint.memory(model="tiny", device="null", snapshot=path)
            self.assertEqual(ridgepoint.snapshot(path).peak.allocated_bytes, run.memory_bytes.peak_allocated)
            self.assertEqual(ridgepoint.snapshot(path).to_dict(), ridgepoint.snapshot(file=path).to_dict())
            replay = ridgepoint.snapshot(path, replay=True, allocator=["default", "expandable_segments:True"])
            self.assertEqual(len(replay), 1)

    def test_of_the_other_commands(self):
        self.assertEqual([row.model for row in ridgepoint.models("llama-3.2")], ["llama-3.2-1b", "llama-3.2-3b"])
        self.assertGreater(len(ridgepoint.published(model="small")), 10)
        self.assertEqual(ridgepoint.attention(device="null", sequence=256, d_model=16, attention="flash").keys_, 256)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ridgepoint.RidgepointWarning)
            run = ridgepoint.bench(model="tiny", device="cpu", context=32, batch=1, warmup=0, steps=2)
            self.assertEqual((run.status, len(run.time_ms.samples)), ("ok", 2))
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "trace.json")
                ridgepoint.profile(model="tiny", device="cpu", context=32, batch=1, warmup=0, steps=1, trace=path)
                self.assertGreater(len(ridgepoint.trace(path).kernels), 0)


class Refusals(unittest.TestCase):
    def assert_same_sentence(self, words, error=ridgepoint.UsageError, **settings):
        """The function raises what the program prints."""
        _, messages = by_program("plan", *words)
        with self.assertRaises(error) as caught:
            ridgepoint.plan(**settings)
        self.assertEqual(" ".join(messages.split()), f"ridgepoint: {caught.exception}")
        return str(caught.exception)

    def test_have_the_sentences_of_the_program(self):
        self.assertIn("did you mean '--model'", self.assert_same_sentence(["--modle", "tiny"], modle="tiny"))
        self.assertIn("did you mean 'tiny'", self.assert_same_sentence(["--model", "tinny"], model="tinny"))
        self.assert_same_sentence(["--batch", "0"], batch=0)
        self.assert_same_sentence(["--batch", "x"], batch="x")
        self.assert_same_sentence(["--model", "missing/config.json"], ridgepoint.Error, model="missing/config.json")
        self.assert_same_sentence(["--fail-unless-fits"], fail_unless_fits=True)

    def test_of_a_missing_file(self):
        with self.assertRaisesRegex(ridgepoint.Error, "missing.pickle"):
            ridgepoint.snapshot("missing.pickle")
        with self.assertRaisesRegex(ridgepoint.UsageError, "no file is given"):
            ridgepoint.snapshot()

    def test_of_values_of_a_wrong_type(self):
        with self.assertRaisesRegex(TypeError, "model: object is not a value of an option"):
            ridgepoint.plan(model=object())
        with self.assertRaisesRegex(TypeError, "explain is True or False, not 'yes'"):
            ridgepoint.plan(explain="yes")
        with self.assertRaisesRegex(TypeError, 'plan\\(\\) takes keywords only'):
            ridgepoint.plan("tiny")

    def test_of_what_is_for_a_terminal(self):
        with self.assertRaisesRegex(ridgepoint.UsageError, "returns records, so it has no 'format'"):
            ridgepoint.plan(model="tiny", format="csv")

    def test_of_what_starts_the_program_again(self):
        for settings in ({"cold": True}, {"first_call": True}, {"ranks": 2, "parallel": 2}):
            with self.assertRaisesRegex(ridgepoint.UsageError, "starts the program again, and this process runs another"):
                ridgepoint.bench(model="tiny", device="cpu", **settings)

    def test_are_exceptions_that_python_knows(self):
        self.assertTrue(issubclass(ridgepoint.UsageError, ValueError))
        self.assertTrue(issubclass(ridgepoint.OutOfMemory, MemoryError))
        for error in (ridgepoint.UsageError, ridgepoint.OutOfMemory, ridgepoint.Unsupported):
            self.assertTrue(issubclass(error, ridgepoint.Error))


class Messages(unittest.TestCase):
    def test_are_warnings_at_the_line_of_the_caller(self):
        rows = ridgepoint.plan(model="tiny", batch=[1, 2])
        for _ in range(2):
            with self.assertWarnsRegex(ridgepoint.RidgepointWarning, "needs more memory than its baseline") as caught:
                result = ridgepoint.compare(rows, fail_if_more_memory="1%")
            self.assertEqual(caught.filename, __file__)
            self.assertEqual(result.exit_code, 5)

    def test_nothing_is_printed(self):
        script = "import ridgepoint; ridgepoint.plan(model='tiny'); ridgepoint.models()"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        self.assertEqual((done.stdout, done.stderr), ("", ""))


class Progress(unittest.TestCase):
    def lines(self, progress, is_terminal):
        written = []
        stream = mock.Mock()
        stream.isatty.return_value = is_terminal
        stream.write.side_effect = written.append
        with mock.patch("sys.stderr", stream):
            ridgepoint.plan(model="2.7b", checkpoint=["none", "block"], card="h100", progress=progress)
        return "".join(written)

    def test_is_shown_where_it_is_wanted(self):
        for progress, is_terminal, is_shown in [(None, False, False), (None, True, True), (True, False, True),
                                                (False, True, False)]:
            text = self.lines(progress, is_terminal)
            self.assertEqual("2.7b step batch 4" in text, is_shown, (progress, is_terminal, text))
        self.assertTrue(text == "")

    def test_ends_with_an_empty_line(self):
        self.assertTrue(self.lines(True, False).endswith(" \r"))

    def test_that_raises_ends_the_command(self):
        stream = mock.Mock()
        stream.write.side_effect = BrokenPipeError("gone")
        with mock.patch("sys.stderr", stream), self.assertRaises(BrokenPipeError):
            ridgepoint.plan(model="2.7b", checkpoint=["none", "block"], card="h100", progress=True)


class Calls(unittest.TestCase):
    def test_take_as_long_as_the_program(self):
        """The figure of the issue is 5 ms; a busy machine gets twice that."""
        def best(call):
            times = []
            for _ in range(15):
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
            return min(times)

        in_program = best(lambda: subprocess.run([PROGRAM, "plan", "--model", "small", "--format", "json"],
                                                 stdout=subprocess.DEVNULL, check=True))
        in_python = best(lambda: ridgepoint.plan(model="small"))
        self.assertLess(in_python, in_program + 0.010)

    def test_release_the_lock_of_the_interpreter(self):
        counted, ends = [0], threading.Event()

        def count():
            while not ends.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        ridgepoint.plan(model="llama-3.1-8b", card="h100", context=2048, checkpoint=["none", "block"])
        during = counted[0] - before
        ends.set()
        thread.join()
        self.assertGreater(during, 5)

    def test_of_several_threads_run_one_after_another(self):
        found = {}

        def plan(batch):
            found[batch] = ridgepoint.plan(model="tiny", batch=batch).batch

        threads = [threading.Thread(target=plan, args=(batch,)) for batch in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {batch: batch for batch in range(1, 9)})


class Signatures(unittest.TestCase):
    def test_have_the_options_of_the_program(self):
        help_text = subprocess.run([PROGRAM, "plan", "--help"], capture_output=True, text=True, check=True).stdout
        options = [line.split()[0] for line in help_text.splitlines() if line.startswith("  --")]
        keywords = list(inspect.signature(ridgepoint.plan).parameters)
        without = {"--format", "--output", "--unit", "--columns"}
        names = [word.lstrip("-").replace("-", "_") for word in options if word not in without]
        self.assertEqual([name.rstrip("_") for name in keywords if name != "progress"], names)

    def test_stand_in_documents(self):
        for name in ("plan", "bench", "compare", "memory", "profile", "snapshot", "trace", "attention", "models",
                     "published"):
            function = getattr(ridgepoint, name)
            self.assertEqual((function.__name__, function.__module__), (name, "ridgepoint"))
            self.assertIn("progress: ", function.__doc__)
        self.assertIn("tokens in a sequence", ridgepoint.plan.__doc__)
        self.assertEqual(str(inspect.signature(ridgepoint.models)).split(",")[0], "(name=None")

    def test_are_those_of_the_stubs(self):
        stubs = ast.parse((pathlib.Path(ridgepoint.__file__).parent / "__init__.pyi").read_text())
        found = {node.name: node.args for node in stubs.body if isinstance(node, ast.FunctionDef)}
        self.assertEqual(list(found), list(ridgepoint._commands.NAMES))
        for name, args in found.items():
            parameters = inspect.signature(getattr(ridgepoint, name)).parameters.values()
            keywords = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
            self.assertEqual([each.arg for each in args.kwonlyargs], keywords)


class Import(unittest.TestCase):
    def test_needs_neither_numpy_nor_torch(self):
        script = ("import sys; sys.modules['numpy'] = sys.modules['pandas'] = sys.modules['torch'] = None\n"
                  "import ridgepoint; print(ridgepoint.plan(model='tiny').status)")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("ok\n", ""))

    def test_of_an_unknown_name(self):
        with self.assertRaisesRegex(AttributeError, "module 'ridgepoint' has no attribute 'plann'"):
            ridgepoint.plann


if __name__ == "__main__":
    unittest.main()
