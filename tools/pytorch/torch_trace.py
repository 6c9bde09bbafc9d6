#!/usr/bin/env python3
"""Checks `ridgepoint trace` against PyTorch itself, on a card, and times it against reading the file in Python.

    tools/pytorch/torch_trace.py --output traced                       a training step of `small` in bf16
    tools/pytorch/torch_trace.py --output traced --attention sdpa --dtype bf16,fp32 --with-stack
    tools/pytorch/torch_trace.py --output timed --time traced/bf16/trace.json --megabytes 1000

The first form records the same steps with torch.profiler and with PyTorch's memory history, and compares

    kernels     the sums of each kernel with the durations that CUPTI gave PyTorch (kineto_results), all of them and by
                groups that are formed here by other rules than the program's
    memory      the peak of each step, and what is allocated at its end, with torch.cuda.max_memory_allocated() and
                memory_allocated()
    beside      `trace FILE --model small ... --device cuda` and the same without --device: the trace's sums in the
                table that has our own profile, and our prediction, of the same step

and writes a folder for each dtype with trace.json, snapshot.pickle, what the program printed, and results.json. The exit
code is 1 if a difference is above --tolerance. The second form repeats a trace until it has so many megabytes, and
times the program, json.load() with sums by kernel (by pandas where it is installed), and HolisticTraceAnalysis where
that is installed.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = {
    "tiny": dict(d_model=128, d_ff=384, layers=2, heads=4),
    "small": dict(d_model=768, d_ff=3072, layers=12, heads=12),
    "medium": dict(d_model=1024, d_ff=4096, layers=24, heads=16),
}
# Names of kernels, not the program's rules. What no group has is `rest`; the program's other classes are, too.
GROUPS = (
    ("attention", r"flash|fmha|attention"),
    ("optimizer", r"adam|multi_tensor"),
    ("matmul", r"gemm|gemv|nvjet|cutlass|splitk|dot_kernel"),
)


def group_of(kernel):
    return next((group for group, pattern in GROUPS if re.search(pattern, kernel, re.IGNORECASE)), "rest")


def sums_by(pairs):
    sums = {}
    for key, value in pairs:
        sums[key] = sums.get(key, 0) + value
    return sums


def compared(what, ours, theirs):
    """A row of the result. The difference is a share of the larger."""
    scale = max(abs(ours), abs(theirs))
    return {"what": what, "ridgepoint": ours, "torch": theirs, "difference": abs(ours - theirs) / scale if scale else 0.0}


def compare_kernels(document, cupti_us):
    """`cupti_us`: by name of the kernel, copy or fill."""
    rows = document["kernels"]["by_name"]
    ours = {row["name"]: row["total_us"] for row in rows}
    worst = max((compared(name, ours.get(name, 0), cupti_us.get(name, 0)) for name in ours.keys() | cupti_us.keys()),
                key=lambda row: row["difference"])
    result = [compared("all kernels, copies and fills, us", sum(ours.values()), sum(cupti_us.values())),
              {**worst, "what": f"worst kernel, us: {worst['what'][:60]}"},
              compared("sum of classes, us", sum(row["total_us"] for row in document["classes"]), sum(cupti_us.values()))]
    classes = sums_by((row["class"], row["total_us"]) for row in document["classes"])
    groups = sums_by((group_of(name), us) for name, us in cupti_us.items())
    for group in ("attention", "optimizer", "matmul"):
        # Simple kernels of the optimizer's phase are the optimizer's, which their names do not tell.
        if group == "optimizer" and classes.get(group, 0) > groups.get(group, 0):
            continue
        result.append(compared(f"class {group}, us", classes.get(group, 0), groups.get(group, 0)))
    return result


def compare_memory(document, measured):
    """`measured`: (peak, allocated at the end) of each step, in bytes."""
    levels = [row for row in document["memory"]["levels"] if row["phase"] is None]
    result = []
    for row, (peak, end) in zip(levels, measured):
        result.append(compared(f"{row['step']}: peak bytes", row["peak_bytes"], peak))
        result.append(compared(f"{row['step']}: bytes at the end", row["end_bytes"], end))
    if len(levels) != len(measured):
        result.append(compared("steps with memory", len(levels), len(measured)))
    return result


def compare_beside(document, cupti_us, steps, what):
    """The trace's column of the table that has our run beside it, a step."""
    total = sum(row["before_ms"] for row in document["classes"]) * steps * 1e3
    print_classes(document, what)
    return [compared(f"beside {what}: sum of classes, us", total, sum(cupti_us.values()))]


def print_classes(document, what):
    print(f"\n{what}\n  trace: {document['before']}\n  ours:  {document['after']}")
    for section in ("figures", "classes", "phases"):
        for row in document.get(section, []):
            print(f"  {section:8} {row['name']:20} {row['before_ms']:10.3f} {row['after_ms']:10.3f} ms")


