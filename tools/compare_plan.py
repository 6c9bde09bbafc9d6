#!/usr/bin/env python3
"""Plans the runs of records again, without the GPU that ran them, and compares the memory to the byte.

    ridgepoint bench --device cuda ... --format jsonl --output rows.jsonl      on a machine with the GPU
    tools/compare_plan.py --card h200 rows.jsonl                                anywhere

Prints each run whose peak allocated, peak reserved or before backward differs from `ridgepoint plan`, and how many runs
agree. Runs that failed, and runs with a memory limit, whose allocator makes room as it goes, are left out. The exit
code is 1 if one differs. `plan` takes as many iterations as it needs until memory repeats; a run of few may take less.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ("peak_allocated", "peak_reserved", "before_backward")
SAME_NAME = ("batch", "context", "mode", "dtype", "compile", "allocator", "attention", "checkpoint")
SIZES = ("layers", "d_model", "d_ff", "heads", "vocab")


def planned(record, options):
    words = [options.program, "plan", "--format", "json"] + (["--card", options.card] if options.card else [])
    for name in SAME_NAME:
        words += ["--" + name, str(record[name])]
    for name in SIZES:
        words += ["--" + name.replace("_", "-"), str(record["model"][name])]
    result = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)[0]["memory_bytes"]


def differences(record, options):
    plan, run = planned(record, options), record["memory_bytes"]
    return [f"{name} {run[name]}, planned {plan[name]}" for name in FIGURES if plan[name] != run[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", help="files of records, JSON Lines")
    parser.add_argument("--card", help="the GPU of the records, as plan takes it (default: this machine's processor)")
    parser.add_argument("--program", default=str(ROOT / "build/ridgepoint"), help="default: build/ridgepoint")
    options = parser.parse_args()
    agree = differ = 0
    for path in options.records:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["status"] != "ok" or record["engine"] != "ridgepoint":
                continue
            if record["device"]["memory_limit_bytes"] is not None:
                continue
            found = differences(record, options)
            agree, differ = agree + (not found), differ + bool(found)
            if found:
                run = " ".join(str(record[name]) for name in SAME_NAME)
                print(f"{record['model']['name']} {run}: {'; '.join(found)}")
    print(f"{agree} runs agree to the byte, {differ} differ.")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
