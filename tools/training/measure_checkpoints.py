#!/usr/bin/env python3
"""How long a checkpoint of `ridgepoint train` holds the run up, and how fast it is written beside `dd`.

    tools/training/measure_checkpoints.py --program build/ridgepoint --folder /tmp/runs -- --data train.bin --model large \\
        --context 512 --batch 4 --dtype bf16 --vocab 50304 --device cuda

Trains for twice --steps steps with a checkpoint in the middle, and takes the delay from the steps behind it, the wait for
the copy included, against as many steps before it. It shows one by one how late the first steps behind it are. Then the
speed of each of --rounds checkpoints that nothing runs beside, from the making of its folder to its name, and that of
`dd bs=16M conv=fsync` with as many bytes, in turns.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from run_program import output_of

PIECE_BYTES = 16 << 20
SETTLED_STEPS = 10  # that the steps before the checkpoint begin with: captures, choices, caches
FIRST_STEPS = 12  # behind the checkpoint, shown one by one: its copy to the host is beside some of them


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, help="on the disk that is measured")
    parser.add_argument("--steps", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("options", nargs="+", help="of ridgepoint train, after --")
    return parser.parse_args()


def train(options, folder, iterations, more):
    """The rows of the steps, and the folder of the last checkpoint."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [options.program, "train", *options.options, "--save", str(folder), "--iterations", str(iterations),
             "--format", "jsonl", *more]
    return [json.loads(line) for line in output_of(words).splitlines()], max(folder.glob("step-*"))


def delay(options, folder):
    before = SETTLED_STEPS + options.steps
    rows, _ = train(options, folder, before + options.steps, ["--save-every", str(before)])
    seconds = [row["seconds"] + row["checkpoint_seconds"] for row in rows]
    usual, beside = seconds[SETTLED_STEPS:before], seconds[before:]
    share = sum(beside) / sum(usual) - 1
    late = [1000 * (one - statistics.median(usual)) for one in beside]
    print(f"{options.steps} steps: {sum(usual):.3f} s before a checkpoint and {sum(beside):.3f} s behind it, "
          f"{100 * share:+.2f} %; the wait for the copy is {rows[before]['checkpoint_seconds']:.4f} s, and a step "
          f"{1000 * statistics.median(usual):.1f} ms")
    first, rest = late[:FIRST_STEPS], late[FIRST_STEPS:]
    print(f"ms later than that: the first {len(first)} steps behind it {', '.join(f'{one:+.1f}' for one in first)}; "
          f"the {len(rest)} after them {sum(rest):+.1f} in all, {max(rest, default=0):+.1f} at most")


def of_stat(path, what):
    return float(output_of(["stat", "-c", what, path]))


def written(options, folder):
    """Bytes, and bytes a second."""
    _, checkpoint = train(options, folder, 1, [])
    size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    seconds = of_stat(checkpoint, "%.9Z") - of_stat(checkpoint, "%.9W")  # the rename, and the birth
    shutil.rmtree(folder)
    return size, size / seconds


def by_dd(folder, size):
    folder.mkdir(parents=True, exist_ok=True)
    count = max(1, size // PIECE_BYTES)
    begin = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={folder / 'dd'}", "bs=16M", f"count={count}", "conv=fsync"], check=True,
                   stderr=subprocess.DEVNULL)
    speed = count * PIECE_BYTES / (time.monotonic() - begin)
    (folder / "dd").unlink()
    return speed


def main():
    options = arguments()
    folder = pathlib.Path(options.folder)
    if options.steps > 0:
        delay(options, folder / "run")
    ratios = []
    for _ in range(options.rounds):
        size, ours = written(options, folder / "run")
        theirs = by_dd(folder, size)
        ratios.append(ours / theirs)
        print(f"{size / 1e9:.2f} GB: {ours / 1e9:.2f} GB/s, dd {theirs / 1e9:.2f} GB/s, {100 * ours / theirs:.0f} %",
              flush=True)
    if ratios:
        print(f"median: {100 * statistics.median(ratios):.0f} % of dd")
    return 0


if __name__ == "__main__":
    sys.exit(main())
