#!/usr/bin/env python3
"""The memory of the Transformer of docs/model.md in PyTorch's eager mode, for `ridgepoint plan --as torch`.

    tools/pytorch/torch_memory.py measure --output rows.jsonl    peaks on a GPU beside the program's predictions
    tools/pytorch/torch_memory.py snapshots --output folder      memory snapshots of a GPU, and whether the program reads them
    tools/pytorch/torch_memory.py trace                          allocations of small models on the CPU, which the tests compare

`measure` and `snapshots` need a GPU and build/ridgepoint. Each row and each snapshot is a process of its own. `measure`
takes the peak of iterations after a warm-up and torch.cuda.reset_peak_memory_stats(); rows that the file has already
are not measured again. `snapshots` compares the program's figures with torch.cuda.memory_stats() of the same process,
and writes NAME.pickle.gz and NAME.json. `trace` needs PyTorch 2.6 or later: earlier ones add gradients differently. A
file has a line of JSON with the configuration, then the bytes of each allocation of an iteration, in order, negative
for a release.
"""

import argparse
import concurrent.futures
import gzip
import itertools
import json
import math
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
import threading

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import dense_json

NORM_EPSILON = 1e-5
LOW_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        dtype = x.dtype
        x = x.float()
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPSILON) * self.weight).to(dtype)


def as_autocast_on_a_gpu(x):
    """Autocast computes exp and softmax in fp32 on a GPU, but not on the CPU."""
    on_cpu = x.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return x.float() if on_cpu else x


def plain_softmax(x):
    difference = x - x.amax(-1, keepdim=True)
    e = torch.exp(as_autocast_on_a_gpu(difference))
    del difference
    return e / e.sum(-1, keepdim=True)


def rotate(x, cosines, sines):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cosines - b * sines, a * sines + b * cosines), -1).flatten(-2).to(x.dtype)


