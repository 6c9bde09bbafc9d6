#!/usr/bin/python3
"""Makes a golden file: the language model of docs/model.md in PyTorch, in double precision, on random weights.

Writes into --output/CASE:
  weights.safetensors   fp32 parameters
  tokens.safetensors    int64 `inputs` and `targets` [batch, context]
  expected.safetensors  fp32 `logits`, `loss` and `grad.NAME` of the given weights, `param.NAME` after three AdamW
                        steps on the same tokens; the configuration in the metadata

and prints how far PyTorch's own fp32 run is from it (largest relative L2 error of a tensor). `ridgepoint verify
--weights W --tokens T --against E` reads the three. Needs Debian's python3-torch.
"""

import argparse
import os

import torch

import safetensors_io

# The committed cases: odd sizes throughout, and the smallest of everything.
CASES = {
    "odd_sizes": dict(layers=2, d_model=24, d_ff=37, heads=4, vocab=101, context=17, batch=3, seed=3),
    "narrow": dict(layers=3, d_model=6, d_ff=5, heads=3, vocab=7, context=5, batch=1, seed=2),
}
NORM_EPSILON = 1e-5
ROPE_THETA = 10000.0


def parameter_shapes(config):
    d, ff, vocab = config["d_model"], config["d_ff"], config["vocab"]
    shapes = {"token_embeddings.weight": (vocab, d)}
    for i in range(config["layers"]):
        layer = f"layers.{i}."
        shapes[layer + "ln1.weight"] = (d,)
        for name in ("q_proj", "k_proj", "v_proj", "output_proj"):
            shapes[layer + f"attn.{name}.weight"] = (d, d)
        shapes[layer + "ln2.weight"] = (d,)
        shapes[layer + "ffn.w1.weight"] = (ff, d)
        shapes[layer + "ffn.w2.weight"] = (d, ff)
        shapes[layer + "ffn.w3.weight"] = (ff, d)
    shapes["ln_final.weight"] = (d,)
    shapes["lm_head.weight"] = (vocab, d)
    return shapes


def make_weights(config, generator):
    """Normal at the model's own scales. Norm weights are moved off 1, where a missing factor would not show."""
    weights = {}
    for name, shape in parameter_shapes(config).items():
        noise = torch.randn(shape, generator=generator)
        if len(shape) == 1:
            weights[name] = 1 + 0.1 * noise
        elif name.startswith("token_embeddings"):
            weights[name] = noise
        else:
            weights[name] = noise * (2 / sum(shape)) ** 0.5
    return weights


def rope_tables(context, width, dtype):
    """Cosines and sines [context, width / 2]: angles in double, values rounded to fp32 as the engine keeps them."""
    frequencies = ROPE_THETA ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(context, dtype=torch.float64), frequencies)
    return angles.cos().float().to(dtype), angles.sin().float().to(dtype)


def rms_norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + NORM_EPSILON) * weight


def rotate(x, cosines, sines):
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = torch.empty_like(x)
    rotated[..., 0::2] = even * cosines - odd * sines
    rotated[..., 1::2] = even * sines + odd * cosines
    return rotated


