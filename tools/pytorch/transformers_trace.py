#!/usr/bin/env python3
"""Allocations of small models on the CPU, in plain modules of PyTorch whose code follows that of transformers 5, for
the tests of `ridgepoint plan --as torch`.

    tools/pytorch/transformers_trace.py --output tests/golden/transformers_memory

tools/pytorch/torch_memory.py has the format of a file and its rules. All are in fp32 with eager attention, because autocast and
scaled_dot_product_attention differ between the CPU and a GPU. Cases with `checkpoint` need PyTorch 2.6 or later; of
PyTorch 1.13 forward and loss are as in 2.6, while backward and the optimizer have temporaries of their own.
"""

import argparse
import json
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import torch_memory


NOT_COMPARED = "not compared"
PER_LAYER = 5  # width of a layer's own inputs (Gemma 4)


class Softmax(torch.autograd.Function):
    """torch.softmax() over the last axis, whose derivative multiplies gradient and result first, as on a GPU."""

    @staticmethod
    def forward(ctx, x):
        output = torch.softmax(x, -1)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx, gradient):
        output, = ctx.saved_tensors
        result = torch.empty_like(output)
        product = gradient * output
        del product
        return result


class Mean(torch.autograd.Function):
    """x.mean(-1, keepdim=True), which PyTorch 1.13 saves its argument of."""

    @staticmethod
    def forward(ctx, x):
        ctx.sizes = x.shape
        return x.mean(-1, keepdim=True)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.expand(ctx.sizes) / ctx.sizes[-1]


def mean(x):
    return x.mean(-1, keepdim=True) if hasattr(torch, "compile") else Mean.apply(x)


def linear(inputs, outputs, bias=False):
    return nn.Linear(inputs, outputs, bias=bias)


class RmsNorm(nn.Module):
    """`kind`: llama, olmo2 or gemma, by the place of the weight."""

    def __init__(self, width, kind):
        super().__init__()
        self.weight, self.kind = nn.Parameter(torch.ones(width)), kind

    def forward(self, hidden_states):
        dtype = hidden_states.dtype
        if self.kind == "gemma":
            output = self.normalised(hidden_states.float())
            output = output * (1.0 + self.weight.float())
            return output.type_as(hidden_states)
        hidden_states = hidden_states.to(torch.float32)
        variance = mean(hidden_states.pow(2))
        hidden_states = hidden_states * torch.rsqrt(variance + 1e-6)
        if self.kind == "olmo2":
            return (self.weight * hidden_states).to(dtype)
        return self.weight * hidden_states.to(dtype)

    def normalised(self, x):
        return x * torch.rsqrt(mean(x.pow(2)) + 1e-6)


class PlainLayerNorm(nn.Module):
    """Cohere's."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        middle = mean(hidden_states)
        variance = mean((hidden_states - middle).pow(2))
        hidden_states = (hidden_states - middle) * torch.rsqrt(variance + 1e-5)
        hidden_states = self.weight.to(torch.float32) * hidden_states
        return hidden_states.to(input_dtype)


def norm_of(c, width):
    family = c["family"]
    if family == "cohere":
        return PlainLayerNorm(width)
    if family in ("phi", "gpt_neox", "opt", "olmo", "bert", "gptj", "gpt_neo"):
        return nn.LayerNorm(width, elementwise_affine=family != "olmo")
    return RmsNorm(width, {"gemma2": "gemma", "olmo2": "olmo2", "gpt_oss": "olmo2"}.get(family, "llama"))


class Conv1D(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        sizes = x.size()[:-1] + (self.weight.size(1),)
        x = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return x.view(sizes)


def rotate_pairs(x):
    """Of elements side by side: Cohere and GLM."""
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


def rotate(q, k, cos, sin, half=rotate_half):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    q_embed = (q * cos) + (half(q) * sin)
    k_embed = (k * cos) + (half(k) * sin)
    return q_embed, k_embed


def rotate_halves(x, cos, sin):
    """gpt-oss, whose experts are not recorded: layers have a network in their place."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    first_half, second_half = torch.chunk(x, 2, dim=-1)
    first_ = first_half * cos - second_half * sin
    second_ = second_half * cos + first_half * sin
    return torch.cat((first_, second_), dim=-1)


