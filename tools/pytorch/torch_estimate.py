#!/usr/bin/env python3
"""What ridgepoint.torch.estimate says of training steps beside what a GPU measures.

    tools/pytorch/torch_estimate.py run --output rows.json                  all cases that the GPUs of this machine suffice for
    tools/pytorch/torch_estimate.py run --output rows.json --cases lora     those with this text in their name
    tools/pytorch/torch_estimate.py run --output rows.json --estimate-only  without a GPU
    tools/pytorch/torch_estimate.py compare rows.json                       a table of errors

Each estimate is a process that sees no GPU, each measurement one that sees one or two; a case that fails is a row with
its error. The program ridgepoint is found as ridgepoint.torch finds it (variable RIDGEPOINT). --ops also notes what
each op of a measured step allocated beside its results, where the table of workspaces says something else. The cases
are in torch_cases.py.
"""

import argparse
import concurrent.futures
import importlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import time
import traceback
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
ITERATIONS = 3
SECONDS = 240
SMALLEST_NOTED = 4096  # bytes of an op


def import_package():
    """ridgepoint.torch of this source, with the compiled module where it was built and without it otherwise."""
    try:
        import ridgepoint._core  # noqa: F401
    except ImportError:
        package = sys.modules["ridgepoint"] = types.ModuleType("ridgepoint")
        package.__path__ = [str(ROOT / "python/ridgepoint")]
    return importlib.import_module("ridgepoint.torch")


