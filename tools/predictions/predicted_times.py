#!/usr/bin/env python3
"""Compares predicted with measured times, and prints the tables of docs/predicted_times.md.

Reads measured milliseconds of runs on one H200 (tests/predict/time/h200_times.csv) and on several cards
(tests/predict/time/ranks.csv), plans the same runs, and writes Markdown: first the errors by kind of run, then
every row, then those of several ranks. An error is predicted / measured - 1. The rows marked `fit` chose the rates; the
others check them.

usage: predicted_times.py [--program build/ridgepoint] [--times tests/predict/time/h200_times.csv]
                          [--ranks tests/predict/time/ranks.csv] [--card h200]
"""

import argparse
import csv
import functools
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("model", "batch", "context", "dtype", "compile", "attention")
MODES = ("forward", "forward_backward", "step")


@functools.cache
def predicted_ms(program, card, run, mode, more=()):
    words = [program, "plan", "--card", card, "--format", "json", "--mode", mode, *more]
    for name, value in zip(RUN, run):
        words += ["--" + name, value]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)[0]["predicted_ms"]


def summary(title, errors):
    sizes = sorted(map(abs, errors))
    at = lambda share: f"{100 * sizes[min(int(share * len(sizes)), len(sizes) - 1)]:.1f} %"
    within = sum(size <= 0.1 for size in sizes)
    return f"| {title} | {len(sizes)} | {at(0.5)} | {at(0.9)} | {at(1)} | {within} |"


def print_ranks(options):
    print("\n| card | model, batch x context | ranks | `--shard` | bucket, MiB | measured / predicted |")
    print("|---|---|---:|---|---:|---:|")
    with open(options.ranks, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            run = (row["model"], row["batch"], row["context"], "bf16", "full", "flash")
            more = ("--parallel", f"data={row['ranks']},bucket={row['bucket']}", "--shard", row["shard"])
            measured = float(row["ms"])
            predicted = predicted_ms(options.program, row["card"], run, "step", more)
            error = predicted / measured - 1
            size = f"`{row['model']}`, {row['batch']} x {row['context']}"
            bucket = int(row["bucket"]) >> 20
            times = f"{measured:g} / {predicted:.4g} ({100 * error:+.0f})"
            card = row["card"].split()[0].upper()
            print(f"| {card} | {size} | {row['ranks']} | `{row['shard']}` | {bucket} | {times} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/ridgepoint"))
    parser.add_argument("--times", default=str(ROOT / "tests/predict/time/h200_times.csv"))
    parser.add_argument("--ranks", default=str(ROOT / "tests/predict/time/ranks.csv"))
    parser.add_argument("--card", default="h200")
    options = parser.parse_args()

    groups, lines = {}, []
    with open(options.times, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            run = tuple(row[name] for name in RUN)
            measured = float(row["ms"])
            predicted = predicted_ms(options.program, options.card, run, row["mode"])
            error = predicted / measured - 1
            kind = row["dtype"] + (", eager" if row["compile"] == "off" else ", compiled")
            groups.setdefault((row["use"], kind), []).append(error)
            cell = f"{measured:g} / {predicted:.4g} ({100 * error:+.0f})"
            # A run that was measured twice has two lines.
            mode = MODES.index(row["mode"])
            line = next((known for known in lines if known[0] == (row["use"], run) and not known[1][mode]), None)
            if line is None:
                line = ((row["use"], run), ["", "", ""])
                lines.append(line)
            line[1][mode] = cell

    print("| runs | times | median error | 90 % under | largest | within 10 % |\n|---|---:|---:|---:|---:|---:|")
    for use in ("fit", "check"):
        for (of, kind), errors in sorted(groups.items()):
            if of == use:
                print(summary(f"{use}: {kind}", errors))
    print(summary("all", [error for errors in groups.values() for error in errors]))
    print("\n| | model, batch x context | dtype | compile | attention | forward | forward and backward | step |")
    print("|---|---|---|---|---|---:|---:|---:|")
    for (use, (model, batch, context, dtype, level, attention)), cells in lines:
        print(f"| {use} | `{model}`, {batch} x {context} | {dtype} | `{level}` | `{attention}` | {' | '.join(cells)} |")
    print_ranks(options)


if __name__ == "__main__":
    main()
