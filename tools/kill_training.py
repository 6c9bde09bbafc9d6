#!/usr/bin/env python3
"""Kills `ridgepoint train` at random moments, goes on from its newest checkpoint, and compares with a run without kills.

    tools/kill_training.py --program build/ridgepoint --kills 100
    tools/kill_training.py --program build/ridgepoint --kills 20 --ranks 2 --shard parameters

Each process gets SIGKILL at a moment between its start and its end, also while it starts and while it writes. At the end
every loss and every file of the last checkpoint must be those of the run without kills, to the bit. A checkpoint that a
process has published must never be lost, and a process must go on from the newest of them. Exits 1 where that is not so.
"""

import argparse
import json
import os
import pathlib
import random
import re
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
    parser.add_argument("--longest", type=float, default=0, help="seconds until the latest kill [0.6, 2 with ranks]")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.iterations = options.iterations or 40 * options.kills
    options.longest = options.longest or (2.0 if options.ranks > 1 else 0.6)
    return options


class Training:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.text = folder / "text.txt"
        self.text.write_text(TEXT, encoding="utf-8")

    def command(self, run):
        options = self.options
        words = [options.program, "train", "--data", str(self.text), "--device", "cpu", *MODEL, "--threads", "1",
                 "--iterations", str(options.iterations), "--save-every", str(options.save_every), "--format", "jsonl",
                 "--resume" if newest(run) else "--save", str(run)]
        return words + (["--ranks", str(options.ranks), "--shard", options.shard] if options.ranks > 1 else [])

    def complete(self, run):
        done = subprocess.run(self.command(run), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"the run ended with {done.returncode}: {done.stderr}")

    def kill_after(self, run, seconds):
        """Whether the process was killed, rather than over, and what it said."""
        process = subprocess.Popen(self.command(run), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)  # so that ranks end with it
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        said = process.stderr.read()
        process.wait()
        return process.returncode == -signal.SIGKILL, said, process.returncode


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


def main():
    options = arguments()
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(options, pathlib.Path(folder))
        whole, killed = pathlib.Path(folder) / "whole", pathlib.Path(folder) / "killed"
        begin = time.monotonic()
        training.complete(whole)
        seconds = time.monotonic() - begin
        kills, in_start, in_write, lost, most_lost = 0, 0, 0, 0, 0
        while kills < options.kills and newest(killed) < options.iterations:
            before = newest(killed)
            was_killed, said, code = training.kill_after(killed, generator.uniform(0, options.longest))
            if not was_killed and code != 0:
                sys.exit(f"after {kills} kills the run ended with {code}: {said}")
            if re.search("passed over|damaged|half a checkpoint", said):
                sys.exit(f"after {kills} kills a checkpoint was damaged: {said}")
            kills += was_killed
            after, steps = newest(killed), history(killed)
            if after < before:
                sys.exit(f"after {kills} kills the checkpoint of step {before} is lost; the newest is that of {after}")
            if not was_killed:
                break
            in_start += after == before and (not steps or steps[-1]["step"] <= before)
            in_write += any(path.name.startswith(".step-") for path in killed.glob(".*")) if killed.exists() else False
            gone = max(steps[-1]["step"] - after, 0) if steps else 0
            lost, most_lost = lost + gone, max(most_lost, gone)
        training.complete(killed)
        wrong = [one["step"] for one, other in zip(history(whole), history(killed))
                 if (one["step"], one["loss"], one["gradient_norm"]) != (
                     other["step"], other["loss"], other["gradient_norm"])]
        counts = len(history(whole)), len(history(killed))
        first, second = state(whole), state(killed)
        differs = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    print(f"{kills} kills, {in_start} of them before the first step and {in_write} while a checkpoint was written; the "
          f"run without kills takes {seconds:.1f} s")
    print(f"steps done again: {lost} in all, at most {most_lost} after one kill (a checkpoint every "
          f"{options.save_every} steps)")
    print(f"steps with another loss or norm: {len(wrong)} of {counts[0]}; files of the last checkpoint that differ: "
          f"{len(differs)} of {len(first)}")
    is_right = not wrong and not differs and counts[0] == counts[1] == options.iterations and kills == options.kills
    if kills < options.kills:
        print(f"the run was over after {kills} kills; give more --iterations")
    # The write of one checkpoint goes on beside the steps up to the next one.
    return 0 if is_right and most_lost <= 2 * options.save_every else 1


if __name__ == "__main__":
    sys.exit(main())
