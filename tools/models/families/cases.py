"""The cases of table.py: rules of random weights under published names, and tokens."""

import math
import zlib

import numpy as np
import torch

from . import decoders, own_layers
from .model import GEMMA, NORMS_OF_HEADS, FamilyModel, head_width
from .table import BATCH, CASES, ENCODERS, SEQUENCE, TRAITS


def linear_shapes(name, outputs, inputs, bias=False):
    return {f"{name}.weight": (outputs, inputs), **({f"{name}.bias": (outputs,)} if bias else {})}


def parameter_shapes(config):
    """Name -> shape of every tensor of the published files."""
    if config["model_type"] in TRAITS:
        return own_layers.shapes(config)
    return gpt2_shapes(config) if config["model_type"] == "gpt2" else decoder_shapes(config)


def gpt2_shapes(config):
    d, vocab = config["n_embd"], config["vocab_size"]
    inner = config["n_inner"] or 4 * d
    shapes = {"transformer.wte.weight": (vocab, d), "transformer.wpe.weight": (config["n_positions"], d)}
    matrices = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, inner), "mlp.c_proj": (inner, d)}
    norms = ["transformer.ln_f"]
    for layer in range(config["n_layer"]):
        prefix = f"transformer.h.{layer}."
        norms += [prefix + "ln_1", prefix + "ln_2"]
        for name, shape in matrices.items():
            shapes |= {f"{prefix}{name}.weight": shape, f"{prefix}{name}.bias": shape[1:]}
    return shapes | {f"{norm}.{part}": (d,) for norm in norms for part in ("weight", "bias")}


def decoder_shapes(config):
    family, d, vocab = config["model_type"], config["hidden_size"], config["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocab, d), "model.norm.weight": (d,)}
    norms = ["post_attention_layernorm"]
    norms += ["post_feedforward_layernorm"] if family in (*GEMMA, "olmo2") else []
    norms += ["pre_feedforward_layernorm"] if family in GEMMA else []
    norms += ["input_layernorm"] if family != "olmo2" else []
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}{norm}.weight": (d,) for norm in norms}
        shapes |= attention_shapes(config, prefix + "self_attn.")
        has_experts = "num_experts_per_tok" in config and FamilyModel(config, {}).has_experts(layer)
        shapes |= expert_shapes(config, prefix) if has_experts else ffn_shapes(config, prefix + "mlp.")
    tied = config.get("tie_word_embeddings", family in GEMMA)
    return shapes if tied else shapes | {"lm_head.weight": (vocab, d)}


def attention_shapes(config, prefix):
    family, d, width = config["model_type"], config["hidden_size"], head_width(config)
    q, kv = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    bias = config.get("attention_bias", False)
    shapes = linear_shapes(prefix + "o_proj", d, q, bias)
    if family == "phi3":
        shapes |= linear_shapes(prefix + "qkv_proj", q + 2 * kv, d)
    else:
        for name, rows in (("q_proj", q), ("k_proj", kv), ("v_proj", kv)):
            shapes |= linear_shapes(prefix + name, rows, d, bias or family in ("qwen2", "qwen2_moe"))
    if family in NORMS_OF_HEADS:
        shapes |= {prefix + "q_norm.weight": (width,), prefix + "k_norm.weight": (width,)}
    if family == "olmo2":
        shapes |= {prefix + "q_norm.weight": (q,), prefix + "k_norm.weight": (kv,)}
    return shapes


def ffn_shapes(config, prefix):
    d, width, bias = config["hidden_size"], config["intermediate_size"], config.get("mlp_bias", False)
    shapes = linear_shapes(prefix + "down_proj", d, width, bias)
    if config["model_type"] == "phi3":
        return shapes | linear_shapes(prefix + "gate_up_proj", 2 * width, d)
    for name in ("gate_proj", "up_proj"):
        shapes |= linear_shapes(prefix + name, width, d, bias)
    return shapes


def expert_shapes(config, prefix):
    d, mixtral = config["hidden_size"], config["model_type"] == "mixtral"
    count = config["num_local_experts" if mixtral else "num_experts"]
    width = config["intermediate_size" if mixtral else "moe_intermediate_size"]
    prefix += "block_sparse_moe." if mixtral else "mlp."
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    shapes = {prefix + "gate.weight": (count, d)}
    for i in range(count):
        expert = f"{prefix}experts.{i}."
        shapes |= {expert + gate + ".weight": (width, d), expert + up + ".weight": (width, d),
                   expert + down + ".weight": (d, width)}
    if "shared_expert_intermediate_size" in config:
        shapes |= ffn_shapes(config | {"intermediate_size": config["shared_expert_intermediate_size"]},
                             prefix + "shared_expert.")
        shapes[prefix + "shared_expert_gate.weight"] = (1, d)
    return shapes


