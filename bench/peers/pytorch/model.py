"""The Transformer of docs/model.md in PyTorch. Parameters have Ridgepoint's names."""

import math

import torch
from torch import nn
from torch.nn import functional

NORM_EPSILON = 1e-5
ROPE_THETA = 10000.0

has_sdpa = hasattr(functional, "scaled_dot_product_attention")  # PyTorch 2.0
has_rms_norm = hasattr(functional, "rms_norm")  # PyTorch 2.4


def linear(inputs, outputs, device):
    """A linear layer whose weight is not initialised: it is read from a file."""
    return nn.utils.skip_init(nn.Linear, inputs, outputs, bias=False, device=device)


class RmsNorm(nn.Module):
    """In fp32, whatever the type of its input."""

    def __init__(self, width, device):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, device=device))

    def forward(self, x):
        y = x.float()
        if has_rms_norm:
            y = functional.rms_norm(y, self.weight.shape, self.weight, NORM_EPSILON)
        else:
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + NORM_EPSILON) * self.weight
        return y.to(x.dtype)


def rope_tables(context, width, device):
    """Cosines and sines [context, width / 2], in fp32 of angles in double precision."""
    frequencies = ROPE_THETA ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(context, dtype=torch.float64), frequencies)
    return angles.cos().float().to(device), angles.sin().float().to(device)


def rotate(x, cosines, sines):
    """Rotates adjacent pairs of the last axis."""
    even, odd = x[..., 0::2], x[..., 1::2]
    pairs = torch.stack((even * cosines - odd * sines, even * sines + odd * cosines), -1)
    return pairs.flatten(-2).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, sizes, kind, device):
        super().__init__()
        width, context, self.heads = sizes["d_model"], sizes["context"], sizes["heads"]
        self.q_proj = linear(width, width, device)
        self.k_proj = linear(width, width, device)
        self.v_proj = linear(width, width, device)
        self.output_proj = linear(width, width, device)
        self.kind = kind
        cosines, sines = rope_tables(context, width // self.heads, device)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        future = torch.ones(context, context, dtype=torch.bool, device=device).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        batch, context, width = x.shape
        head_size = width // self.heads

        def split(y):
            return y.view(batch, context, self.heads, head_size).transpose(1, 2)

        q = rotate(split(self.q_proj(x)), self.cosines, self.sines)
        k = rotate(split(self.k_proj(x)), self.cosines, self.sines)
        v = split(self.v_proj(x))
        if self.kind == "sdpa":
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(head_size)
            mixed = torch.softmax(scores.masked_fill(self.future, -math.inf), -1) @ v
        return self.output_proj(mixed.transpose(1, 2).reshape(batch, context, width))


class FeedForward(nn.Module):
    def __init__(self, sizes, device):
        super().__init__()
        self.w1 = linear(sizes["d_model"], sizes["d_ff"], device)
        self.w2 = linear(sizes["d_ff"], sizes["d_model"], device)
        self.w3 = linear(sizes["d_model"], sizes["d_ff"], device)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, sizes, attention, device):
        super().__init__()
        self.ln1 = RmsNorm(sizes["d_model"], device)
        self.attn = Attention(sizes, attention, device)
        self.ln2 = RmsNorm(sizes["d_model"], device)
        self.ffn = FeedForward(sizes, device)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class Transformer(nn.Module):
    """`sizes` has layers, d_model, d_ff, heads, vocab and context; `attention` is "sdpa" or "naive"."""

    def __init__(self, sizes, attention, device):
        super().__init__()
        self.token_embeddings = nn.utils.skip_init(nn.Embedding, sizes["vocab"], sizes["d_model"], device=device)
        self.layers = nn.ModuleList(Layer(sizes, attention, device) for _ in range(sizes["layers"]))
        self.ln_final = RmsNorm(sizes["d_model"], device)
        self.lm_head = linear(sizes["d_model"], sizes["vocab"], device)

    def forward(self, tokens):
        x = self.token_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_final(x))

    @torch.no_grad()
    def load(self, file):
        for name, parameter in self.named_parameters():
            parameter.copy_(file[name])