def estimate_one(options):
    """Prints the estimate of one case."""
    import torch_cases

    estimator = import_package()
    case = torch_cases.CASES[options.case]
    step, build = case.make()
    begin = time.time()
    with estimator.fake("h100", ranks=case.ranks) as recorder:
        found = estimator.estimate(step, build, iterations=ITERATIONS)
    row = found.to_dict()
    row.update(seconds=time.time() - begin, events=len(recorder.events),
               process_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
    for name in ("by_module", "by_frame"):
        row[name] = dict(list(row[name].items())[:12])
    if options.snapshot:
        found.snapshot(options.snapshot)
    print(json.dumps(row))


class OpPeaks:
    """What each op allocates beside its results."""

    def __init__(self):
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        import_package()
        from ridgepoint.torch import workspaces

        found = self.found = {}

        def describe(value):
            if isinstance(value, torch.Tensor):
                return f"{str(value.dtype)[6:]}{list(value.shape)}:{list(value.stride())}"
            if isinstance(value, (list, tuple)):
                return [describe(part) for part in value[:4]]
            return value if isinstance(value, (int, float, bool, str, type(None))) else str(value)

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                if any(hasattr(kind, "__tensor_flatten__") for kind in types):
                    return NotImplemented
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                result = func(*args, **(kwargs or {}))
                beside = torch.cuda.max_memory_allocated() - max(before, torch.cuda.memory_allocated())
                name = func._overloadpacket.__name__
                expected = max((sum((size + 511) // 512 * 512 for _, _, size in group)
                                for group in workspaces.of_call(name, args)), default=0)
                if abs(beside - expected) >= SMALLEST_NOTED:
                    key = f"{func} {[describe(value) for value in args][:8]}"
                    row = found.setdefault(key, {"op": str(func), "args": [describe(value) for value in args][:12],
                                                 "beside": beside, "expected": expected, "times": 0})
                    row["times"] += 1
                    row["beside"] = max(row["beside"], beside)
                return result

        self.mode = Mode


def measure_one(options):
    """Prints what one case takes on the GPU. Of several ranks, rank 0 prints."""
    import torch
    import torch_cases

    case = torch_cases.CASES[options.case]
    rank = int(os.environ.get("RANK", 0))
    torch.cuda.set_device(rank)
    if case.ranks > 1:
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    if options.history:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    step, build = case.make()
    made = build()
    for _ in range(ITERATIONS):
        step(*made)
    torch.cuda.synchronize()
    row = {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved(),
           "torch": torch.__version__, "card": torch.cuda.get_device_name()}
    if options.history and rank == 0:
        torch.cuda.memory._dump_snapshot(options.history)
        torch.cuda.memory._record_memory_history(enabled=None)
    if options.ops:
        peaks = OpPeaks()
        with peaks.mode():
            step(*made)
        row["ops"] = sorted(peaks.found.values(), key=lambda found: -abs(found["beside"] - found["expected"]))[:40]
    if rank == 0:
        print(json.dumps(row))
    if case.ranks > 1:
        torch.distributed.destroy_process_group()


def child(words, environment):
    """The last line of JSON that a process prints, or its error."""
    try:
        run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS,
                             env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {SECONDS} s"}
    for line in reversed(run.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {"error": run.stderr.strip()[-3000:] or f"ended with {run.returncode}"}


def run_case(name, ranks, options, device):
    words = [sys.executable, __file__]
    row = {"case": name, "ranks": ranks}
    snapshot = ["--snapshot", str(pathlib.Path(options.snapshots) / f"{name}.pickle")] if options.snapshots else []
    row["estimated"] = child([*words, "estimate", name, *snapshot], {"CUDA_VISIBLE_DEVICES": ""})
    if name in options.known:
        row["measured"] = options.known[name]
    if name in options.known or options.estimate_only:
        return row
    more = ["--ops"] if options.ops else []
    if options.histories and any(text in name for text in options.histories.split(",")):
        more += ["--history", f"{options.output}.{name}.pickle"]
    if ranks == 1:
        row["measured"] = child([*words, "measure", name, *more], {"CUDA_VISIBLE_DEVICES": str(device)})
        return row
    port = str(29500 + abs(hash(name)) % 1000)
    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        rows = list(pool.map(lambda rank: child([*words, "measure", name, *more], {
            "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "LOCAL_RANK": str(rank)}), range(ranks)))
    row["measured"] = rows[0]
    return row


def error_of(row, name):
    try:
        return row["estimated"][name] / row["measured"][name] - 1
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def line_of(row):
    parts = [f"{row['case']:40}"]
    for name in ("peak_allocated", "peak_reserved"):
        estimated, measured = (row.get(side, {}).get(name) for side in ("estimated", "measured"))
        error = error_of(row, name)
        parts += [f"{side / 2**20:10.1f}" if side else "         -" for side in (estimated, measured)]
        parts.append(f"{error:+8.2%}" if error is not None else "       -")
    for side in ("estimated", "measured"):
        if "error" in row.get(side, {}):
            parts.append(f"{side}: {row[side]['error'].splitlines()[-1][:160]}")
    return " ".join(parts)


def run(options):
    import torch_cases

    gpus = 0
    if not options.estimate_only:
        import torch
        gpus = torch.cuda.device_count()
    options.known = {}
    for path in options.measured or []:
        for row in json.loads(pathlib.Path(path).read_text(encoding="utf-8")):
            if "peak_allocated" in row.get("measured", {}):
                options.known[row["case"]] = {key: value for key, value in row["measured"].items() if key != "ops"}
    cases = [(name, case.ranks) for name, case in torch_cases.CASES.items()
             if any(text in name for text in options.cases.split(","))
             and (options.estimate_only or name in options.known or case.ranks <= gpus)]
    rows = {}
    output = pathlib.Path(options.output)

    def finish(future):
        row = future.result()
        rows[row["case"]] = row
        output.write_text(json.dumps([rows[name] for name, _ in cases if name in rows], indent=1), encoding="utf-8")
        print(line_of(row), flush=True)

    begin = time.time()
    single = [case for case in cases if case[1] == 1]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, (name, ranks) in enumerate(single):
            pool.submit(run_case, name, ranks, options, number % max(gpus, 1)).add_done_callback(finish)
    for name, ranks in cases:  # these take all GPUs
        if ranks > 1:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(run_case, name, ranks, options, 0).add_done_callback(finish)
    print(f"{len(rows)} cases in {time.time() - begin:.0f} s")
    summary(list(rows.values()))


def summary(rows):
    for group, chosen in (("families", [row for row in rows if row["case"].startswith("family_")]),
                          ("others", [row for row in rows if not row["case"].startswith("family_")])):
        for name in ("peak_allocated", "peak_reserved"):
            errors = sorted(abs(error_of(row, name)) for row in chosen if error_of(row, name) is not None)
            if errors:
                within = [f"{sum(error <= limit for error in errors)} within {limit:.1%}"
                          for limit in (0.005, 0.01, 0.03)]
                print(f"{group}, {name}: {len(errors)} of {len(chosen)} rows, {', '.join(within)}, "
                      f"largest {errors[-1]:.2%}")


def compare(options):
    rows = json.loads(pathlib.Path(options.rows).read_text(encoding="utf-8"))
    for row in rows:
        print(line_of(row))
    summary(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="estimate and measure")
    running.add_argument("--output", required=True, help="JSON, rewritten as rows finish")
    running.add_argument("--cases", default="", help="texts in the names of cases, with commas (default: all)")
    running.add_argument("--jobs", type=int, default=6, help="cases at a time (default: %(default)s)")
    running.add_argument("--measured", action="append", help="a file of rows: their measurements are not made again")
    running.add_argument("--estimate-only", action="store_true")
    running.add_argument("--ops", action="store_true", help="also note what ops allocate beside their results")
    running.add_argument("--histories", help="also write PyTorch's snapshots of measured cases with these texts")
    running.add_argument("--snapshots", help="folder for the snapshots of the estimates")
    running.set_defaults(call=run)
    for name, call in (("estimate", estimate_one), ("measure", measure_one)):
        one = commands.add_parser(name, help="one case; `run` calls this")
        one.add_argument("case")
        one.add_argument("--snapshot")
        one.add_argument("--history")
        one.add_argument("--ops", action="store_true")
        one.set_defaults(call=call)
    comparing = commands.add_parser("compare", help="a table of the rows of a file")
    comparing.add_argument("rows")
    comparing.set_defaults(call=compare)
    options = parser.parse_args()
    try:
        options.call(options)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