def attention(x, weights, prefix, heads, tables):
    batch, context, d = x.shape

    def project(name):
        return (x @ weights[f"{prefix}.{name}.weight"].T).view(batch, context, heads, d // heads).transpose(1, 2)

    q, k, v = rotate(project("q_proj"), *tables), rotate(project("k_proj"), *tables), project("v_proj")
    scores = q @ k.transpose(-1, -2) * (d // heads) ** -0.5
    future = torch.ones(context, context, dtype=torch.bool).triu(1)
    mixed = torch.softmax(scores.masked_fill(future, float("-inf")), -1) @ v
    return mixed.transpose(1, 2).reshape(batch, context, d) @ weights[f"{prefix}.output_proj.weight"].T


def forward(weights, inputs, config):
    tables = rope_tables(config["context"], config["d_model"] // config["heads"], weights["lm_head.weight"].dtype)
    x = weights["token_embeddings.weight"][inputs]
    for i in range(config["layers"]):
        layer = f"layers.{i}"
        x = x + attention(rms_norm(x, weights[f"{layer}.ln1.weight"]), weights, f"{layer}.attn", config["heads"], tables)
        h = rms_norm(x, weights[f"{layer}.ln2.weight"])
        w1, w2, w3 = (weights[f"{layer}.ffn.w{n}.weight"] for n in (1, 2, 3))
        x = x + (torch.nn.functional.silu(h @ w1.T) * (h @ w3.T)) @ w2.T
    return rms_norm(x, weights["ln_final.weight"]) @ weights["lm_head.weight"].T


def rounded(tensor):
    return tensor.detach().to(torch.float32, copy=True)  # a copy: the optimizer works in place


def train(initial, inputs, targets, config, steps, dtype):
    """Logits, loss and gradients of the first step, parameters after the last, as name -> fp32 tensor."""
    weights = {name: w.to(dtype, copy=True).requires_grad_() for name, w in initial.items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    results = {}
    for step in range(steps):
        optimizer.zero_grad()
        logits = forward(weights, inputs, config)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        if step == 0:
            results["logits"], results["loss"] = rounded(logits), rounded(loss)
            results.update({"grad." + name: rounded(w.grad) for name, w in weights.items()})
        optimizer.step()
    results.update({"param." + name: rounded(w) for name, w in weights.items()})
    return results


def relative_errors(results, expected):
    """(relative L2 error, name) of every tensor, the largest first. Of a tensor that is 0 but for rounding, as the
    gradient of a bias of keys without rotary embedding, the error is what the result has instead."""

    def error(name):
        want = expected[name].double()
        size = want.norm() if want.norm() > 1e-12 else 1.0
        return ((results[name].double() - want).norm() / size).item()

    return sorted(((error(name), name) for name in expected), reverse=True)


def write(folder, name, tensors, metadata=None):
    dtypes = {torch.float32: "F32", torch.int64: "I64"}
    raw = {key: (dtypes[t.dtype], t.shape, t.contiguous().numpy().tobytes()) for key, t in tensors.items()}
    safetensors_io.write(os.path.join(folder, name + ".safetensors"), raw, metadata)


def read_with_metadata(path):
    """fp32 and int64 tensors by name, and the metadata."""
    dtypes = {"F32": torch.float32, "I64": torch.int64}
    tensors, metadata = safetensors_io.read(path)
    return {name: torch.frombuffer(bytearray(data), dtype=dtypes[dtype]).view(shape)
            for name, (dtype, shape, data) in tensors.items()}, metadata


def read(path):
    return read_with_metadata(path)[0]


def make(config, steps, output):
    """Writes the three files and returns (largest relative L2 error, tensor) of PyTorch's own fp32 run."""
    generator = torch.Generator().manual_seed(config["seed"])
    weights = make_weights(config, generator)
    shape = (config["batch"], config["context"])
    inputs, targets = (torch.randint(config["vocab"], shape, generator=generator) for _ in range(2))
    expected = train(weights, inputs, targets, config, steps, torch.float64)
    metadata = {key: str(value) for key, value in config.items()} | {"optimizer_steps": str(steps)}
    os.makedirs(output, exist_ok=True)
    write(output, "weights", weights)
    write(output, "tokens", {"inputs": inputs, "targets": targets})
    write(output, "expected", expected, metadata)
    single = train(weights, inputs, targets, config, steps, torch.float32)
    return relative_errors(single, expected)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", default=sorted(CASES), help="cases to make (default: all)")
    parser.add_argument("--output", default="tests/golden/data", help="folder with one folder a case in it")
    options = parser.parse_args()
    for case in options.case:
        if case not in CASES:
            parser.error(f"no case '{case}'; there are {', '.join(sorted(CASES))}")
        output = os.path.join(options.output, case)
        error, name = make(CASES[case], 3, output)
        print(f"{output}: PyTorch {torch.__version__} in fp32 is within {error:.2e} ({name})")


if __name__ == "__main__":
    main()