def rotate_part(q, k, cos, sin, half):
    width = cos.shape[-1]
    q_rot, q_pass = q[..., :width], q[..., width:]
    k_rot, k_pass = k[..., :width], k[..., width:]
    q_rot, k_rot = rotate(q_rot, k_rot, cos, sin, half)
    return torch.cat((q_rot, q_pass), dim=-1), torch.cat((k_rot, k_pass), dim=-1)


def repeat_kv(hidden_states, repeats):
    batch, heads, length, size = hidden_states.shape
    if repeats == 1:
        return hidden_states
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, heads, repeats, length, size)
    return hidden_states.reshape(batch, heads * repeats, length, size)


def eager(query, key, value, mask, repeats, cap=None, sinks=None):
    key_states, value_states = repeat_kv(key, repeats), repeat_kv(value, repeats)
    weights = torch.matmul(query, key_states.transpose(2, 3)) * query.shape[-1] ** -0.5
    if cap is not None:
        weights = weights / cap
        weights = torch.tanh(weights)
        weights = weights * cap
    if mask is not None:
        weights = weights + mask
    if sinks is not None:
        sinks = sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[-2], -1)
        combined_logits = torch.cat([weights, sinks], dim=-1)
        combined_logits = combined_logits - combined_logits.max(dim=-1, keepdim=True).values
        probs = Softmax.apply(combined_logits)
        scores = probs[..., :-1]
        weights = scores.to(value_states.dtype)
    else:
        weights = Softmax.apply(weights).to(query.dtype)
    output = torch.matmul(weights, value_states)
    return output.transpose(1, 2).contiguous(), weights


def gpt2_eager(query, key, value, mask):
    weights = torch.matmul(query, key.transpose(-1, -2)) * query.shape[-1] ** -0.5
    weights = weights + mask
    weights = Softmax.apply(weights)
    weights = weights.type(value.dtype)
    output = torch.matmul(weights, value)
    return output.transpose(1, 2), weights


def wide_eager(query, key, value, mask, own_mask):
    """GPT-J's, or with a mask of its own GPT-Neo's."""
    query, key = query.to(torch.float32), key.to(torch.float32)
    weights = torch.matmul(query, key.transpose(-1, -2))
    if own_mask is None:
        weights = weights / 2.8
    else:
        length = query.size(-2)
        weights = torch.where(own_mask[:, :, :length, :length], weights, torch.tensor(-1e30))
    weights = weights + mask
    weights = Softmax.apply(weights)
    weights = weights.to(value.dtype)
    output = torch.matmul(weights, value)
    return output, weights


