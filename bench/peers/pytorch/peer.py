"""PyTorch as a peer of Ridgepoint: answers requests, one JSON object a line, until its input ends.

    {"command": "build", ...}                   makes the model and reads its parameters
    {"command": "check"}                        relative L2 differences from Ridgepoint's results, by tensor
    {"command": "run", "iterations": N}         times N iterations

Answers go to the standard output that the program was started with; whatever else prints goes to standard error.
"""

import gc
import json
import math
import os
import time
import traceback

import torch

from iteration import Iteration, Unsupported

ELEMENTS_AT_ONCE = 1 << 24
# A compiled function that uses CUDA graphs replays them from its third call on.
CALLS_UNTIL_STEADY = 3


def take_connection():
    """Requests and answers. Neither libraries nor their child processes get hold of the two."""
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, answers


def relative_difference(tensor, expected):
    """The L2 norm of the difference over that of `expected`, in double precision. None where one is not finite."""
    squares = expected_squares = 0.0
    tensor, expected = tensor.flatten(), expected.flatten()
    if tensor.shape != expected.shape:
        raise ValueError(f"{tensor.numel()} elements were expected to be {expected.numel()}")
    for ours, theirs in zip(tensor.split(ELEMENTS_AT_ONCE), expected.split(ELEMENTS_AT_ONCE)):
        theirs = theirs.to(tensor.device).double()
        squares += (ours.double() - theirs).square().sum().item()
        expected_squares += theirs.square().sum().item()
    difference = math.sqrt(squares / expected_squares if expected_squares > 0 else squares)
    return difference if math.isfinite(difference) else None


class Peer:
    """A method a command; each takes the request and returns the answer."""

    def __init__(self):
        self.iteration = None
        self.is_cuda = False

    def build(self, request):
        self.iteration = Iteration(request)
        self.is_cuda = self.iteration.device.type == "cuda"
        return {"attention": self.iteration.attention}

    def check(self, _):
        iteration = self.iteration
        begin = time.perf_counter()
        output = iteration.without_update()
        self.synchronize()
        first_call_ms = (time.perf_counter() - begin) * 1e3
        if iteration.how != "eager":
            for _ in range(CALLS_UNTIL_STEADY - 1):
                output = iteration.without_update()
        expected = iteration.expected
        differences = {name: relative_difference(tensor, expected[name]) for name, tensor in iteration.results(output)}
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats()
        return {"first_call_ms": first_call_ms, "differences": differences}

    def run(self, request):
        gc.collect()
        gc.disable()
        times = [self.timed() for _ in range(request["iterations"])]
        gc.enable()
        answer = {"host_ms": [host for host, _ in times], "device_ms": [device for _, device in times]}
        if self.is_cuda:
            answer["peak_allocated"] = torch.cuda.max_memory_allocated()
            answer["peak_reserved"] = torch.cuda.max_memory_reserved()
        return answer

    def synchronize(self):
        if self.is_cuda:
            torch.cuda.synchronize()

    def timed(self):
        """Milliseconds of one iteration by the host's clock, synchronisation included, and by the device's."""
        if not self.is_cuda:
            begin = time.perf_counter()
            self.iteration()
            elapsed_ms = (time.perf_counter() - begin) * 1e3
            return elapsed_ms, elapsed_ms
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin = time.perf_counter()
        start.record()
        self.iteration()
        stop.record()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3, start.elapsed_time(stop)


def is_out_of_memory(error):
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def failure(error):
    kind = "unsupported" if isinstance(error, Unsupported) else "oom" if is_out_of_memory(error) else "failure"
    lines = str(error).strip().splitlines() or [""]
    message = lines[0] if kind == "unsupported" else f"{type(error).__name__}: {lines[0]}"
    return {"error": {"kind": kind, "message": message}}


def main():
    requests, answers = take_connection()
    peer = Peer()
    for line in requests:
        request = json.loads(line)
        try:
            answer = getattr(peer, request["command"])(request)
        except Exception as error:  # every failure becomes an answer
            traceback.print_exc()
            answer = failure(error)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