def run(program, *words):
    begin = time.perf_counter()
    result = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, words))}: {result.stderr}")
    return result.stdout, time.perf_counter() - begin


def documents(program, *words):
    return json.loads(run(program, *words, "--format", "json")[0])


class Recorded:
    """Training steps of PyTorch under both recorders."""

    def __init__(self, options, dtype, folder):
        import torch

        sys.path.insert(0, str(ROOT / "bench/peers/pytorch"))
        from model import Transformer

        self.torch = torch
        self.options, self.folder = options, folder
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
        self.low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype)
        sizes = {**SIZES[options.model], "vocab": 10000, "context": options.context}
        kind = "sdpa" if options.attention == "sdpa" else "naive"
        self.model = Transformer(sizes, kind, torch.device("cuda"))
        for parameter in self.model.parameters():
            torch.nn.init.normal_(parameter, std=0.02)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        shape = (options.batch, options.context)
        self.inputs, self.targets = (torch.randint(0, 10000, shape, device="cuda") for _ in range(2))
        self.memory = []

    def step(self):
        torch = self.torch
        torch.cuda.reset_peak_memory_stats()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=self.low or torch.bfloat16, enabled=self.low is not None):
            logits = self.model(self.inputs)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), self.targets.flatten())
        del logits
        loss.backward()
        self.optimizer.step()
        del loss
        torch.cuda.synchronize()
        self.memory.append((torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()))

    def record(self):
        torch = self.torch
        torch.cuda.synchronize()
        torch.cuda.memory._record_memory_history(max_entries=1 << 20, stacks="python")
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        # Without a schedule PyTorch marks no steps.
        schedule = torch.profiler.schedule(wait=0, warmup=0, active=self.options.steps, repeat=1)
        with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=True,
                                    with_stack=self.options.with_stack, with_modules=self.options.with_stack) as profiler:
            for _ in range(self.options.steps):
                self.step()
                profiler.step()
            torch.cuda.synchronize()
        torch.cuda.memory._dump_snapshot(str(self.folder / "snapshot.pickle"))
        torch.cuda.memory._record_memory_history(enabled=None)
        profiler.export_chrome_trace(str(self.folder / "trace.json"))
        return self.cupti_sums(profiler)

    def cupti_sums(self, profiler):
        """Of everything that ran on the card, in microseconds by name. Annotations have their names on the host, too."""
        device_type = self.torch.autograd.DeviceType
        events = profiler.profiler.kineto_results.events()
        on_host = {event.name() for event in events if event.device_type() == device_type.CPU}
        return sums_by((event.name(), event.duration_ns() / 1e3) for event in events
                       if event.device_type() == device_type.CUDA and event.name() not in on_host
                       and not getattr(event, "is_user_annotation", bool)())


def check(options, dtype):
    folder = pathlib.Path(options.output) / dtype
    folder.mkdir(parents=True, exist_ok=True)
    recorded = Recorded(options, dtype, folder)
    cupti_us = recorded.record()
    name = recorded.torch.cuda.get_device_name()
    memory = recorded.memory
    recorded.model = recorded.optimizer = None
    recorded.torch.cuda.empty_cache()
    trace, snapshot = folder / "trace.json", folder / "snapshot.pickle"
    (folder / "trace.txt").write_text(run(options.program, "trace", trace, "--memory", snapshot)[0])
    document = documents(options.program, "trace", trace, "--memory", snapshot)[0]
    (folder / "report.json").write_text(json.dumps([document]))
    rows = compare_kernels(document, cupti_us) + compare_memory(document, memory)
    # Our own step with the same settings, predicted and measured.
    attention = "flash" if options.attention == "sdpa" else "softmax"
    settings = ["--model", options.model, "--batch", options.batch, "--context", options.context, "--dtype", dtype,
                "--attention", attention, "--compile", "full"]
    beside = {}
    for what, more in (("prediction", []), ("run", ["--device", "cuda"])):
        beside[what] = documents(options.program, "trace", trace, *settings, *more)[0]
        rows += compare_beside(beside[what], cupti_us, options.steps, what)
    run(options.program, "report", folder / "report.json", "--output", folder / "report.html")
    clock = document["memory"]["requests_behind_calls_us"]
    result = {"device": name, "torch": recorded.torch.__version__, "dtype": dtype, "attention": options.attention,
              "steps": options.steps, "requests_behind_calls_us": clock, "rows": rows, "first_step": document["first_step"],
              "roofline": document["roofline"], "idle": document["idle"], "beside": beside}
    (folder / "results.json").write_text(json.dumps(result, indent=1))
    print(f"\n{name}, PyTorch {result['torch']}, {dtype}, {options.attention}; requests for segments lie {clock} us behind cudaMalloc")
    print_rows(rows)
    return max(row["difference"] for row in rows)


