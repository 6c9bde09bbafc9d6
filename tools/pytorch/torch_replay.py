#!/usr/bin/env python3
"""What PyTorch's allocator reserves under other settings, for `ridgepoint snapshot FILE --replay`.

    tools/pytorch/torch_replay.py measure --output folder   runs each program under each setting, on a GPU with PyTorch
    tools/pytorch/torch_replay.py compare folder            replays the recorded runs and compares; needs the program alone

Each program under each setting is a process of its own, because PyTorch reads PYTORCH_CUDA_ALLOC_CONF at its start. Under
the default setting a process records its memory from before the first allocation on, and writes NAME.pickle.gz, with
the peaks of its statistics in measured.json. Its own reserved peak is the limit of the settings that have one
(set_per_process_memory_fraction). The sizes are the same in every run: they come from a generator of this file, and
where a second stream uses a block, the program waits for the device before it asks for another one.
"""

import argparse
import concurrent.futures
import gc
import gzip
import json
import os
import pathlib
import pickle
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import dense_json

MIB = 1 << 20

# The setting, and the limit as a share of what the default setting reserves; None: no limit.
SETTINGS = [
    ("default", None),
    ("expandable_segments:True", None),
    ("max_split_size_mb:64", None),
    ("roundup_power2_divisions:4", None),
    ("roundup_power2_divisions:[1:8,16:4,64:2,256:1,>:1],max_split_size_mb:128", None),
    ("garbage_collection_threshold:0.6", 1.0),
    ("max_split_size_mb:64,garbage_collection_threshold:0.7", 1.0),
    ("default", 0.9),
    ("expandable_segments:True", 0.9),
]
TOLERANCE = 0.005  # of reserved bytes; allocated bytes are equal


class Numbers:
    """The same numbers in every process, whatever the versions of Python and PyTorch."""

    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % count

    def between(self, first, last):
        return first + self.below(last - first + 1)


def block_class():
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def split(self, x):
            batch, length, width = x.shape
            return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        def forward(self, x, cache=None):
            q, k, v = (self.split(part) for part in self.qkv(self.norm1(x)).chunk(3, -1))
            is_causal = cache is None or cache["k"] is None
            if cache is not None:
                if cache["k"] is not None:
                    k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
                cache["k"], cache["v"] = k, v
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
            x = x + self.output(mixed.transpose(1, 2).flatten(2))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    return Block


