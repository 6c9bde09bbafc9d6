#!/usr/bin/env python3
"""Kills `ridgepoint train` at random moments, goes on from its newest checkpoint, and compares with a whole run.

    tools/training/kill_training.py --program build/ridgepoint --kills 100
    tools/training/kill_training.py --program build/ridgepoint --kills 20 --ranks 2 --shard parameters

Each process gets SIGKILL at a moment between its start and its end, also while it starts and while it writes. At the
end every loss and every file of the last checkpoint must be those of the run without kills, to the bit. A checkpoint
that a process has published must never be lost, and a process must go on from the newest of them. Exits 1 where that is
not so.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TEXT = "".join(f"line {i} of 400 says that {i * 7} is not {i % 13}\n" for i in range(400))
MODEL = ["--layers", "2", "--d-model", "64", "--heads", "4", "--d-ff", "128", "--batch", "2", "--context", "32"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=0, help="steps of the whole run [40 a kill]")
    parser.add_argument("--save-every", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--shard", default="none")
    parser.add_argument("--longest", type=float, default=0, help="seconds until the latest kill [3 times a start]")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.iterations = options.iterations or 40 * options.kills
    return options


class Training:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.text = folder / "text.txt"
        self.text.write_text(TEXT, encoding="utf-8")

    def command(self, run, iterations=None):
        options = self.options
        words = [options.program, "train", "--data", str(self.text), "--device", "cpu", *MODEL, "--threads", "1",
                 "--iterations", str(iterations or options.iterations), "--save-every", str(options.save_every),
                 "--format", "jsonl", "--resume" if newest(run) else "--save", str(run)]
        if options.ranks > 1:
            words += ["--ranks", str(options.ranks), "--parallel", f"data={options.ranks}", "--shard", options.shard]
        return words

    def complete(self, run, iterations=None):
        """The seconds that it took."""
        begin = time.monotonic()
        done = subprocess.run(self.command(run, iterations), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"the run ended with {done.returncode}: {done.stderr}")
        return time.monotonic() - begin

    def kill_after(self, run, seconds):
        """Whether the process was killed, rather than over, and what it said."""
        process = subprocess.Popen(self.command(run), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)  # whose processes are all its ranks
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            end_session(process.pid)
        said = process.stderr.read()
        process.wait()
        return process.returncode == -signal.SIGKILL, said, process.returncode


def end_session(session):
    """Kills every process of a session, until none is left that runs."""
    while True:
        found = [pid for pid, state, of in processes() if of == session and state != "Z"]
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not found:
            return
        time.sleep(0.01)


def processes():
    """Number, state and session of each."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        yield int(path.parent.name), fields[0], int(fields[3])


def newest(run):
    """The step of the newest checkpoint, 0 without one."""
    steps = [int(path.name[5:]) for path in run.glob("step-*")] if run.exists() else []
    return max(steps, default=0)


def history(run):
    path = run / "steps.jsonl"
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(row) for row in rows if row.endswith("\n")]


def state(run):
    """The files of the newest checkpoint, without what says how it came about."""
    folder = run / f"step-{newest(run):09}"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}


class Kills:
    """Counts what kills did to a run."""

    def __init__(self):
        self.all = self.in_start = self.in_write = self.steps = self.most_steps = 0

    def one(self, training, run, seconds):
        before = newest(run)
        was_killed, said, code = training.kill_after(run, seconds)
        after, steps = newest(run), history(run)
        if not was_killed and code != 0:
            sys.exit(f"after {self.all} kills the run ended with {code}: {said}")
        if re.search("passed over|damaged|half a checkpoint", said):
            sys.exit(f"after {self.all} kills a checkpoint was damaged: {said}")
        if after < before:
            sys.exit(f"after {self.all} kills the checkpoint of step {before} is lost; the newest is that of {after}")
        if not was_killed:
            return
        last = steps[-1]["step"] if steps else 0
        self.all += 1
        self.in_start += last <= before
        self.in_write += run.exists() and any(run.glob(".step-*"))
        self.steps += max(last - after, 0)
        self.most_steps = max(self.most_steps, last - after)


def differences(whole, killed):
    """Steps with another loss or norm, and files of the last checkpoint that differ."""
    rows = [[(row["step"], row["loss"], row["gradient_norm"]) for row in history(run)] for run in (whole, killed)]
    steps = [one[0] for one, other in zip(*rows) if one != other]
    first, second = state(whole), state(killed)
    names = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    return steps + ["missing"] * abs(len(rows[0]) - len(rows[1])), names


def main():
    options = arguments()
    generator = random.Random(options.seed)
    kills, steps, names, runs = Kills(), [], [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        training = Training(options, folder)
        longest = options.longest or 3 * training.complete(folder / "one", 1)
        seconds = training.complete(folder / "whole")
        while kills.all < options.kills:  # a run that is over is followed by another
            runs += 1
            run = folder / f"killed-{runs}"
            while kills.all < options.kills and newest(run) < options.iterations:
                kills.one(training, run, generator.uniform(0, longest))
            training.complete(run)
            found = differences(folder / "whole", run)
            steps += found[0]
            names += found[1]
            shutil.rmtree(run)
    print(f"{kills.all} kills, {kills.in_start} of them before the first step and {kills.in_write} while a checkpoint was "
          f"written; {runs} runs of {options.iterations} steps, each of which takes {seconds:.1f} s without kills")
    print(f"steps done again: {kills.steps} in all, at most {kills.most_steps} after one kill (a checkpoint every "
          f"{options.save_every} steps)")
    print(f"steps with another loss or norm: {len(steps)}; files of the last checkpoint that differ: {len(names)}")
    # A checkpoint is written beside the steps up to the next one, which waits for it.
    return 1 if steps or names or kills.most_steps > 2 * options.save_every else 0


if __name__ == "__main__":
    sys.exit(main())