def print_rows(rows):
    for row in rows:
        print(f"  {row['difference'] * 100:8.4f} %  {row['ridgepoint']:18.3f} {row['torch']:18.3f}  {row['what']}")


def repeat_trace(source, target, megabytes):
    """Writes the events of a trace again and again, each time later, until the file has so many megabytes."""
    document = json.loads(pathlib.Path(source).read_text())
    events = [event for event in document.pop("traceEvents") if event.get("ph") == "X"]
    begin = min(event["ts"] for event in events)
    length = max(event["ts"] + event.get("dur", 0) for event in events) - begin + 1
    texts = [(event.pop("ts"), json.dumps(event)[1:]) for event in events]
    copies = 0
    with open(target, "w", encoding="utf-8") as file:
        file.write(json.dumps(document)[:-1] + ', "traceEvents": [\n')
        while file.tell() < megabytes * 1e6:
            file.write(",\n" if copies else "")
            file.write(",\n".join(f'{{"ts": {start + copies * length:.3f}, {text}' for start, text in texts))
            copies += 1
        file.write("\n]}\n")
    return copies


READ_IN_PYTHON = """
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
rows = [(e["name"], e["dur"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
try:
    import pandas
    table = pandas.DataFrame(rows, columns=["name", "dur"]).groupby("name")["dur"].agg(["sum", "count", "mean", "median"])
    total = table["sum"].sum()
except ImportError:
    sums = {}
    for name, dur in rows:
        sums[name] = sums.get(name, 0) + dur
    total = sum(sums.values())
print(total)
"""
READ_BY_HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
print(kernels["sum (us)"].sum())
"""


def timed(words):
    """Seconds, GiB at the peak, and the last line that was printed; None where it fails."""
    before = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate()
    seconds = time.perf_counter() - before
    if process.returncode != 0:
        return None
    peak_gib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20  # the largest of all children so far
    return {"seconds": seconds, "peak_gib_so_far": peak_gib, "printed": output.strip().splitlines()[-1][:80]}


def time_reading(options):
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    big = folder / "repeated.json"
    copies = repeat_trace(options.time, big, options.megabytes)
    bytes_of_file = big.stat().st_size
    readers = {"ridgepoint": [options.program, "trace", str(big), "--format", "json", "--output", str(folder / "big.json")],
               "ridgepoint again": [options.program, "trace", str(big), "--format", "json", "--output", str(folder / "big.json")],
               "python": [sys.executable, "-c", READ_IN_PYTHON, str(big)],
               "HolisticTraceAnalysis": [sys.executable, "-c", READ_BY_HTA, str(big)]}
    times = {}
    for name, words in readers.items():
        # The program prints nothing: what it found is in its file.
        found = timed(words if "ridgepoint" not in name else ["sh", "-c", '"$@" && echo done', "sh", *words])
        times[name] = found
        print(f"  {name:24} " + (f"{found['seconds']:8.2f} s, at most {found['peak_gib_so_far']:.2f} GiB so far"
                                 if found else "not installed, or failed"))
    document = json.loads((folder / "big.json").read_text())[0]
    total = sum(row["total_us"] for row in document["kernels"]["by_name"])
    rows = [compared("all kernels, copies and fills, us", total, float(times["python"]["printed"]))] if times["python"] else []
    print_rows(rows)
    result = {"bytes": bytes_of_file, "copies": copies, "events": document["events"], "times": times, "rows": rows}
    (folder / "results.json").write_text(json.dumps(result, indent=1))
    big.unlink()
    return max((row["difference"] for row in rows), default=1)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/ridgepoint"))
    parser.add_argument("--output", default="torch_trace", help="the folder (default torch_trace)")
    parser.add_argument("--model", default="small", choices=SIZES)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--dtype", default="bf16", help="fp32, tf32, bf16, fp16, or several: bf16,fp32")
    parser.add_argument("--attention", default="sdpa", choices=("sdpa", "naive"))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--with-stack", action="store_true", help="record modules, too; the trace is several times as large")
    parser.add_argument("--tolerance", type=float, default=0.01, help="of each difference (default 0.01)")
    parser.add_argument("--time", metavar="TRACE", help="time the reading of this trace, repeated, instead")
    parser.add_argument("--megabytes", type=float, default=1000)
    return parser.parse_args()


def main():
    options = parse_options()
    worst = time_reading(options) if options.time else max(check(options, dtype) for dtype in options.dtype.split(","))
    print(f"\nlargest difference {worst * 100:.4f} %, of {options.tolerance * 100:g} % allowed")
    return 0 if worst <= options.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