class Attention(nn.Module):
    """`kind` as the program's --attention: composite, softmax, flash."""

    def __init__(self, width, heads, context, kind):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.q, self.k, self.v, self.output = (linear(width, width) for _ in range(4))
        for name in ("cosines", "sines"):
            self.register_buffer(name, torch.empty(context, width // heads // 2), persistent=False)
        self.register_buffer("mask", torch.empty(context, context, dtype=torch.bool), persistent=False)

    def fill_buffers(self):
        context, half = self.cosines.shape
        angles = torch.outer(torch.arange(context).float(), 10000 ** (-torch.arange(half).float() / half))
        self.cosines.copy_(angles.cos())
        self.sines.copy_(angles.sin())
        self.mask.copy_(torch.ones(context, context).tril().bool())

    def forward(self, x):
        batch, context, width = x.shape
        size = width // self.heads
        q, k, v = (layer(x).view(batch, context, self.heads, size).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        q, k = rotate(q, self.cosines, self.sines), rotate(k, self.cosines, self.sines)
        if self.kind == "flash":
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            a = q @ k.transpose(-1, -2) / math.sqrt(size)
            a = torch.where(self.mask, a, float("-inf"))
            if self.kind == "softmax":
                y = torch.softmax(as_autocast_on_a_gpu(a), -1) @ v
            else:
                y = plain_softmax(a) @ v
        return self.output(y.transpose(1, 2).reshape(batch, context, width))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w3, self.w2 = linear(width, inner), linear(width, inner), linear(inner, width)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, sizes, kind):
        super().__init__()
        self.ln1, self.ln2 = RmsNorm(sizes["d_model"]), RmsNorm(sizes["d_model"])
        self.attention = Attention(sizes["d_model"], sizes["heads"], sizes["context"], kind)
        self.feed_forward = FeedForward(sizes["d_model"], sizes["d_ff"])

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.feed_forward(self.ln2(x))


class Transformer(nn.Module):
    def __init__(self, sizes, kind):
        super().__init__()
        self.embeddings = nn.Embedding(sizes["vocab"], sizes["d_model"])
        self.layers = nn.ModuleList(Layer(sizes, kind) for _ in range(sizes["layers"]))
        self.norm = RmsNorm(sizes["d_model"])
        self.head = linear(sizes["d_model"], sizes["vocab"])

    def forward(self, tokens):
        x = self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@torch.no_grad()
def make_model(sizes, kind, device):
    """Allocates what moving the finished model to the device would, in the same order, without making it elsewhere."""
    with torch.device("meta"):
        model = Transformer(sizes, kind)
    model.to_empty(device=device)
    for parameter in model.parameters():
        parameter.normal_(std=0.02) if parameter.dim() == 2 else parameter.fill_(1)
    for layer in model.layers:
        layer.attention.fill_buffers()
    return model


class Iteration:
    """Calling it runs one iteration. `row` has the sizes, and mode, dtype and attention as the program names them; `as`
    is torch or torch-fused."""

    def __init__(self, row, device):
        sizes, mode, dtype, kind = row, row["mode"], row["dtype"], row["attention"]
        self.mode, self.low, self.device = mode, LOW_TYPES.get(dtype), device
        self.before_backward = None
        self.has_loss = mode in ("forward_backward", "step")
        self.model = make_model(sizes, kind, device)
        self.optimizer = None
        if mode == "step":
            is_fused = row["as"] == "torch-fused"
            self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=not is_fused, fused=is_fused)
        self.scaler = torch.amp.GradScaler(device) if dtype == "fp16" and self.has_loss else None
        shape = (sizes["batch"], sizes["context"])
        self.tokens = torch.randint(0, sizes["vocab"], shape, device=device)
        self.targets = torch.randint(0, sizes["vocab"], shape, device=device) if self.has_loss else None

    def autocast(self):
        return torch.autocast(self.device, dtype=self.low or torch.bfloat16, enabled=self.low is not None)

    def loss(self):
        with self.autocast():
            logits = self.model(self.tokens)
            rows = logits.view(-1, logits.size(-1))
            del logits
            return functional.cross_entropy(rows.float(), self.targets.view(-1))

    def logits(self):
        with self.autocast():
            return self.model(self.tokens)

    def __call__(self):
        self.model.zero_grad(set_to_none=True)
        if not self.has_loss:
            with torch.set_grad_enabled(self.mode == "training_forward"):
                self.logits()
            return
        loss = self.loss()
        if self.device == "cuda":
            self.before_backward = torch.cuda.memory_allocated()
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        del loss
        if self.optimizer is None:
            return
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()


# The cases of `trace`. Every tensor is larger than the scalars that are left out. With one sequence, matrix products
# copy no operand. The derivative of softmax allocates more on a GPU than on the CPU.
BATCH = dict(vocab=50, context=16, d_model=32, d_ff=72, layers=2, heads=2, batch=2)
ONE_SEQUENCE = dict(BATCH, batch=1, layers=1)
TRACED = [(BATCH, "forward", "composite"), (BATCH, "forward", "softmax"), (BATCH, "training_forward", "composite"),
          (BATCH, "training_forward", "softmax"), (BATCH, "step", "composite"), (ONE_SEQUENCE, "step", "composite")]
LARGEST_SCALAR_BYTES = 16
PRODUCTS = {"aten::mm", "aten::bmm"}
ELEMENTWISE = {f"aten::{op}" for op in ("add", "add_", "sub", "mul", "div", "where", "sum", "pow")}


def is_allocation(event):
    return str(event.typed[0]).endswith("Allocation")


def scratch(product):
    """The pointers that a product releases itself."""
    return {event.typed[1].ptr for event in product.children if is_allocation(event) and event.typed[1].alloc_size < 0}


def allocations(tree):
    """The bytes of each allocation, negative for a release, in order. Left out are scalars, and what only the CPU
    allocates: operands cast to the dtype of an elementwise result, and the scratch memory of products."""
    left_out = set()

    def walk(event, names, unwanted):
        if is_allocation(event):
            pointer, count = event.typed[1].ptr, event.typed[1].alloc_size
            is_cast = bool(ELEMENTWISE & set(names)) and "aten::to" in names
            if count > 0 and (count <= LARGEST_SCALAR_BYTES or is_cast or pointer in unwanted):
                left_out.add(pointer)
            elif pointer not in left_out:
                yield count
            elif count < 0:
                left_out.discard(pointer)
            return
        unwanted = scratch(event) if event.name in PRODUCTS else unwanted
        for child in event.children:
            yield from walk(child, [*names, event.name], unwanted)

    for root in tree:
        yield from walk(root, [], set())


def in_order(counts):
    """From the first allocation to the last. Releases without an allocation between them are sorted: their order is not
    PyTorch's to choose."""
    groups = [(is_release, list(group)) for is_release, group in itertools.groupby(counts, lambda count: count < 0)]
    while groups and groups[0][0]:
        groups.pop(0)
    while groups and groups[-1][0]:
        groups.pop()
    return [count for is_release, group in groups for count in (sorted(group) if is_release else group)]


def counts_text(counts):
    """Lines of counts; 4096*3 are three of 4096."""
    runs = ((count, len(list(group))) for count, group in itertools.groupby(counts))
    words = " ".join(f"{count}*{length}" if length > 1 else str(count) for count, length in runs)
    return textwrap.fill(words, 120, break_on_hyphens=False)


def write_recording(path, configuration, tree):
    row = json.dumps({"torch": torch.__version__, **configuration})
    path.write_text(row + "\n" + counts_text(in_order(allocations(tree))) + "\n")


def trace(options):
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        sys.exit(f"torch_memory.py: torch {torch.__version__} adds gradients differently; trace needs 2.6 or later")
    for (sizes, mode, kind), dtype in itertools.product(TRACED, ("fp32", "bf16")):
        row = {**sizes, "mode": mode, "dtype": dtype, "attention": kind, "as": "torch"}
        iteration = Iteration(row, "cpu")
        iteration()
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            iteration()
        tree = profile.profiler.kineto_results.experimental_event_tree()
        write_recording(folder / f"{mode}_{dtype}_{kind}_batch_{sizes['batch']}.txt", row, tree)


# The rows of `measure`, by the program's option names.
GRID = {"model": "small,medium,large,xl,2.7b", "context": "128,256,512,1024", "batch": "4", "dtype": "fp32,bf16",
        "attention": "composite,flash", "mode": "forward,training_forward,step", "as": "torch"}
WARMUP, ITERATIONS = 3, 3


def predictions(options):
    """The records of the program for the grid. AdamW makes a difference in a step only."""
    words = [options.program, "plan", "--format", "jsonl"]
    for name in GRID:
        words += ["--" + name, getattr(options, name)]
    output = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    records = [json.loads(line) for line in output.splitlines()]
    return [record for record in records if record["mode"] == "step" or record["as"] == "torch"]


def row_of(record):
    sizes = {name: record["model"][name] for name in ("layers", "d_model", "d_ff", "heads", "vocab")}
    return {"model": record["model"]["name"], **sizes,
            **{name: record[name] for name in GRID if name != "model"}}


def peak(options):
    """Prints the peaks of one row, in a process that runs nothing else."""
    row = json.loads(options.row)
    try:
        iteration = Iteration(row, "cuda")
        for _ in range(WARMUP):
            iteration()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(ITERATIONS):
            iteration()
        torch.cuda.synchronize()
        measured = {"peak_allocated": torch.cuda.max_memory_allocated(),
                    "peak_reserved": torch.cuda.max_memory_reserved(), "before_backward": iteration.before_backward}
    except torch.cuda.OutOfMemoryError:
        measured = {"peak_allocated": None}
    print(json.dumps({"torch": torch.__version__, "card": torch.cuda.get_device_name(), **measured}))


def error_of(row):
    return row["predicted"]["peak_allocated"] / row["measured"]["peak_allocated"] - 1


def report(rows):
    print("| model | context | batch | dtype | attention | mode | AdamW | measured, MiB | predicted, MiB | error |")
    print("|---|---:|---:|---|---|---|---|---:|---:|---:|")
    rows = [row for row in rows if row["measured"]["peak_allocated"]]
    for row in rows:
        adamw = {"torch": "foreach", "torch-fused": "fused"}[row["as"]] if row["mode"] == "step" else ""
        measured, predicted = (row[side]["peak_allocated"] / 2**20 for side in ("measured", "predicted"))
        settings = " | ".join(str(row[name]) for name in ("model", "context", "batch", "dtype", "attention", "mode"))
        print(f"| {settings} | {adamw} | {measured:.0f} | {predicted:.0f} | {error_of(row):+.2%} |")
    if rows:
        errors = sorted(abs(error_of(row)) for row in rows)
        close = sum(error <= 0.02 for error in errors)
        print(f"\n{close} of {len(errors)} rows are within 2 %; the largest error is {errors[-1]:.2%}.")


PROCESS_BYTES = 2**30  # what a process needs beside its peak: context, libraries, and the error of the prediction


class Room:
    """The memory of the GPU that processes share: a process waits until its part is free, and one alone always runs."""

    def __init__(self, capacity):
        self.capacity, self.taken, self.changed = capacity, 0, threading.Condition()

    def take(self, count):
        with self.changed:
            self.changed.wait_for(lambda: self.taken == 0 or self.taken + count <= self.capacity)
            self.taken += count

    def give(self, count):
        with self.changed:
            self.taken -= count
            self.changed.notify_all()


def measured_row(record, room):
    row = row_of(record)
    count = int(1.05 * record["memory_bytes"]["peak_reserved"]) + PROCESS_BYTES
    room.take(count)
    try:
        words = [sys.executable, __file__, "peak", "--row", json.dumps(row)]
        measured = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    finally:
        room.give(count)
    return {**row, "predicted": record["memory_bytes"], "measured": measured}


def measure(options):
    path = pathlib.Path(options.output)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {json.dumps({name: row[name] for name in GRID}) for row in rows}
    records = [record for record in predictions(options)
               if json.dumps({name: row_of(record)[name] for name in GRID}) not in known]
    room = Room(torch.cuda.mem_get_info()[0] - PROCESS_BYTES)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
        futures = [executor.submit(measured_row, record, room) for record in records]
        for future in concurrent.futures.as_completed(futures):
            rows.append(future.result())
            with path.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    report(rows)


# The snapshots: a name, the mode, and what is special about the process.
SNAPSHOTS = {"step": "step", "forward_loop": "training_forward", "out_of_memory": "step", "overflow": "step",
             "expandable": "step"}
OVERFLOWING_EVENTS = 1000
FAR_MORE_EVENTS = 1_000_000


def phases_of(iteration):
    """One iteration with annotations, as a training script would set them."""
    mark = torch.profiler.record_function
    iteration.model.zero_grad(set_to_none=True)
    with mark("forward"):
        if not iteration.has_loss:
            iteration.logits()
            return
        loss = iteration.loss()
    with mark("backward"):
        loss.backward()
    del loss
    with mark("optimizer"):
        iteration.optimizer.step()


def snapshot(options):
    """Makes one snapshot, in a process that does nothing else."""
    folder, name = pathlib.Path(options.output), options.name
    torch.cuda.init()
    history = {"stacks": "python", "max_entries": OVERFLOWING_EVENTS if name == "overflow" else FAR_MORE_EVENTS}
    try:
        torch.cuda.memory._record_memory_history(global_record_annotations=True, **history)
    except TypeError:  # older ones have no annotations
        torch.cuda.memory._record_memory_history(**history)
    row = {**json.loads(options.row), "mode": SNAPSHOTS[name], "dtype": "bf16", "attention": "flash", "as": "torch"}
    iteration = Iteration(row, "cuda")
    out_of_memory = 0
    for number in range(4):
        try:
            phases_of(iteration)
        except torch.cuda.OutOfMemoryError:
            out_of_memory += 1
        if name == "out_of_memory" and number == 1:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**21) / total)
            more_tokens = (8 * row["batch"], row["context"])
            iteration.tokens = torch.randint(0, row["vocab"], more_tokens, device="cuda")
            iteration.targets = torch.randint(0, row["vocab"], more_tokens, device="cuda")
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(str(folder / f"{name}.pickle"))
    figures = {level: stats[f"{level}_bytes.all.peak"] for level in ("allocated", "active", "reserved")}
    at_end = {level: stats[f"{level}_bytes.all.current"] for level in ("allocated", "active", "reserved")}
    expected = {"torch": torch.__version__, "card": torch.cuda.get_device_name(), "row": row, "peak": figures,
                "at_end": at_end, "ooms": stats["num_ooms"], "retries": stats["num_alloc_retries"]}
    dense_json.write(folder / f"{name}.json", expected)


