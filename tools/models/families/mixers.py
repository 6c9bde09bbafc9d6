"""What mixes tokens in place of attention in the families of docs/models.md, in plain PyTorch and token by token, each
from the publication that it names. `model` is a Decoder of decoders.py, `name` the prefix of the mixer's
weights; x and the result are [batch, sequence, width]."""

import torch
from torch.nn import functional

from .operations import rms_norm


def convolution(model, x, name, width, bias):
    """Each channel by itself, over the token and the width - 1 before it."""
    channels = x.shape[-1]
    weight = model.take(name + ".weight", channels, 1, width)
    padded = functional.pad(x, (0, 0, width - 1, 0))
    y = sum(padded[:, i : i + x.shape[1]] * weight[:, 0, i] for i in range(width))
    return y + model.take(name + ".bias", channels) if bias else y


def unit(x):
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def steps_and_decays(model, steps, name, limits=(0, None)):
    """The steps, and the logarithms of what is left of the state: Mamba-2 (Dao and Gu, arXiv 2405.21060)."""
    heads = steps.shape[-1]
    steps = functional.softplus(steps + model.take(name + "dt_bias", heads)).clamp(*limits)
    return steps, -torch.exp(model.take(name + "A_log", heads)) * steps


def delta_rule(q, k, v, decays, betas):
    """Gated DeltaNet (Yang et al., arXiv 2412.06464), equation 10; [batch, sequence, heads, width]."""
    state = torch.zeros(*q.shape[:1], *q.shape[2:], v.shape[-1], dtype=v.dtype)
    rows = []
    for t in range(q.shape[1]):
        state = state * torch.exp(decays[:, t])[..., None, None]
        error = v[:, t] - (state * k[:, t, ..., None]).sum(-2)
        state = state + k[:, t, ..., None] * (betas[:, t, :, None] * error)[..., None, :]
        rows.append((state * q[:, t, ..., None]).sum(-2))
    return torch.stack(rows, 1)


def gated_delta(model, x, name):
    """The layer of Qwen3-Next: convolutions, queries and keys of length 1, a norm of each head and a gate."""
    config = model.config
    heads, key_heads = config["linear_num_value_heads"], config["linear_num_key_heads"]
    key, value = config["linear_key_head_dim"], config["linear_value_head_dim"]
    group = heads // key_heads
    if model.family == "qwen3_next":  # of each head of keys together
        qkvz = model.linear(x, name + "in_proj_qkvz", 2 * key_heads * key + 2 * heads * value)
        parts = qkvz.unflatten(-1, (key_heads, -1)).split([key, key, group * value, group * value], -1)
        q, k, v, z = (part.flatten(2) for part in parts)
        ba = model.linear(x, name + "in_proj_ba", 2 * heads).unflatten(-1, (key_heads, -1))
        beta, step = (part.flatten(2) for part in ba.split([group, group], -1))
        qkv = torch.cat([q, k, v], -1)
    else:
        qkv = model.linear(x, name + "in_proj_qkv", 2 * key_heads * key + heads * value)
        z = model.linear(x, name + "in_proj_z", heads * value)
        beta = model.linear(x, name + "in_proj_b", heads)
        step = model.linear(x, name + "in_proj_a", heads)
    qkv = functional.silu(convolution(model, qkv, name + "conv1d", config["linear_conv_kernel_dim"], False))
    q, k, v = qkv.split([key_heads * key, key_heads * key, heads * value], -1)
    q, k = (unit(t.unflatten(-1, (key_heads, key))).repeat_interleave(group, 2) for t in (q, k))
    _, decays = steps_and_decays(model, step, name)
    mixed = delta_rule(q / key**0.5, k, v.unflatten(-1, (heads, value)), decays, torch.sigmoid(beta))
    normed = rms_norm(mixed, model.take(name + "norm.weight", value), model.epsilon())
    return model.linear((normed * functional.silu(z.unflatten(-1, (heads, value)))).flatten(2), name + "out_proj",
                        model.width)


def state_space(model, x, name):
    """Mamba-2's layer; Falcon-H1 has factors, and its norm, if any, before the gate."""
    config, falcon, nemotron = model.config, model.family == "falcon_h1", model.family == "nemotron_h"
    heads, size, groups, state, width = (
        model.field(*names) for names in (("mamba_n_heads", "mamba_num_heads", "num_heads"),
                                          ("mamba_d_head", "mamba_head_dim", "head_dim"),
                                          ("mamba_n_groups", "n_groups"), ("mamba_d_state", "ssm_state_size", "state_size"),
                                          ("mamba_d_conv", "conv_kernel")))
    inner, keys = heads * size, groups * state
    in_bias = model.field("mamba_proj_bias", "use_bias", default=False)
    out_bias = config["projectors_bias"] if falcon else in_bias
    parts = model.linear(x * config.get("ssm_in_multiplier", 1), name + "in_proj", 2 * inner + 2 * keys + heads, in_bias)
    parts = parts.split([inner, inner, keys, keys, heads], -1)
    z, u, b, c, step = (part * factor for part, factor in zip(parts, config.get("ssm_multipliers", [1] * 5)))
    conv_bias = model.field("mamba_conv_bias", "use_conv_bias")
    ubc = functional.silu(convolution(model, torch.cat([u, b, c], -1), name + "conv1d", width, conv_bias))
    u, b, c = ubc.split([inner, keys, keys], -1)
    u = u.unflatten(-1, (heads, size))
    b, c = (t.unflatten(-1, (groups, state)).repeat_interleave(heads // groups, 2) for t in (b, c))
    least, most = config.get("time_step_limit", (0.0, None))
    steps, decays = steps_and_decays(model, step, name, (least, most))
    s, rows = torch.zeros(x.shape[0], heads, state, size, dtype=x.dtype), []
    for t in range(x.shape[1]):
        s = s * torch.exp(decays[:, t])[..., None, None]
        s = s + (steps[:, t, :, None] * b[:, t])[..., None] * u[:, t, :, None]
        rows.append((s * c[:, t, ..., None]).sum(-2))
    y = torch.stack(rows, 1) + model.take(name + "D", heads)[:, None] * u
    y = gated(model, y.flatten(2), functional.silu(z), name, groups if falcon or nemotron else 1)
    return model.linear(y, name + "out_proj", model.width, out_bias) * config.get("ssm_out_multiplier", 1)


def gated(model, y, gate, name, groups):
    config = model.config
    if model.family == "falcon_h1" and not config["mamba_rms_norm"]:
        return y * gate
    is_before = model.family == "falcon_h1" and config["mamba_norm_before_gate"]
    if not is_before:
        y = y * gate
    normed = rms_norm(y.unflatten(-1, (groups, -1)), 1, model.epsilon()).flatten(-2)
    normed = normed * model.take(name + "norm.weight", y.shape[-1])
    return normed * gate if is_before else normed


def short_convolution(model, x, name):
    """LFM2 (Liquid AI 2025): a convolution between two gates."""
    config = model.config
    bias = config["conv_bias"]
    b, c, u = model.linear(x, name + "in_proj", 3 * model.width, bias).chunk(3, -1)
    y = c * convolution(model, b * u, name + "conv", config["conv_L_cache"], bias)
    return model.linear(y, name + "out_proj", model.width, bias)


MIXERS = {"delta": gated_delta, "space": state_space, "convolution": short_convolution}
