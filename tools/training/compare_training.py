#!/usr/bin/env python3
"""Trains one model with `ridgepoint train` and with PyTorch, from the same weights on the same tokens, and compares.

The tokens are read in the order of the file. Prints the largest difference of the losses of the first 100 steps, the
mean losses of the last tenth of the steps and their difference with a paired 95 % interval, the losses on the tokens
for validation, and the rates. Then it trains with Ridgepoint again from weights whose last bits are changed: how far
these losses part is the floor, which rounding alone reaches. Exits 1 where --first or --last says that a difference is
too large.

With --peer transformers, PyTorch trains the model of `transformers` that has the same config.json and weights; with
--lora the adapters of `peft`, from the same A. Then the newest checkpoint of Ridgepoint must load there as it is, and
its logits must be those of `ridgepoint verify` to 1e-5 (relative L2).

usage: compare_training.py --program build/ridgepoint --data train.bin [--validation val.bin] [--device cpu] ...
       compare_training.py ... --peer transformers [--model config.json] [--lora r=8,alpha=16,targets=q_proj,v_proj]
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers" / "pytorch"))

import numpy  # noqa: E402
import torch  # noqa: E402
from model import Transformer  # noqa: E402
from run_program import output_of  # noqa: E402
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
    parser.add_argument("--peer", choices=["own", "transformers"], default="own", help="whose model PyTorch trains")
    parser.add_argument("--model", help="a config.json or a name of the catalogue, instead of sizes; for transformers")
    parser.add_argument("--lora", help="as `ridgepoint train` takes it; for transformers with peft")
    parser.add_argument("--first", type=float, help="the largest difference of the first 100 losses")
    parser.add_argument("--last", type=float, help="the largest relative difference of the losses at the end")
    options = parser.parse_args()
    if (options.model or options.lora) and options.peer == "own":
        parser.error("--model and --lora need --peer transformers")
    return options


def model_options(options):
    if options.model:
        return ["--model", options.model, "--context", str(options.context), "--batch", str(options.batch)]
    names = ["layers", "d_model", "d_ff", "heads", "vocab", "context", "batch"]
    return [word for name in names for word in ("--" + name.replace("_", "-"), str(getattr(options, name)))]


def make_start(options, folder):
    """The initial weights, and the initial adapters where there are any."""
    weights = folder / ("initial" if options.peer == "transformers" else "initial.safetensors")
    named = f"{weights}/" if options.peer == "transformers" else str(weights)
    output_of([options.program, "verify", "--optimizer-steps", "1", "--save-weights", named, "--device", options.device,
               *model_options(options)])
    if options.model:
        options.vocab = json.loads((weights / "config.json").read_text())["vocab_size"]
    options.tokens = tokens_for(options.data, options.vocab, folder / "tokens.bin")
    options.held_tokens = options.validation and tokens_for(options.validation, options.vocab, folder / "held.bin")
    if not options.lora:
        return weights, None
    # A step that changes nothing: B is 0, so A has no gradient, and run_torch() makes B 0 again.
    output_of([options.program, "train", "--data", options.tokens, "--weights", weights, "--lora", options.lora,
               "--iterations", "1", "--learning-rate", "1e-30", "--save", folder / "start", "--device", options.device,
               *model_options(options)])
    return weights, newest_checkpoint(folder / "start") / "adapter"


def tokens_for(path, vocab, wide):
    """The file as Ridgepoint reads it: a plain file has 32 bits a token where 16 do not hold the vocabulary."""
    if vocab <= 1 << 16:
        return path
    numpy.fromfile(path, dtype="<u2").astype("<u4").tofile(wide)
    return wide


def move_last_bits(weights):
    """Moves every second number of the matrices in the file, or in the files of a folder, by its last bit."""
    for path in weights.glob("*.safetensors") if weights.is_dir() else [weights]:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        for name, entry in header.items():
            if name == "__metadata__" or entry["dtype"] != "F32" or len(entry["shape"]) != 2:
                continue
            numbers = numpy.memmap(path, dtype="<f4", mode="r+", offset=8 + size + entry["data_offsets"][0],
                                   shape=math.prod(entry["shape"]))
            numbers[::2] = numpy.nextafter(numbers[::2], numpy.float32(numpy.inf))
            numbers.flush()


def newest_checkpoint(folder):
    return max(folder.glob("step-*"))


def run_ridgepoint(options, weights, folder):
    command = [options.program, "train", "--data", options.tokens, "--shuffle", "off", "--weights", weights, "--format",
               "jsonl", "--iterations", str(options.iterations), "--dtype", options.dtype, "--device", options.device,
               "--learning-rate", str(options.learning_rate), "--warmup", str(options.warmup), "--schedule", "cosine",
               "--clip-norm", str(options.clip_norm), *model_options(options)]
    if options.validation:
        command += ["--validation", options.held_tokens, "--evaluation-batches", str(options.evaluation_batches)]
    if options.lora:
        command += ["--lora", options.lora]
    if options.peer == "transformers" and folder is not None:
        command += ["--save", str(folder)]
    return [json.loads(line) for line in output_of(command).splitlines()]


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


def own_model(options, weights):
    sizes = {name: getattr(options, name) for name in ("layers", "d_model", "d_ff", "heads", "vocab", "context")}
    model = Transformer(sizes, "sdpa" if hasattr(functional, "scaled_dot_product_attention") else "naive",
                        options.device)
    model.load(SafetensorsFile(str(weights)))
    return model, model


def published_model(options, folder, adapter, is_trained):
    """The model of `transformers` in a folder, with an adapter of `peft`; what did not load; and its logits."""
    import transformers

    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                                    output_loading_info=True)
    wrong = [key for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in info[kind]]
    model.config.use_cache = False
    if adapter is not None:
        import peft

        model = peft.PeftModel.from_pretrained(model, str(adapter), is_trainable=is_trained)
    model = model.to(options.device)
    return model, wrong, lambda inputs: model(input_ids=inputs).logits


def check_export(options, run):
    """Whether `transformers` loads the newest checkpoint and computes what Ridgepoint does."""
    checkpoint = newest_checkpoint(run)
    adapter = checkpoint / "adapter" if options.lora else None
    tokens, results = run / "tokens.safetensors", run / "results.safetensors"
    output_of([options.program, "verify", "--weights", adapter or checkpoint, "--model", checkpoint / "config.json",
               "--context", options.context, "--batch", 2, "--optimizer-steps", 0, "--save-tokens", tokens, "--dump",
               results, "--device", options.device])
    model, wrong, logits_of = published_model(options, checkpoint, adapter, False)
    model.eval()
    with torch.no_grad():
        logits = logits_of(SafetensorsFile(str(tokens))["inputs"].to(options.device)).double().cpu()
    expected = SafetensorsFile(str(results))["logits"].double().view_as(logits)
    difference = float((logits - expected).norm() / expected.norm())
    print(f"export: {len(wrong)} keys that do not fit{' ' if wrong else ''}{' '.join(wrong)}; logits differ by "
          f"{difference:.1e} (relative L2)")
    return not wrong and difference <= 1e-5


def exact_clip(parameters, limit):
    """Clips by the norm of all gradients. On a processor PyTorch 1.13 sums squares in fp32 with an error of 1e-3."""
    norm = math.sqrt(sum(float(parameter.grad.double().pow(2).sum()) for parameter in parameters))
    for parameter in parameters:
        parameter.grad.mul_(min(1.0, limit / (norm + 1e-6)))


def run_torch(options, weights, adapter):
    torch.backends.cuda.matmul.allow_tf32 = False
    clip = exact_clip if options.device == "cpu" else torch.nn.utils.clip_grad_norm_
    if options.peer == "own":
        model, logits_of = own_model(options, weights)
    else:
        model, wrong, logits_of = published_model(options, weights, adapter, True)
        if wrong:
            sys.exit(f"keys that do not fit: {' '.join(wrong)}")
        model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if adapter is not None:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if ".lora_B." in name:
                    parameter.zero_()
    on_card = options.device.startswith("cuda")
    optimizer = torch.optim.AdamW(trained, lr=options.learning_rate, weight_decay=0.01,
                                  **({"fused": True} if on_card else {}))
    is_low = options.dtype not in ("fp32", "tf32")

    def loss_of(inputs, targets):
        with torch.autocast("cuda" if on_card else "cpu", torch.bfloat16, enabled=is_low):
            logits = logits_of(inputs)
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
        clip(trained, options.clip_norm)
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


def largest_difference(losses, others):
    return max(abs(a - b) for a, b in zip(losses, others))


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights, adapter = make_start(options, folder)
        ours = run_ridgepoint(options, str(weights), folder / "run")
        theirs, seconds, validation = run_torch(options, weights, adapter)
        is_loaded = options.peer == "own" or check_export(options, folder / "run")
        move_last_bits(weights)
        moved = [row["loss"] for row in run_ridgepoint(options, str(weights), None)]
    losses = [row["loss"] for row in ours]
    first = largest_difference(losses[:100], theirs)
    tail = slice(len(losses) * 9 // 10, None)
    differences = [a - b for a, b in zip(losses[tail], theirs[tail])]
    mean = statistics.mean(theirs[tail])
    half_width = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    last = abs(statistics.mean(differences)) / mean
    tokens = options.batch * options.context
    print(f"first {min(100, len(losses))} losses: at most {first:.2e} apart ({losses[0]:.6f} and {theirs[0]:.6f} at first)")
    print(f"last tenth: {statistics.mean(losses[tail]):.5f} and {mean:.5f}; the difference is "
          f"{statistics.mean(differences):+.5f} +- {half_width:.5f}")
    print(f"floor: Ridgepoint again, with the last bits of its weights changed: the first losses at most "
          f"{largest_difference(losses[:100], moved):.2e} apart, the last tenth "
          f"{statistics.mean(moved[tail]) - statistics.mean(losses[tail]):+.5f}")
    if validation is not None:
        held = ours[-1]["validation_loss"]
        last = abs(held - validation) / validation
        print(f"validation: {held:.5f} and {validation:.5f}, {100 * (held / validation - 1):+.3f} %")
    rates = [tokens / statistics.median(times[len(times) // 4:])
             for times in ([row["seconds"] for row in ours], seconds)]
    print(f"tokens/s: {rates[0]:.0f} and {rates[1]:.0f}, {rates[0] / rates[1]:.2f} times")
    too_far = (options.first is not None and first > options.first) or (options.last is not None and last > options.last)
    sys.exit(1 if too_far or not is_loaded else 0)


if __name__ == "__main__":
    main()