def with_short_names(pickled):
    """The same snapshot without the folders of this machine: site-packages/torch/nn/modules/module.py."""
    root = str(pathlib.Path(torch.__file__).parent.parent.parent) + "/"

    def shorten(item):
        if isinstance(item, dict):
            return {key: shorten(value) for key, value in item.items()}
        if isinstance(item, (list, tuple)):
            return type(item)(map(shorten, item))
        if item == __file__:
            return pathlib.Path(__file__).name
        return item.removeprefix(root) if isinstance(item, str) else item

    return pickle.dumps(shorten(pickle.loads(pickled)))


def snapshot_errors(name, expected, found):
    """What the program's record of a snapshot has otherwise than PyTorch's own statistics."""
    # With an overflow the peak may lie before what is left of the history.
    parts = ["at_end"] if name == "overflow" else ["at_end", "peak"]
    pairs = {f"{part}.{level}": (found[part][f"{level}_bytes"], count)
             for part in parts for level, count in expected[part].items()}
    pairs["oom_events"] = (len(found["oom_events"]), expected["ooms"])
    pairs["history_complete"] = (found["history_complete"], name != "overflow")
    return [f"{key}: {mine}, PyTorch has {theirs}" for key, (mine, theirs) in pairs.items() if mine != theirs]


def snapshots(options):
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    words = [options.program, "plan", "--format", "jsonl", "--model", options.model, "--batch", str(options.batch),
             "--context", str(options.context), "--mode", "step"]
    planned = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    row = {name: planned["model"][name] for name in ("layers", "d_model", "d_ff", "heads", "vocab")}
    row |= {"batch": options.batch, "context": options.context}
    failed = False
    for name in SNAPSHOTS:
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if name == "expandable" else {}
        words = [sys.executable, __file__, "snapshot", "--name", name, "--output", folder, "--row", json.dumps(row)]
        subprocess.run(words, env={**os.environ, **settings}, check=True)
        path = folder / f"{name}.pickle"
        words = [options.program, "snapshot", path, "--format", "json"]
        found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
        expected = json.loads((folder / f"{name}.json").read_text())
        errors = snapshot_errors(name, expected, found[0] if isinstance(found, list) else found)
        failed = failed or bool(errors)
        print(f"{name}: {'; '.join(errors) or 'as PyTorch counts'}", flush=True)
        (folder / f"{name}.pickle.gz").write_bytes(gzip.compress(with_short_names(path.read_bytes()), mtime=0))
        path.unlink()
    sys.exit(1 if failed else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure", help="measure peaks on a GPU")
    measuring.add_argument("--output", required=True, help="file of rows, JSON Lines")
    measuring.add_argument("--program", default="build/ridgepoint", help="default: %(default)s")
    measuring.add_argument("--jobs", type=int, default=4, help="processes at a time (default: %(default)s)")
    for name, values in GRID.items():
        measuring.add_argument("--" + name, default=values, help="as the program takes it (default: %(default)s)")
    measuring.set_defaults(run=measure)
    one = commands.add_parser("peak", help="measure one row; `measure` calls this")
    one.add_argument("--row", required=True, help="JSON")
    one.set_defaults(run=peak)
    recording = commands.add_parser("snapshots", help="make memory snapshots on a GPU, and read them")
    recording.add_argument("--output", required=True, help="folder")
    recording.add_argument("--program", default="build/ridgepoint", help="default: %(default)s")
    recording.add_argument("--model", default="tiny", help="default: %(default)s")
    recording.add_argument("--batch", type=int, default=2, help="default: %(default)s")
    recording.add_argument("--context", type=int, default=64, help="default: %(default)s")
    recording.set_defaults(run=snapshots)
    making = commands.add_parser("snapshot", help="make one snapshot; `snapshots` calls this")
    making.add_argument("--output", required=True, help="folder")
    making.add_argument("--name", required=True, choices=SNAPSHOTS)
    making.add_argument("--row", required=True, help="JSON")
    making.set_defaults(run=snapshot)
    tracing = commands.add_parser("trace", help="record allocations on the CPU")
    tracing.add_argument("--output", default="tests/golden/torch_memory", help="folder (default: %(default)s)")
    tracing.set_defaults(run=trace)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
