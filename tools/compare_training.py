#!/usr/bin/env python3
"""Trains one model with `ridgepoint train` and with PyTorch, from the same weights on the same tokens, and compares.

The tokens are read in the order of the file. Prints the largest difference of the losses of the first 100 steps, the
mean losses of the last tenth of the steps and their difference with a paired 95 % interval, the losses on the tokens
for validation, and the rates. Exits 1 where --first or --last says that a difference is too large.

usage: compare_training.py --program build/ridgepoint --data train.bin [--validation val.bin] [--device cpu] ...
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench" / "peers" / "pytorch"))

import numpy  # noqa: E402
import torch  # noqa: E402
from model import Transformer  # noqa: E402
from safetensors_file import SafetensorsFile  # noqa: E402
from torch.nn import functional  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", required=True, help="tokens of 16 bits")
    parser.add_argument("--validation", help="tokens of 16 bits")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="fp32", help="of Ridgepoint; PyTorch runs fp32, or autocast to bf16")
    for name, value in {"layers": 4, "d-model": 256, "d-ff": 704, "heads": 4, "vocab": 10048, "context": 128, "batch": 8,
                        "iterations": 200, "warmup": 20, "evaluation-batches": 20}.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--clip-norm", type=float, default=1.0)
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--first", type=float, help="the largest difference of the first 100 losses")
    parser.add_argument("--last", type=float, help="the largest relative difference of the losses at the end")
    return parser.parse_args()


def model_options(options):
    names = ["layers", "d_model", "d_ff", "heads", "vocab", "context", "batch"]
    return [word for name in names for word in ("--" + name.replace("_", "-"), str(getattr(options, name)))]


def run_ridgepoint(options, weights):
    command = [options.program, "train", "--data", options.data, "--shuffle", "off", "--weights", weights, "--format",
               "jsonl", "--iterations", str(options.iterations), "--dtype", options.dtype, "--device", options.device,
               "--learning-rate", str(options.learning_rate), "--warmup", str(options.warmup), "--schedule", "cosine",
               "--clip-norm", str(options.clip_norm), *model_options(options)]
    if options.validation:
        command += ["--validation", options.validation, "--evaluation-batches", str(options.evaluation_batches)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def rate_of(step, options):
    if step <= options.warmup:
        return options.learning_rate * step / options.warmup
    share = (step - options.warmup) / (options.iterations - options.warmup)
    return options.learning_rate * 0.5 * (1 + math.cos(math.pi * share))


class Batches:
    """The sequences of a file in its order, again and again."""

    def __init__(self, path, options):
        self.tokens = numpy.fromfile(path, dtype="<u2").astype(numpy.int64)
        self.context, self.batch, self.device = options.context, options.batch, options.device
        self.count = (len(self.tokens) - 1) // self.context

    def __call__(self, number):
        rows = [(number * self.batch + row) % self.count * self.context for row in range(self.batch)]
        pieces = numpy.stack([self.tokens[at:at + self.context + 1] for at in rows])
        both = torch.from_numpy(pieces).to(self.device)
        return both[:, :-1], both[:, 1:]


def run_torch(options, weights):
    torch.backends.cuda.matmul.allow_tf32 = False
    sizes = {name: getattr(options, name) for name in ("layers", "d_model", "d_ff", "heads", "vocab", "context")}
    model = Transformer(sizes, "sdpa" if hasattr(functional, "scaled_dot_product_attention") else "naive",
                        options.device)
    model.load(SafetensorsFile(weights))
    on_card = options.device.startswith("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0.01,
                                  **({"fused": True} if on_card else {}))
    is_low = options.dtype not in ("fp32", "tf32")

    def loss_of(inputs, targets):
        with torch.autocast("cuda" if on_card else "cpu", torch.bfloat16, enabled=is_low):
            logits = model(inputs)
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    step_loss = torch.compile(loss_of) if options.compile else loss_of
    batches = Batches(options.data, options)
    losses, seconds = [], []
    for step in range(1, options.iterations + 1):
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step, options)
        loss = step_loss(*batches(step - 1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    validation = None
    if options.validation:
        held = Batches(options.validation, options)
        count = max(1, min(options.evaluation_batches, held.count // options.batch))
        with torch.no_grad():
            validation = statistics.mean(loss_of(*held(number)).item() for number in range(count))
    return losses, seconds, validation


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        weights = str(pathlib.Path(folder) / "initial.safetensors")
        subprocess.run([options.program, "verify", "--optimizer-steps", "1", "--save-weights", weights, "--device",
                        options.device, *model_options(options)], check=True, stdout=subprocess.DEVNULL)
        ours = run_ridgepoint(options, weights)
        theirs, seconds, validation = run_torch(options, weights)
    losses = [row["loss"] for row in ours]
    first = max(abs(a - b) for a, b in zip(losses[:100], theirs[:100]))
    tail = slice(len(losses) * 9 // 10, None)
    differences = [a - b for a, b in zip(losses[tail], theirs[tail])]
    mean = statistics.mean(theirs[tail])
    half_width = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    last = abs(statistics.mean(differences)) / mean
    tokens = options.batch * options.context
    print(f"first {min(100, len(losses))} losses: at most {first:.2e} apart ({losses[0]:.6f} and {theirs[0]:.6f} at first)")
    print(f"last tenth: {statistics.mean(losses[tail]):.5f} and {mean:.5f}; the difference is "
          f"{statistics.mean(differences):+.5f} +- {half_width:.5f}")
    if validation is not None:
        held = ours[-1]["validation_loss"]
        last = abs(held - validation) / validation
        print(f"validation: {held:.5f} and {validation:.5f}, {100 * (held / validation - 1):+.3f} %")
    rates = [tokens / statistics.median(times[len(times) // 4:])
             for times in ([row["seconds"] for row in ours], seconds)]
    print(f"tokens/s: {rates[0]:.0f} and {rates[1]:.0f}, {rates[0] / rates[1]:.2f} times")
    too_far = (options.first is not None and first > options.first) or (options.last is not None and last > options.last)
    sys.exit(1 if too_far else 0)


if __name__ == "__main__":
    main()
