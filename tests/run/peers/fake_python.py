#!/usr/bin/env python3
"""Stands for a Python with PyTorch: answers as bench/peers/pytorch/peer.py does, without computing anything. The name by
which it is started says how: `agrees`, `differs`, `not_finite`, `ends`, `babbles`, `out_of_memory`, `unsupported`,
`without_torch`. Every request is appended to the file `requests` beside it."""

import json
import os
import struct
import sys

BEHAVIOUR = os.path.basename(sys.argv[0])
FOLDER = os.path.dirname(os.path.abspath(sys.argv[0]))
ITERATION_MS = 1e6  # far more than any iteration of a test


def tensors_of(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header


def failure(kind, message):
    return {"error": {"kind": kind, "message": message}}


class FakePeer:
    def build(self, request):
        if BEHAVIOUR == "out_of_memory":
            return failure("oom", "the card is full")
        if BEHAVIOUR == "unsupported":
            return failure("unsupported", "no torch.compile here")
        if "token_embeddings.weight" not in tensors_of(request["weights"]):
            return failure("failure", "the weights lack the embedding")
        self.expected = tensors_of(request["expected"])
        return {"attention": request["attention"]}

    def check(self, _):
        if BEHAVIOUR == "ends":
            sys.exit("a peer that ends")
        differences = {name: 1e-9 for name, entry in self.expected.items() if entry["dtype"] == "F32"}
        if BEHAVIOUR == "differs":
            differences["grad.lm_head.weight"] = 0.75
        if BEHAVIOUR == "not_finite":
            differences["grad.lm_head.weight"] = None
        return {"first_call_ms": 12.5, "differences": differences}

    def run(self, request):
        times = [ITERATION_MS] * request["iterations"]
        return {"host_ms": times, "device_ms": times, "peak_allocated": 1024, "peak_reserved": 2048}


def main():
    if sys.argv[1] == "-c":
        if BEHAVIOUR == "without_torch":
            sys.exit("ModuleNotFoundError: No module named 'torch'")
        print("9.8.7")
        return
    peer = FakePeer()
    for line in sys.stdin:
        with open(os.path.join(FOLDER, "requests"), "a", encoding="utf-8") as log:
            log.write(line)
        request = json.loads(line)
        answer = "no object" if BEHAVIOUR == "babbles" else getattr(peer, request["command"])(request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