class GptAttention(nn.Module):
    """GPT-J's and GPT-Neo's."""

    def __init__(self, c):
        super().__init__()
        self.size, width, self.rotates = c["head_size"], c["d_model"], c["family"] == "gptj"
        self.k_proj, self.v_proj, self.q_proj = (linear(width, width) for _ in range(3))
        self.out_proj = linear(width, width, not self.rotates)
        longest = (1, 1, c["max_context"], c["max_context"])
        self.register_buffer("bias", None if self.rotates else torch.ones(longest, dtype=torch.bool))

    def rotated(self, query, key, positions):
        def apply(tensor):
            with torch.profiler.record_function(NOT_COMPARED):
                sin, cos = (table.unsqueeze(2).clone() for table in positions)
            return (tensor * cos) + (rotate_pairs(tensor) * sin)

        width = positions[0].shape[-1]
        k_rot, k_pass = key[..., :width], key[..., width:]
        q_rot, q_pass = query[..., :width], query[..., width:]
        k_rot = apply(k_rot)
        q_rot = apply(q_rot)
        key = torch.cat([k_rot, k_pass], dim=-1)
        query = torch.cat([q_rot, q_pass], dim=-1)
        return query, key

    def forward(self, hidden_states, positions, mask):
        query, key, value = self.q_proj(hidden_states), self.k_proj(hidden_states), self.v_proj(hidden_states)
        shape = (*hidden_states.shape[:-1], -1, self.size)
        query, key, value = query.view(shape), key.view(shape), value.view(shape).permute(0, 2, 1, 3)
        if self.rotates:
            query, key = self.rotated(query, key, positions)
        query, key = query.permute(0, 2, 1, 3), key.permute(0, 2, 1, 3)
        output, weights = wide_eager(query, key, value, mask, self.bias)
        output = output.permute(0, 2, 1, 3).contiguous()
        output = output.view(*hidden_states.shape[:-1], -1)
        output = self.out_proj(output)
        return output, weights


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.family, self.size = c["family"], c["head_size"]
        self.repeats = c["heads"] // c["kv_heads"]
        has_biases = c["family"] in ("phi", "gpt_neox", "opt", "gpt_oss", "bert")
        self.sinks = nn.Parameter(torch.zeros(c["heads"])) if c["family"] == "gpt_oss" else None
        q, kv, bias = c["heads"] * self.size, c["kv_heads"] * self.size, has_biases or c["family"] == "qwen2"
        if c["family"] == "gpt_neox":
            self.query_key_value = linear(c["d_model"], 3 * q, bias)
        else:
            self.q_proj, self.k_proj = linear(c["d_model"], q, bias), linear(c["d_model"], kv, bias)
            self.v_proj = linear(c["d_model"], kv, bias)
        self.o_proj = linear(q, c["d_model"], has_biases)
        if c["family"] in ("qwen3", "hunyuan"):
            self.q_norm, self.k_norm = RmsNorm(self.size, "llama"), RmsNorm(self.size, "llama")
        if c["family"] == "olmo2":
            self.q_norm, self.k_norm = RmsNorm(q, "olmo2"), RmsNorm(kv, "olmo2")

    def project(self, hidden_states):
        shape = (*hidden_states.shape[:-1], -1, self.size)
        q, k = self.q_proj, self.k_proj
        if self.family == "qwen3":
            query = self.q_norm(q(hidden_states).view(shape)).transpose(1, 2)
            key = self.k_norm(k(hidden_states).view(shape)).transpose(1, 2)
        elif self.family == "olmo2":
            query = self.q_norm(q(hidden_states)).view(shape).transpose(1, 2)
            key = self.k_norm(k(hidden_states)).view(shape).transpose(1, 2)
        elif self.family == "olmo":
            query, key, value = q(hidden_states), k(hidden_states), self.v_proj(hidden_states)
            query.clamp_(min=-8.0, max=8.0)
            key.clamp_(min=-8.0, max=8.0)
            value.clamp_(min=-8.0, max=8.0)
            query, key = query.view(shape).transpose(1, 2), key.view(shape).transpose(1, 2)
            return query, key, value.view(shape).transpose(1, 2)
        elif self.family == "opt":
            query = q(hidden_states) * self.size ** -0.5
            query = query.view(shape).transpose(1, 2)
            key = k(hidden_states).view(shape).transpose(1, 2)
        else:
            query = q(hidden_states).view(shape).transpose(1, 2)
            key = k(hidden_states).view(shape).transpose(1, 2)
        return query, key, self.v_proj(hidden_states).view(shape).transpose(1, 2)

    def project_packed(self, hidden_states):
        shape = (*hidden_states.shape[:-1], -1, 3 * self.size)
        qkv = self.query_key_value(hidden_states).view(shape).transpose(1, 2)
        return qkv.chunk(3, dim=-1)

    def rotated(self, query, key, positions):
        half = rotate_pairs if self.family in ("cohere", "glm") else rotate_half
        if self.family in ("glm", "phi", "gpt_neox"):
            return rotate_part(query, key, *positions, half)
        if self.family == "gpt_oss":
            return rotate_halves(query, *positions), rotate_halves(key, *positions)
        return (query, key) if self.family in ("opt", "bert") else rotate(query, key, *positions, half)

    def forward(self, hidden_states, positions, mask):
        is_packed = self.family == "gpt_neox"
        query, key, value = self.project_packed(hidden_states) if is_packed else self.project(hidden_states)
        query, key = self.rotated(query, key, positions)
        if self.family == "hunyuan":
            query = self.q_norm(query)
            key = self.k_norm(key)
        output, weights = eager(query, key, value, mask, self.repeats, 50.0 if self.family == "gemma2" else None,
                                self.sinks)
        output = output.reshape(*hidden_states.shape[:-1], -1).contiguous()
        return self.o_proj(output), weights


class GatedFeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = linear(c["d_model"], c["d_ff"]), linear(c["d_model"], c["d_ff"])
        self.down_proj, self.is_gelu = linear(c["d_ff"], c["d_model"]), c["family"] in ("gemma2", "gemma4")

    def activation(self, x):
        return functional.gelu(x, approximate="tanh") if self.is_gelu else functional.silu(x)

    def forward(self, x):
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class PackedFeedForward(nn.Module):
    """GLM's."""

    def __init__(self, c):
        super().__init__()
        self.gate_up_proj, self.down_proj = linear(c["d_model"], 2 * c["d_ff"]), linear(c["d_ff"], c["d_model"])

    def forward(self, hidden_states):
        up_states = self.gate_up_proj(hidden_states)
        gate, up_states = up_states.chunk(2, dim=-1)
        up_states = up_states * functional.silu(gate)
        return self.down_proj(up_states)


class PlainFeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1, self.fc2 = linear(c["d_model"], c["d_ff"], True), linear(c["d_ff"], c["d_model"], True)
        self.family = c["family"]

    def activation(self, x):
        if self.family in ("phi", "gptj", "gpt_neo"):
            return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        return functional.relu(x) if self.family == "opt" else functional.gelu(x)

    def forward(self, hidden_states):
        hidden_states = self.fc1(hidden_states)
        hidden_states = self.activation(hidden_states)
        return self.fc2(hidden_states)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        family = self.family = c["family"]
        self.attention = (GptAttention if family in ("gptj", "gpt_neo") else Attention)(c)
        is_plain = family in ("phi", "gpt_neox", "opt", "bert", "gptj", "gpt_neo")
        self.feed_forward = (PackedFeedForward if family == "glm" else
                             PlainFeedForward if is_plain else GatedFeedForward)(c)
        norms = {"olmo2": "bd", "gemma2": "abcd", "cohere": "a", "phi": "a", "gptj": "a"}.get(family, "ac")
        self.norms = nn.ModuleDict({name: norm_of(c, c["d_model"]) for name in norms})

    def norm(self, name, x):
        return self.norms[name](x) if name in self.norms else x

    def side_by_side(self, hidden_states, positions, mask):
        if self.family == "gpt_neox":
            attn_output, _ = self.attention(self.norm("a", hidden_states), positions, mask)
            mlp_output = self.feed_forward(self.norm("c", hidden_states))
            return mlp_output + attn_output + hidden_states
        residual = hidden_states
        hidden_states = self.norm("a", hidden_states)
        attn_output, _ = self.attention(hidden_states, positions, mask)
        mlp_output = self.feed_forward(hidden_states)
        return residual + attn_output + mlp_output if self.family == "cohere" else attn_output + mlp_output + residual

    def sum_of(self, name, hidden_states, input_tensor):
        hidden_states = self.norms[name](hidden_states + input_tensor)
        return hidden_states

    def gpt_neo(self, hidden_states, positions, mask):
        residual = hidden_states
        hidden_states = self.norm("a", hidden_states)
        attn_output, attn_weights = self.attention(hidden_states, positions, mask)
        hidden_states = attn_output + residual
        residual = hidden_states
        hidden_states = self.norm("c", hidden_states)
        feed_forward_hidden_states = self.feed_forward(hidden_states)
        return residual + feed_forward_hidden_states

    def granite(self, hidden_states, positions, mask):
        residual = hidden_states
        hidden_states = self.norm("a", hidden_states)
        hidden_states, _ = self.attention(hidden_states, positions, mask)
        hidden_states = residual + hidden_states * 0.3
        residual = hidden_states
        hidden_states = self.norm("c", hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        return residual + hidden_states * 0.3

    def forward(self, hidden_states, positions, mask):
        if self.family == "gpt_neo":
            return self.gpt_neo(hidden_states, positions, mask)
        if self.family in ("cohere", "phi", "gpt_neox", "gptj"):
            return self.side_by_side(hidden_states, positions, mask)
        if self.family == "bert":
            hidden_states = self.sum_of("a", self.attention(hidden_states, positions, None)[0], hidden_states)
            return self.sum_of("c", self.feed_forward(hidden_states), hidden_states)
        if self.family == "granite":
            return self.granite(hidden_states, positions, mask)
        residual = hidden_states
        hidden_states = self.norm("a", hidden_states)
        hidden_states, _ = self.attention(hidden_states, positions, mask)
        hidden_states = self.norm("b", hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.norm("c", hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        hidden_states = self.norm("d", hidden_states)
        return residual + hidden_states


class Gpt2Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["d_model"]
        self.width, self.size = width, c["head_size"]
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)
        self.c_fc, self.c_out = Conv1D(width, c["d_ff"]), Conv1D(c["d_ff"], width)

    def attention(self, hidden_states, mask):
        query, key, value = self.c_attn(hidden_states).split(self.width, dim=2)
        shape = (*key.shape[:-1], -1, self.size)
        query, key, value = (x.view(shape).transpose(1, 2) for x in (query, key, value))
        output, weights = gpt2_eager(query, key, value, mask)
        output = output.reshape(*output.shape[:-2], -1).contiguous()
        return self.c_proj(output), weights

    def activation(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    def mlp(self, hidden_states):
        hidden_states = self.c_fc(hidden_states)
        hidden_states = self.activation(hidden_states)
        return self.c_out(hidden_states)

    def forward(self, hidden_states, positions, mask):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attn_output, self_attn_weights = self.attention(hidden_states, mask)
        hidden_states = attn_output + residual
        residual = hidden_states
        hidden_states = self.ln_2(hidden_states)
        feed_forward_hidden_states = self.mlp(hidden_states)
        return residual + feed_forward_hidden_states


class Bert(nn.Module):
    """Labels are those of all tokens."""

    def __init__(self, c):
        super().__init__()
        self.c, width = c, c["d_model"]
        self.embeddings, self.types = nn.Embedding(c["vocab"], width), nn.Embedding(2, width)
        self.positions, self.norm = nn.Embedding(c["max_context"], width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["layers"]))
        self.dense, self.head_norm = linear(width, width, True), nn.LayerNorm(width)
        self.decoder = linear(width, c["vocab"], True)
        self.decoder.weight = self.embeddings.weight
        self.register_buffer("position_ids", torch.arange(c["context"])[None])
        self.register_buffer("type_ids", torch.zeros(c["batch"], c["context"], dtype=torch.int64))

    def hidden_states(self, tokens):
        inputs_embeds = self.embeddings(tokens)
        embeddings = inputs_embeds + self.types(self.type_ids)
        embeddings = embeddings + self.positions(self.position_ids)
        hidden_states = self.norm(embeddings)
        for layer in self.layers:
            hidden_states = layer(hidden_states, None, None)
        return hidden_states

    def forward(self, tokens):
        hidden_states = self.hidden_states(tokens)
        hidden_states = self.dense(hidden_states)
        hidden_states = functional.gelu(hidden_states)
        hidden_states = self.head_norm(hidden_states)
        logits = self.decoder(hidden_states)
        return functional.cross_entropy(logits.view(-1, self.c["vocab"]), tokens.view(-1)), logits


class PowerNorm(nn.Module):
    """Gemma 4's."""

    def __init__(self, width, with_scale=True):
        super().__init__()
        self.with_scale = with_scale
        if with_scale:
            self.weight = nn.Parameter(torch.ones(width))

    def normalised(self, hidden_states):
        mean_squared = mean(hidden_states.pow(2)) + 1e-6
        return hidden_states * torch.pow(mean_squared, -0.5)

    def forward(self, hidden_states):
        normed_output = self.normalised(hidden_states.float())
        if self.with_scale:
            normed_output = normed_output * self.weight.float()
        return normed_output.type_as(hidden_states)


def rotate_one(x, cos, sin):
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    return (x * cos) + (rotate_half(x) * sin)


class Gemma4Layer(nn.Module):
    """The last two layers read the keys and values of the layers before them."""

    def __init__(self, c, index):
        super().__init__()
        self.has_window, self.has_keys, width = index % 2 == 0, index < 2, c["d_model"]
        self.size = c["head_size"] if self.has_window else 12
        kv_heads = c["kv_heads"] if self.has_window else 1
        self.repeats = c["heads"] // kv_heads
        self.q_proj, self.o_proj = linear(width, c["heads"] * self.size), linear(c["heads"] * self.size, width)
        self.q_norm = PowerNorm(self.size)
        if self.has_keys:
            self.k_norm, self.v_norm = PowerNorm(self.size), PowerNorm(self.size, False)
            self.k_proj, self.v_proj = linear(width, kv_heads * self.size), linear(width, kv_heads * self.size)
        self.feed_forward = GatedFeedForward({**c, "d_ff": c["d_ff"] * (1 if self.has_keys else 2)})
        self.norms = nn.ModuleList(PowerNorm(width) for _ in range(5))
        self.gate, self.projection = linear(width, PER_LAYER), linear(PER_LAYER, width)
        self.register_buffer("layer_scalar", torch.ones(1))

    def attend(self, hidden_states, positions, mask, shared):
        shape = (*hidden_states.shape[:-1], -1, self.size)
        query = self.q_proj(hidden_states).view(shape)
        query = self.q_norm(query)
        query = rotate_one(query, *positions)
        query = query.transpose(1, 2)
        if self.has_keys:
            key = self.k_proj(hidden_states).view(shape)
            value = self.v_proj(hidden_states).view(shape)
            key = self.k_norm(key)
            key = rotate_one(key, *positions)
            key = key.transpose(1, 2)
            value = self.v_norm(value)
            value = value.transpose(1, 2)
            shared[self.has_window] = key, value
        else:
            key, value = shared[self.has_window]
        output, weights = eager(query, key, value, mask, self.repeats)
        output = output.reshape(*hidden_states.shape[:-1], -1).contiguous()
        return self.o_proj(output), weights

    def forward(self, hidden_states, per_layer_input, positions, mask, shared):
        residual = hidden_states
        hidden_states = self.norms[0](hidden_states)
        hidden_states, _ = self.attend(hidden_states, positions[self.has_window], mask, shared)
        hidden_states = self.norms[1](hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.norms[2](hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        hidden_states = self.norms[3](hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.gate(hidden_states)
        hidden_states = functional.gelu(hidden_states, approximate="tanh")
        hidden_states = hidden_states * per_layer_input
        hidden_states = self.projection(hidden_states)
        hidden_states = self.norms[4](hidden_states)
        hidden_states = residual + hidden_states
        hidden_states *= self.layer_scalar
        return hidden_states


class Gemma4(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embeddings = nn.Embedding(c["vocab"], c["d_model"])
        self.per_layer = nn.Embedding(c["vocab"], c["layers"] * PER_LAYER)
        self.projection, self.projection_norm = linear(c["d_model"], c["layers"] * PER_LAYER), PowerNorm(PER_LAYER)
        self.layers = nn.ModuleList(Gemma4Layer(c, i) for i in range(c["layers"]))
        self.norm, self.lm_head = PowerNorm(c["d_model"]), linear(c["d_model"], c["vocab"])
        self.lm_head.weight = self.embeddings.weight
        for name, width in (("window", c["head_size"]), ("full", 12)):
            self.register_buffer(name, torch.ones(1, c["context"], width))
        self.register_buffer("mask", torch.zeros(c["batch"], 1, c["context"], c["context"]))

    def inputs_of_layers(self, tokens, inputs_embeds):
        shape = (*tokens.shape, self.c["layers"], PER_LAYER)
        per_layer_inputs = (self.per_layer(tokens) * 2.0).reshape(shape)
        projection = self.projection(inputs_embeds) * 0.5
        projection = projection.reshape(shape)
        projection = self.projection_norm(projection)
        return (projection + per_layer_inputs) * 0.7

    def hidden_states(self, tokens):
        inputs_embeds = self.embeddings(tokens) * 5.0
        per_layer_inputs = self.inputs_of_layers(tokens, inputs_embeds)
        hidden_states, shared = inputs_embeds, {}
        positions = {True: (self.window, self.window), False: (self.full, self.full)}
        for i, layer in enumerate(self.layers):
            per_layer_input = per_layer_inputs[:, :, i, :]
            hidden_states = layer(hidden_states, per_layer_input, positions, self.mask, shared)
        hidden_states = self.norm(hidden_states)
        return hidden_states

    def forward(self, tokens):
        hidden_states = self.hidden_states(tokens)
        logits = self.lm_head(hidden_states)
        logits = logits / 30.0
        logits = torch.tanh(logits)
        logits = logits * 30.0
        return causal_loss(logits, tokens, self.c["vocab"]), logits


class Model(nn.Module):
    """The tables of positions and the mask are buffers: what depends on no parameter is not compared."""

    def __init__(self, c):
        super().__init__()
        self.c, self.is_gpt2 = c, c["family"] == "gpt2"
        self.has_positions = c["family"] in ("gpt2", "opt", "gpt_neo")
        self.embeddings = nn.Embedding(c["vocab"], c["d_model"])
        if self.has_positions:
            self.wpe = nn.Embedding(c["max_context"] + (2 if c["family"] == "opt" else 0), c["d_model"])
            self.register_buffer("position_ids", torch.arange(c["context"])[None])
        self.layers = nn.ModuleList((Gpt2Layer if self.is_gpt2 else Layer)(c) for _ in range(c["layers"]))
        self.norm = nn.LayerNorm(c["d_model"]) if self.is_gpt2 else norm_of(c, c["d_model"])
        self.lm_head = linear(c["d_model"], c["vocab"], c["family"] in ("phi", "gptj"))
        if c["tied"]:
            self.lm_head.weight = self.embeddings.weight
        is_partial = c["family"] in ("glm", "phi", "gpt_neox", "gpt_oss", "gptj")
        shape = (1, c["context"], c["head_size"] // (2 if is_partial else 1))
        self.register_buffer("cos", torch.ones(shape)), self.register_buffer("sin", torch.ones(shape))
        self.register_buffer("mask", torch.zeros(c["batch"], 1, c["context"], c["context"]))

    def hidden_states(self, tokens):
        inputs_embeds = self.embeddings(tokens)
        if self.has_positions:
            position_embeds = self.wpe(self.position_ids)
            hidden_states = inputs_embeds + position_embeds
        else:
            hidden_states = inputs_embeds * 5.0 if self.c["family"] in ("gemma2", "granite") else inputs_embeds
        for layer in self.layers:
            def run(x, layer=layer):
                return layer(x, (self.cos, self.sin), self.mask)

            # The state of the random generator lies in the host's memory.
            hidden_states = checkpoint(run, hidden_states, use_reentrant=False, preserve_rng_state=False) \
                if self.c["checkpoint"] else run(hidden_states)
        hidden_states = self.norm(hidden_states)
        return hidden_states

    def forward(self, tokens):
        hidden_states = self.hidden_states(tokens)
        logits = self.lm_head(hidden_states)
        if self.c["family"] == "granite":
            logits = logits / 8.0
        if self.c["family"] == "cohere":
            logits = logits * 0.0625
        if self.c["family"] == "gemma2":
            logits = logits / 30.0
            logits = torch.tanh(logits)
            logits = logits * 30.0
        return causal_loss(logits, tokens, self.c["vocab"]), logits


def causal_loss(logits, labels, vocab):
    logits = logits.float()
    with torch.profiler.record_function(NOT_COMPARED):
        labels = functional.pad(labels, (0, 1), value=-100)
        shift_labels = labels[..., 1:].contiguous()
    logits = logits.view(-1, vocab)
    shift_labels = shift_labels.view(-1)
    return functional.cross_entropy(logits, shift_labels, ignore_index=-100)


class Event:
    """An event of the profiler of any PyTorch from 1.13 on, as torch_memory.allocations() reads it."""

    def __init__(self, event):
        self.name = event.name() if callable(event.name) else event.name
        self.typed = event.typed if hasattr(event, "typed") else (event.tag, event.extra_fields)
        self.children = [Event(child) for child in event.children]


def without(roots, name):
    """The tree without the allocations of the events of that name, and without their releases."""
    pointers = set()

    def keep(event, is_left_out):
        is_left_out = is_left_out or event.name == name
        event.children = [child for child in event.children if keep(child, is_left_out)]
        if not torch_memory.is_allocation(event):
            return True
        pointer, count = event.typed[1].ptr, event.typed[1].alloc_size
        if count > 0:
            (pointers.add if is_left_out else pointers.discard)(pointer)
        return pointer not in pointers

    return [root for root in roots if keep(root, False)]


SIZES = dict(vocab=50, context=16, d_model=32, d_ff=72, layers=2, heads=4, kv_heads=2, head_size=8, batch=2,
             max_context=20, tied=False)
FAMILIES = {"llama": {}, "qwen2": dict(tied=True), "qwen3": dict(head_size=12), "gemma2": dict(tied=True),
            "olmo2": dict(kv_heads=4), "gpt2": dict(kv_heads=4, tied=True), "bert": dict(kv_heads=4, tied=True),
            "cohere": dict(tied=True), "gemma4": dict(layers=4, tied=True), "glm": {},
            "gpt_neo": dict(kv_heads=4, tied=True), "gpt_neox": dict(kv_heads=4), "gpt_oss": {},
            "gptj": dict(kv_heads=4), "granite": dict(tied=True), "hunyuan": {}, "olmo": dict(kv_heads=4),
            "opt": dict(kv_heads=4, tied=True), "phi": dict(kv_heads=4)}
WITH_CHECKPOINTS = ("llama", "qwen2", "qwen3", "gemma2", "olmo2", "gpt2")


def record(c, path):
    torch.manual_seed(0)
    model = {"bert": Bert, "gemma4": Gemma4}.get(c["family"], Model)(c)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(0, c["vocab"], (c["batch"], c["context"]))

    def iteration():
        for parameter in model.parameters():
            parameter.grad = None
        loss = model(tokens)[0]
        loss.backward()
        del loss
        optimizer.step()

    iteration()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        iteration()
    tree = without([Event(event) for event in profile.profiler.kineto_results.experimental_event_tree()], NOT_COMPARED)
    torch_memory.write_recording(path, c, tree)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="tests/golden/transformers_memory")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="default: all")
    options = parser.parse_args()
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    for family, sizes in FAMILIES.items():
        if options.families and family not in options.families:
            continue
        for checkpoints in (False, True) if family in WITH_CHECKPOINTS else (False,):
            name = family + ("_checkpoint" if checkpoints else "") + ".txt"
            record({**SIZES, **sizes, "family": family, "checkpoint": checkpoints}, folder / name)


if __name__ == "__main__":
    main()
