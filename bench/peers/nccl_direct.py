#!/usr/bin/env python3
"""Times collectives by direct calls of NCCL, as nccl-tests does: a line of JSON for each op and size.

    bench/peers/nccl_direct.py --ranks 4

Starts a process for each rank on the cards 0, 1, ... of this machine. fp32, out of place, 5 untimed launches and then 5
batches of 20 launches one after another; the time is the median batch of the slowest rank by launch. It needs libnccl.so.2
and libcudart.so on the path of the loader, and nothing else.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OPS = ("all_reduce", "reduce_scatter", "all_gather")
SIZES = [1 << power for power in range(10, 31, 2)]
FLOAT, SUM = 7, 0
BATCHES, LAUNCHES = 5, 20


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def library(*names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit(f"none of {', '.join(names)} can be loaded")


def check(status, what):
    if status != 0:
        sys.exit(f"{what} failed with status {status}")


class Rank:
    def __init__(self, rank, ranks, folder):
        self.cuda = library("libcudart.so.13", "libcudart.so.12", "libcudart.so")
        self.nccl = library("libnccl.so.2")
        self.ranks, self.handle, self.stream = ranks, ctypes.c_void_p(), ctypes.c_void_p()
        check(self.cuda.cudaSetDevice(rank), "cudaSetDevice")
        check(self.cuda.cudaStreamCreate(ctypes.byref(self.stream)), "cudaStreamCreate")
        check(self.nccl.ncclCommInitRank(ctypes.byref(self.handle), ranks, self.unique_id(rank, folder), rank), "ncclCommInitRank")
        self.buffers = [self.allocate(SIZES[-1]) for _ in range(2)]

    def unique_id(self, rank, folder):
        """Rank 0 makes it and writes it down for the others."""
        path, value = pathlib.Path(folder, "id"), UniqueId()
        if rank == 0:
            check(self.nccl.ncclGetUniqueId(ctypes.byref(value)), "ncclGetUniqueId")
            path.with_suffix(".part").write_bytes(bytes(value))
            path.with_suffix(".part").rename(path)
            return value
        while not path.exists():
            time.sleep(0.01)
        return UniqueId.from_buffer_copy(path.read_bytes())

    def allocate(self, size):
        memory = ctypes.c_void_p()
        check(self.cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size)), "cudaMalloc")
        check(self.cuda.cudaMemset(memory, 0, ctypes.c_size_t(size)), "cudaMemset")
        return memory

    def launch(self, op, size):
        source, target = self.buffers
        count = ctypes.c_size_t(size // 4 if op == "all_reduce" else size // 4 // self.ranks)
        if op == "all_gather":
            return self.nccl.ncclAllGather(source, target, count, FLOAT, self.handle, self.stream)
        call = self.nccl.ncclAllReduce if op == "all_reduce" else self.nccl.ncclReduceScatter
        return call(source, target, count, FLOAT, SUM, self.handle, self.stream)

    def batch_us(self, op, size, launches):
        """The time of a launch; all ranks begin together, because the launch before was a collective."""
        check(self.launch(op, 1024), op)
        check(self.cuda.cudaStreamSynchronize(self.stream), op)
        begin = time.perf_counter()
        for _ in range(launches):
            check(self.launch(op, size), op)
        check(self.cuda.cudaStreamSynchronize(self.stream), op)
        return (time.perf_counter() - begin) / launches * 1e6

    def times(self):
        for op in OPS:
            for size in SIZES:
                self.batch_us(op, size, 5)
                yield op, size, statistics.median(self.batch_us(op, size, LAUNCHES) for _ in range(BATCHES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        for op, size, us in Rank(options.rank, options.ranks, options.folder).times():
            print(json.dumps([op, size, us]), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--ranks", str(options.ranks), "--folder", folder]
        ranks = [subprocess.Popen([*words, "--rank", str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(options.ranks)]
        lines = [[json.loads(line) for line in rank.communicate()[0].splitlines()] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit(1)
    for same in zip(*lines):
        op, size, _ = same[0]
        factor = (2 if op == "all_reduce" else 1) * (options.ranks - 1) / options.ranks
        us = max(line[2] for line in same)
        print(json.dumps({"by": "nccl", "op": op, "bytes": size, "time_us": us, "bus_gb_per_second": size * factor / us / 1e3,
                          "ranks": options.ranks}))


if __name__ == "__main__":
    main()