def training(seed, checkpoints):
    """Steps of a GPT with AdamW; the length of the sequences changes from step to step, as of batches of texts."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    width, layers, vocabulary, batch = (1024, 8, 8192, 8) if checkpoints else (768, 6, 16384, 8)
    numbers = Numbers(seed)
    embedding = nn.Embedding(vocabulary, width, device="cuda")
    with torch.device("cuda"):
        blocks = nn.ModuleList(block_class()(width, width // 64) for _ in range(layers))
        head = nn.Linear(width, vocabulary, bias=False)
    parameters = [*embedding.parameters(), *blocks.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, foreach=not checkpoints)
    for step in range(14):
        length = 16 * numbers.between(8, 96)
        rows = numbers.between(batch // 2, batch)
        tokens = torch.zeros(rows, length, dtype=torch.long, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            x = embedding(tokens)
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=False) if checkpoints else block(x)
            loss = functional.cross_entropy(head(x).flatten(0, 1).float(), tokens.flatten())
        del x
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=step % 3 != 2)
        gc.collect()
    torch.cuda.synchronize()


def decoding(seed):
    """Requests that arrive and leave, each with caches of keys and values that grow by a token a step."""
    import torch

    width, layers = 2048, 6
    numbers = Numbers(seed)
    with torch.device("cuda"), torch.no_grad():
        blocks = [block_class()(width, width // 64).to(torch.bfloat16) for _ in range(layers)]
    requests = []
    with torch.no_grad():
        for _ in range(60):
            if len(requests) < 6 and numbers.below(3) > 0:
                prompt = numbers.between(100, 3000)
                x = torch.zeros(1 + numbers.below(4), prompt, width, dtype=torch.bfloat16, device="cuda")
                caches = [{"k": None, "v": None} for _ in range(layers)]
                for block, cache in zip(blocks, caches):
                    x = block(x, cache)
                requests.append({"caches": caches, "left": numbers.between(5, 40), "rows": x.shape[0]})
                del x, caches, cache
            for request in requests:
                x = torch.zeros(request["rows"], 1, width, dtype=torch.bfloat16, device="cuda")
                for block, cache in zip(blocks, request["caches"]):
                    x = block(x, cache)
                request["left"] -= 1
            requests = [request for request in requests if request["left"] > 0]
            request = cache = x = None
    torch.cuda.synchronize()


def streams(seed):
    """Large and small tensors of three streams, some used by another stream when they are freed."""
    import torch

    numbers = Numbers(seed)
    all_streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    live = []
    for step in range(1500):
        mine = all_streams[numbers.below(3)]
        kind = numbers.below(10)
        if kind < 5:
            size = 512 * numbers.between(1, 1000)
        elif kind < 8:
            size = 4096 * numbers.between(256, 4096)
        else:
            size = 65536 * numbers.between(160, 2400)
        with torch.cuda.stream(mine):
            live.append((torch.empty(size, dtype=torch.uint8, device="cuda"), mine))
        while len(live) > 60 or (live and numbers.below(3) == 0):
            tensor, owner = live.pop(numbers.below(len(live)))
            other = all_streams[numbers.below(3)]
            if other is not owner:
                with torch.cuda.stream(other):
                    tensor.zero_()
                tensor.record_stream(other)
                del tensor
                torch.cuda.synchronize()
            else:
                del tensor
        if step == 900:
            torch.cuda.empty_cache()
    live.clear()
    torch.cuda.synchronize()


PROGRAMS = {
    "gpt": lambda: training(1, False),
    "checkpointed": lambda: training(2, True),
    "decoding": lambda: decoding(3),
    "streams": lambda: streams(4),
}


def run_one(options):
    """One program in this process; prints its figures."""
    import torch

    gc.disable()  # what it frees would depend on how many objects there are
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    if options.limit:
        torch.cuda.set_per_process_memory_fraction(options.limit / total)
    if options.snapshot:
        # Frames say where streams() empties the cache; the histories of the others would be many times as large.
        context = "all" if options.program == "streams" else None
        torch.cuda.memory._record_memory_history(context=context, stacks="python", max_entries=1 << 22)
    failed = False
    try:
        PROGRAMS[options.program]()
    except torch.cuda.OutOfMemoryError:
        failed = True
    statistics = torch.cuda.memory_stats()
    figures = {
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "ooms": statistics["num_ooms"],
        "retries": statistics["num_alloc_retries"],
        "fits": not failed,
        "capacity_bytes": int(options.limit / total * total) if options.limit else None,
        "torch": torch.__version__,
        "card": torch.cuda.get_device_name(),
    }
    if options.snapshot:
        snapshot = torch.cuda.memory._snapshot()
        with gzip.open(options.snapshot, "wb", 9) as file:
            pickle.dump(snapshot, file, 4)
    print(json.dumps(figures))


def measure_one(folder, program, setting, limit):
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_ALLOC_CONF")}
    if setting != "default":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
    command = [sys.executable, __file__, "run", program]
    if limit:
        command += ["--limit", str(limit)]
    if setting == "default" and limit is None:
        command += ["--snapshot", str(folder / f"{program}.pickle.gz")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{program} with {setting}: {result.stderr.strip()[-2000:]}")
    figures = json.loads(result.stdout.splitlines()[-1])
    print(f"{program:14} {setting:75} {figures['reserved_bytes'] / MIB:10.1f} MiB reserved", flush=True)
    return {"program": program, "setting": setting, **figures}


def measure(options):
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    programs = options.programs or list(PROGRAMS)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # The limits are shares of what the default setting reserves.
        defaults = list(pool.map(lambda program: measure_one(folder, program, "default", None), programs))
        reserved = {row["program"]: row["reserved_bytes"] for row in defaults}
        others = [
            (program, setting, share and int(share * reserved[program]) // (2 * MIB) * (2 * MIB))
            for program in programs
            for setting, share in SETTINGS[1:]
        ]
        rows = defaults + list(pool.map(lambda other: measure_one(folder, *other), others))
    dense_json.write(folder / "measured.json", rows)
    for program in programs:
        print(f"{program}.pickle.gz: {(folder / f'{program}.pickle.gz').stat().st_size / MIB:.2f} MiB")


def replay(options, row):
    command = [options.program, "snapshot", str(pathlib.Path(options.folder) / f"{row['program']}.pickle.gz"), "--replay"]
    command += ["--allocator", row["setting"], "--format", "json"]
    if row["capacity_bytes"]:
        command += ["--capacity", str(row["capacity_bytes"])]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {result.stderr.strip()}")
    return json.loads(result.stdout)[0]["replay"]


def compare(options):
    rows = json.loads((pathlib.Path(options.folder) / "measured.json").read_text())
    worst, wrong = 0.0, 0
    print("| program | setting | limit MiB | measured reserved | replayed | error % | allocated | retries | fits |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        found = replay(options, row)
        fits = found["fits"] is not False
        error = found["reserved_bytes"] / row["reserved_bytes"] - 1
        # Where both fail, the replay has the figures without a limit.
        is_compared = fits and row["fits"]
        is_right = fits == row["fits"] and (
            not is_compared
            or (abs(error) <= TOLERANCE and found["allocated_bytes"] == row["allocated_bytes"])
        )
        wrong += not is_right
        worst = max(worst, abs(error)) if is_compared else worst
        allocated = "equal" if found["allocated_bytes"] == row["allocated_bytes"] else (
            f"{found['allocated_bytes'] - row['allocated_bytes']:+d}" if is_compared else "-")
        limit = f"{row['capacity_bytes'] / MIB:.0f}" if row["capacity_bytes"] else "-"
        print(
            f"| {row['program']} | {row['setting']} | {limit} | {row['reserved_bytes'] / MIB:.0f} "
            f"| {found['reserved_bytes'] / MIB:.0f} | {100 * error:+.2f} | {allocated} "
            f"| {row['retries']}, {found['retries']} | {row['fits']}, {fits}{'' if is_right else ' WRONG'} |"
        )
    print(f"\n{len(rows)} runs, {wrong} differ; the largest error of reserved bytes is {100 * worst:.2f} %.")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(required=True)
    mode = modes.add_parser("measure", help="run each program under each setting")
    mode.add_argument("--output", required=True, help="a folder")
    mode.add_argument("--jobs", type=int, default=4, help="processes at once [4]")
    mode.add_argument("programs", nargs="*", help=f"only these of {', '.join(PROGRAMS)}")
    mode.set_defaults(do=measure)
    mode = modes.add_parser("compare", help="compare the replay with what was measured")
    mode.add_argument("folder")
    mode.add_argument("--program", default="build/ridgepoint")
    mode.set_defaults(do=compare)
    mode = modes.add_parser("run", help="one program in this process")
    mode.add_argument("program", choices=PROGRAMS)
    mode.add_argument("--limit", type=int, help="bytes")
    mode.add_argument("--snapshot", help="a file to write")
    mode.set_defaults(do=run_one)
    options = parser.parse_args()
    return options.do(options) or 0


if __name__ == "__main__":
    sys.exit(main())
