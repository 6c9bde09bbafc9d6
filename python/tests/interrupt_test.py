"""Ctrl-C while a command runs."""

import os
import signal
import subprocess
import sys
import time
import unittest

HEAD = """
import signal, sys, time
import ridgepoint
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
print("ready", flush=True)
begin = time.monotonic()
"""
LONG_RUN = "ridgepoint.bench(model='tiny', device='cpu', steps=1000000, context=64, batch=1)\n"


class Interrupt(unittest.TestCase):
    def interrupt(self, script, until=None):
        """Exit code, output, errors and seconds of a script that is interrupted after a second, or when it has written
        `until` to standard error."""
        child = subprocess.Popen([sys.executable, "-c", HEAD + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        self.assertEqual(child.stdout.readline(), "ready\n")
        seen = ""
        if until is None:
            time.sleep(1)
        while until is not None and until not in seen:
            seen += child.stderr.read(1) or self.fail(seen)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=60)
        return child.returncode, output, seen + errors, time.monotonic() - begin

    def test_raises(self):
        script = f"try:\n    {LONG_RUN}except KeyboardInterrupt:\n    print('interrupted')\n" \
                 "print(ridgepoint.plan(model='tiny').status)\n"
        code, output, errors, seconds = self.interrupt(script)
        self.assertEqual((code, output, errors), (0, "interrupted\nok\n", ""))
        self.assertLess(seconds, 5)

    def test_keeps_finished_rows(self):
        long_sweep = LONG_RUN.replace("steps=1000000", "steps=[1,2,1000000]")
        long_sweep = long_sweep.replace("context=64", "context=16, progress=True")
        script = f"try:\n    {long_sweep}except KeyboardInterrupt as stop:\n" \
                 "    print(type(stop.rows).__name__, [(row.status, row.steps) for row in stop.rows])\n" \
                 "try:\n    ridgepoint.bench(modle='tiny')\nexcept ridgepoint.UsageError as error:\n" \
                 "    print(hasattr(error, 'rows'))\n"
        code, output, errors, _ = self.interrupt(script, until="/1000000")
        self.assertEqual((code, output), (0, "Records [('ok', 1), ('ok', 2)]\nFalse\n"))
        self.assertNotIn("Traceback", errors)

    def test_ends_a_script(self):
        code, _, errors, _ = self.interrupt(LONG_RUN)
        self.assertEqual(code, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", errors)

    def test_runs_handlers_of_others(self):
        script = "signal.signal(signal.SIGINT, lambda *_: sys.exit(7))\n" + LONG_RUN
        self.assertEqual(self.interrupt(script)[0], 7)

    def test_with_progress(self):
        script = f"try:\n    {LONG_RUN.replace(')', ', progress=True)')}except KeyboardInterrupt:\n    print('interrupted')\n"
        code, output, errors, _ = self.interrupt(script)
        self.assertEqual((code, output), (0, "interrupted\n"))
        self.assertIn("tiny step batch 1", errors)

    def test_leaves_handlers_alone(self):
        script = "before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]\n" \
                 "import ctypes, ridgepoint\n" \
                 "ridgepoint.plan(model='tiny')\n" \
                 "assert before == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]\n" \
                 "import os; os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)\n"
        child = subprocess.run([sys.executable, "-c", HEAD + script], capture_output=True, text=True)
        self.assertEqual(child.returncode, -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
