"""The operations of the families of docs/models.md in plain PyTorch, each from the publication that it names.

Scores are stored whole and nothing is fused; the numbers are those of the arguments' type.
"""

import torch
from torch.nn import functional


def gelu_tanh(x):
    """Hendrycks and Gimpel, "Gaussian error linear units" (arXiv 1606.08415): the approximation by tanh."""
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


ACTIVATIONS = {"silu": functional.silu, "gelu": functional.gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh}


def rms_norm(x, weight, epsilon):
    """Zhang and Sennrich, "Root mean square layer normalization" (arXiv 1910.07467), over the last dimension."""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon) * weight


def soft_cap(x, cap):
    """Gemma 2 (arXiv 2408.00118), section 2: bounds x to (-cap, cap); no cap, no change."""
    return cap * torch.tanh(x / cap) if cap else x


def llama3_frequencies(frequencies, rope):
    """Llama 3.1 (`apply_scaling` of its published code): frequencies that turn less than low_freq_factor times over the
    original context are divided by `factor`, those that turn more than high_freq_factor times are kept, and those
    between are blended."""
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * torch.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (kept + (1 - kept) / rope["factor"]) * frequencies


def rotary_tables(rope, width, sequence, dtype):
    """Cosines and sines [sequence, width / 2]: Su et al., "RoFormer" (arXiv 2104.09864), equation 15. `linear` is the
    position interpolation of Chen et al. (arXiv 2306.15595). Angles are in double."""
    frequencies = rope["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if rope["rope_type"] == "linear":
        frequencies = frequencies / rope["factor"]
    elif rope["rope_type"] == "llama3":
        frequencies = llama3_frequencies(frequencies, rope)
    elif rope["rope_type"] != "default":
        raise ValueError(f"rope_type {rope['rope_type']}")
    angles = torch.outer(torch.arange(sequence, dtype=torch.float64), frequencies)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x, cosines, sines):
    """Rotates elements i and i + n of the last dimension of x, n columns of the tables; elements from 2n on stay, as in
    Phi-3 with partial_rotary_factor. Published weights are stored for these pairs."""
    n = cosines.shape[-1]
    first, second, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines, rest], -1)


def attend(q, k, v, scale, window=None, cap=None):
    """Causal attention: q [batch, heads, sequence, width], k and v with a divisor of its heads; gives [batch, sequence,
    heads * width].

    Adjacent heads of q share one of k and v (Ainslie et al., "GQA", arXiv 2305.13245). With a window, a token sees
    itself and the window - 1 tokens before it (Mistral 7B, arXiv 2310.06825, section 2)."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = soft_cap(q @ k.transpose(-1, -2) * scale, cap)
    positions = torch.arange(q.shape[2])
    distance = positions[:, None] - positions
    unseen = (distance < 0) | (distance >= (window or q.shape[2]))
    mixed = torch.softmax(scores.masked_fill(unseen, float("-inf")), -1) @ v
    return mixed.transpose(1, 2).flatten(2)


def load_balancing_loss(router_logits, chosen):
    """Switch Transformers (Fedus et al., arXiv 2101.03961), equations 4 to 6: the number of experts times the sum of
    (share of tokens sent to an expert) x (its mean probability). As `transformers` does for these families, a token
    counts once for each of its `chosen` experts, and the tokens of all layers count together."""
    probabilities = torch.cat(router_logits).softmax(-1)
    experts = probabilities.shape[-1]
    sent = functional.one_hot(probabilities.topk(chosen, -1).indices, experts).sum(1).to(probabilities.dtype)
    return experts * (sent.mean(0) * probabilities.mean(0)).sum()
