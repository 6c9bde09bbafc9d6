#!/usr/bin/env python3
"""The memory of a Transformer in PyTorch's eager mode, for `ridgepoint plan --as torch`.

    tools/torch_memory.py measure --output rows.jsonl      the peaks of a grid on a GPU, beside the program's predictions
    tools/torch_memory.py trace --output tests/golden/torch_memory
                                                           the allocations of small models on the CPU, for the tests

`measure` needs a GPU and `build/ridgepoint`. Each row is a process of its own: a warm-up, then the peak of the iterations
after torch.cuda.reset_peak_memory_stats(). `trace` writes a line for each allocation and release of an iteration, in
order: its bytes, negative for a release.
"""

import argparse
import itertools
import json
import math
import pathlib
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional

NORM_EPSILON = 1e-5
LOW_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

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
        size = width // heads
        angles = torch.outer(torch.arange(context).float(), 10000 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)
        self.register_buffer("mask", torch.ones(context, context).tril().bool(), persistent=False)

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


class Iteration:
    """Calling it runs one iteration of a mode: forward, training_forward, backward, step."""

    def __init__(self, sizes, mode, dtype, kind, adamw, device):
        self.mode, self.low, self.device = mode, LOW_TYPES.get(dtype), device
        self.has_loss = mode in ("backward", "step")
        self.model = Transformer(sizes, kind).to(device)
        self.optimizer = None
        if mode == "step":
            self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=not adamw, fused=adamw)
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
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        del loss
        if self.optimizer is None:
            return
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()


# The cases of `trace`. Every tensor is larger than the scalars that are left out.
TRACED_SIZES = dict(vocab=50, context=16, d_model=32, d_ff=72, layers=2, heads=2, batch=2)
TRACED = [(mode, dtype, kind) for mode in ("forward", "training_forward", "backward", "step") for dtype in ("fp32", "bf16")
          for kind in ("composite", "softmax")]
LARGEST_SCALAR_BYTES = 16
PRODUCTS = {"aten::mm", "aten::bmm"}
ELEMENTWISE = {f"aten::{op}" for op in ("add", "add_", "sub", "mul", "div", "where", "sum", "pow")}


def is_allocation(event):
    return str(event.typed[0]).endswith("Allocation")


def scratch(product):
    """The pointers that a product releases itself."""
    return {event.typed[1].ptr for event in product.children if is_allocation(event) and event.typed[1].alloc_size < 0}


def allocations(tree):
    """The bytes of each allocation, negative for a release, in order. Left out are scalars, and what only the CPU makes:
    operands cast to the dtype of an elementwise result, and the scratch memory of products."""
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


def trace(options):
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    for mode, dtype, kind in TRACED:
        iteration = Iteration(TRACED_SIZES, mode, dtype, kind, False, "cpu")
        iteration()
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            iteration()
        tree = profile.profiler.kineto_results.experimental_event_tree()
        lines = [str(count) for count in allocations(tree)]
        (folder / f"{mode}_{dtype}_{kind}.txt").write_text("\n".join(lines) + "\n")
        print(f"{mode} {dtype} {kind}: {len(lines)} events, torch {torch.__version__}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    tracing = commands.add_parser("trace", help="record allocations on the CPU")
    tracing.add_argument("--output", required=True, help="the folder of the recordings")
    tracing.set_defaults(run=trace)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
