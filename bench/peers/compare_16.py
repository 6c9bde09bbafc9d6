#!/usr/bin/env python3
"""Sixteen configurations of the model, Ridgepoint (--compile full, flash attention) beside PyTorch, as one Markdown table.

    bench/peers/compare_16.py --records rows.jsonl                  # all rows
    bench/peers/compare_16.py --records rows.jsonl --rows 1-4       # some; the table has those of earlier calls too
    bench/peers/compare_16.py --records rows.jsonl --rows none      # the table alone

Each row is one `ridgepoint bench --peers`, whose iterations alternate with those of each peer; its records are appended
to the file. A cell of a peer has its median time in ms and, in brackets, that time over Ridgepoint's in the same
rounds: above 1 Ridgepoint is faster. The last column has that ratio for the fastest peer.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

Row = collections.namedtuple("Row", "model mode dtype batch context")

# Fixed before anything was measured: change no row because of its result.
ROWS = [
    Row("small", "forward", "bf16", 1, 128),
    Row("small", "forward", "bf16", 4, 256),
    Row("small", "forward_backward", "bf16", 4, 256),
    Row("small", "step", "bf16", 4, 256),
    Row("small", "step", "bf16", 64, 256),
    Row("small", "step", "bf16", 16, 1024),
    Row("small", "forward", "fp32", 64, 256),
    Row("small", "step", "fp32", 4, 256),
    Row("medium", "forward", "bf16", 16, 512),
    Row("medium", "step", "bf16", 8, 512),
    Row("medium", "forward_backward", "fp32", 4, 256),
    Row("large", "forward", "bf16", 32, 256),
    Row("large", "step", "bf16", 16, 512),
    Row("large", "step", "fp32", 4, 256),
    Row("xl", "forward", "bf16", 1, 1024),
    Row("xl", "step", "bf16", 4, 256),
]


def parse_rows(text):
    """The numbers of a list such as 1-4,7; none for "none"."""
    numbers = []
    for item in text.split(",") if text != "none" else []:
        first, _, last = item.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    if any(not 1 <= number <= len(ROWS) for number in numbers):
        raise argparse.ArgumentTypeError(f"rows are 1 to {len(ROWS)}")
    return numbers


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", required=True, help="file of records, JSON Lines")
    parser.add_argument("--rows", type=parse_rows, default=f"1-{len(ROWS)}", help="such as 1-4,7 (default: all)")
    parser.add_argument("--peers", default="torch:eager,torch:compile,torch:reduce-overhead",
                        help="as bench takes them (default: %(default)s); torch:max-autotune takes minutes a row")
    parser.add_argument("--python", help="the Python that has PyTorch, as bench takes it")
    parser.add_argument("--device", default="cuda", help="default: %(default)s")
    parser.add_argument("--warmup", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--program", default="build/ridgepoint", help="default: %(default)s")
    return parser.parse_args()


def command(row, options):
    words = [options.program, "bench", "--format", "jsonl", "--compile", "full", "--attention", "flash"]
    for name in ("device", "warmup", "steps", "peers", "python"):
        if getattr(options, name) is not None:
            words += ["--" + name, str(getattr(options, name))]
    for name, value in row._asdict().items():
        words += ["--" + name, str(value)]
    return words


def measure(row, options):
    """Appends the records of a row. A row that fails has records too; without any, the message is on standard error."""
    result = subprocess.run(command(row, options), stdout=subprocess.PIPE, text=True, check=False)
    if not result.stdout:
        sys.exit(f"compare_16: no records of {' '.join(map(str, row))} (exit code {result.returncode})")
    with open(options.records, "a", encoding="utf-8") as file:
        file.write(result.stdout)


def read_rows(path):
    """Row -> engine -> record; of several records, the last. Engines are "ridgepoint" and the modes of PyTorch."""
    rows = collections.defaultdict(dict)
    if not pathlib.Path(path).exists():
        sys.exit(f"compare_16: there are no records in '{path}' yet; measure rows first: --rows 1-{len(ROWS)}")
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        row = Row(record["model"]["name"], record["mode"], record["dtype"], record["batch"], record["context"])
        rows[row][record["engine"].split()[-1]] = record
    return rows


def ratio_of(record):
    """The peer's time over Ridgepoint's; None if it has none."""
    ours = record["peer"]["ridgepoint_ms"]
    return record["time_ms"]["median"] / ours if record["status"] == "ok" and ours else None


def cell_of(record):
    if record is None:
        return "-"
    if record["status"] != "ok":
        return record["status"]
    ratio = ratio_of(record)
    text = f"{record['time_ms']['median']:.4g}"
    return text if ratio is None else f"{text} ({ratio:.2f})"


def table_of(rows):
    """The lines of the table; rows that were not measured are left out."""
    engines = list(dict.fromkeys(engine for records in rows.values() for engine in records if engine != "ridgepoint"))
    headings = ["row", "model", "mode", "dtype", "batch x context", "Ridgepoint ms", *(f"torch {e} ms" for e in engines)]
    headings.append("fastest torch / Ridgepoint")
    lines = [f"| {' | '.join(headings)} |", "|---:|---|---|---|---:|" + "---:|" * (len(engines) + 2)]
    for number, row in enumerate(ROWS, 1):
        records = rows.get(row)
        if records is None:
            continue
        cells = [str(number), row.model, row.mode, row.dtype, f"{row.batch} x {row.context}"]
        cells += [cell_of(records.get(engine)) for engine in ["ridgepoint", *engines]]
        ratios = [ratio_of(records[engine]) for engine in engines if engine in records]
        known = [ratio for ratio in ratios if ratio is not None]
        lines.append(f"| {' | '.join([*cells, f'{min(known):.2f}' if known else '-'])} |")
    return lines


def problems_of(rows):
    """A line for each record that is not ok."""
    for row, records in rows.items():
        for record in records.values():
            if record["status"] != "ok":
                yield f"{' '.join(map(str, row))}, {record['engine']}: {record['status']}: {record['error']['message']}"


def main():
    options = parse_options()
    for number in options.rows:
        print(f"row {number} of {len(ROWS)}", file=sys.stderr, flush=True)
        measure(ROWS[number - 1], options)
    rows = read_rows(options.records)
    print("\n".join(table_of(rows)))
    for problem in problems_of(rows):
        print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