def scale_of(name, shape, family):
    """(mean, standard deviation) of a weight, at the scale of its inputs. Norms are moved off their usual value, where a
    missing factor would not show."""
    if name.endswith(decoders.BUFFERS):
        return (1 if name.endswith("scalar") else 0), 0.1
    if len(shape) == 1:
        is_factor = ("norm" in name or ".ln_" in name) and name.endswith(".weight") or name.endswith((".D", "scale"))
        if family in ("gemma3n_text", "gemma4_text") and ("q_norm" in name or "k_norm" in name):
            return 0.4, 0.1  # scores are not divided by the root of the size: larger ones make softmax sharp
        adds_one = (family in (*GEMMA, "gemma") or family.startswith("qwen3_5") or
                    family in ("qwen3_next", "minimax_m3_vl_text"))
        return (1 if is_factor and (not adds_one or ".linear_attn." in name) else 0), 0.2
    if "embed" in name.replace("embed_out", "") or ".wte." in name or ".wpe." in name:
        return 0, 0.4
    if name.endswith("_fn"):  # streams that are alike would make gradients small sums of large terms
        return 0, 2 / shape[-1] ** 0.5
    if "_coefs" in name:  # of streams: large ones make each other larger from layer to layer
        return 0, 0.2 / shape[-1] ** 0.5
    if "per_layer_input_gate" in name:  # where GELU is far below 0 it has few digits, which the norm after it makes large
        return 0, 0.2 / shape[-1] ** 0.5
    return 0, (1 if len(shape) == 3 and shape[1] == 1 else shape[-1] ** -0.5)  # short convolutions


def mix(count, first=0):
    """splitmix64 of the numbers from `first`: mix() of src/core/random/element.h."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(first) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def made_weight(rule):
    """The fp32 weight of a rule `first mean deviation shape...`: evenly spread numbers, element i from mix(first + i). So
    the golden files have one line a weight, and tests/support/graphs/golden_families.cpp makes the weights again."""
    first, mean, deviation, *shape = rule.split()
    shape = [int(size) for size in shape]
    uniform = (mix(math.prod(shape), int(first)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values = float(mean) + float(deviation) * (12**0.5 * (uniform - 0.5))
    return torch.from_numpy(values.astype(np.float32)).view(shape)


def make_weights(rules, choices):
    """name -> tensor, of the rules and of the tensors that have none: the experts of the vocabulary's tokens."""
    return dict(sorted(({name: made_weight(rule) for name, rule in rules.items()} | choices).items()))


# Of cases whose gradients would be small sums of large terms, of which rounding leaves few digits. With 0, two scores of
# an indexer of deepseek_v32 are too close.
SEEDS = dict(bert=8, deepseek_v4=14, gemma3n=5, gemma4=5, gemma4_experts=5, nemotron_h=7, olmo3=2, openmoe=5, qwen2=3,
             qwen3_5_moe=2, qwen3_next=6)


def make_case(name):
    """(config, rules of weights by name, weights without a rule, inputs, targets) of a case; tokens are int64
    [BATCH, SEQUENCE]. Of images they are patches and classes."""
    config = CASES[name]
    vocab = config.get("vocab_size") or config.get("padded_vocab_size")
    seed = zlib.crc32(name.encode()) + SEEDS.get(name, 1)
    generator = torch.Generator().manual_seed(seed)
    rules, choices = {}, {}
    for number, (key, shape) in enumerate(sorted(parameter_shapes(config).items())):
        if key.endswith("tid2eid"):  # experts of each token of the vocabulary, each once
            choices[key] = torch.stack([torch.randperm(5, generator=generator)[: shape[1]] for _ in range(shape[0])])
            continue
        mean, deviation = scale_of(key, shape, config["model_type"])
        rules[key] = " ".join(map(str, (seed + (number << 32), mean, deviation, *shape)))
    if config["model_type"] == "vit":
        inputs = torch.randn(BATCH, *own_layers.patches_of(config), generator=generator)
        return config, rules, choices, inputs, torch.randint(config["num_labels"], (BATCH,), generator=generator)
    inputs, targets = (torch.randint(vocab, (BATCH, SEQUENCE), generator=generator) for _ in range(2))
    if config["model_type"] in ENCODERS:  # some tokens have no target, and none is padding
        targets[:, ::3] = -100
        inputs[inputs == 1] = 0
    return config, rules, choices, inputs, targets
