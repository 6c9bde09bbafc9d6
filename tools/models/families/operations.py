"""The operations of the families of docs/models.md in plain PyTorch, each from the publication that it names.

Scores are stored whole and nothing is fused; the numbers are those of the arguments' type.
"""

import math

import torch
from torch.nn import functional


def gelu_tanh(x):
    """Hendrycks and Gimpel, "Gaussian error linear units" (arXiv 1606.08415): the approximation by tanh."""
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


ACTIVATIONS = {"silu": functional.silu, "gelu": functional.gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh,
               "relu": functional.relu, "relu2": lambda x: functional.relu(x) ** 2}


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


def yarn_frequencies(frequencies, rope, width):
    """YaRN (Peng et al., arXiv 2309.00071), section 3.2, as `transformers` has it: the ramp runs over the elements between
    those whose waves turn beta_fast and beta_slow times over the original context."""
    original = rope.get("original_max_position_embeddings") or rope["max_position_embeddings"]
    low, high = (width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))
                 for turns in (rope.get("beta_fast") or 32, rope.get("beta_slow") or 1))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    elements = torch.arange(width // 2, dtype=torch.float64)
    divided = ((elements - low) / (high - low if high != low else 0.001)).clamp(0, 1)
    return frequencies * (1 - divided) + frequencies / rope["factor"] * divided


def yarn_amplitude(rope):
    """The factor of cosines and sines: sqrt(1 / t) of equation 22, and DeepSeek's quotient of two such."""
    if rope.get("attention_factor"):
        return rope["attention_factor"]

    def of(scale):
        return 1.0 if rope["factor"] <= 1 else 0.1 * scale * math.log(rope["factor"]) + 1

    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return of(rope["mscale"]) / of(rope["mscale_all_dim"])
    return of(1)


def longrope(frequencies, rope, sequence):
    """LongRoPE (Ding et al., arXiv 2402.13753) as Phi-3 has it: (frequencies, factor of cosines and sines)."""
    original = rope["original_max_position_embeddings"]
    factors = rope["long_factor"] if sequence > original else rope["short_factor"]
    times = rope.get("factor") or rope["max_position_embeddings"] / original
    amplitude = rope.get("attention_factor") or (
        1.0 if times <= 1 else math.sqrt(1 + math.log(times) / math.log(original)))
    return frequencies / torch.tensor(factors, dtype=torch.float64), amplitude


def dynamic_theta(rope, width, sequence):
    """Beyond the context of training the base grows with the length; with `alpha` (Hunyuan) it is larger always."""
    exponent = width / (width - 2)
    if rope.get("alpha"):
        return rope["rope_theta"] * rope["alpha"] ** exponent
    most = rope["max_position_embeddings"]
    return rope["rope_theta"] * (rope["factor"] * max(sequence, most) / most - (rope["factor"] - 1)) ** exponent


def rotary_tables(rope, width, sequence, dtype):
    """Cosines and sines [sequence, width / 2]: Su et al., "RoFormer" (arXiv 2104.09864), equation 15. `linear` is the
    position interpolation of Chen et al. (arXiv 2306.15595). Angles are in double."""
    theta = dynamic_theta(rope, width, sequence) if rope["rope_type"] == "dynamic" else rope["rope_theta"]
    frequencies = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    amplitude = 1.0
    if rope["rope_type"] == "linear":
        frequencies = frequencies / rope["factor"]
    elif rope["rope_type"] == "llama3":
        frequencies = llama3_frequencies(frequencies, rope)
    elif rope["rope_type"] == "yarn":
        frequencies, amplitude = yarn_frequencies(frequencies, rope, width), yarn_amplitude(rope)
    elif rope["rope_type"] == "longrope":
        frequencies, amplitude = longrope(frequencies, rope, sequence)
    elif rope["rope_type"] not in ("default", "dynamic"):
        raise ValueError(f"rope_type {rope['rope_type']}")
    angles = torch.outer(torch.arange(sequence, dtype=torch.float64), frequencies)
    return (amplitude * angles.cos()).to(dtype), (amplitude * angles.sin()).to(dtype)


def rotate(x, cosines, sines):
    """Rotates elements i and i + n of the last dimension of x, n columns of the tables; elements from 2n on stay, as in
    Phi-3 with partial_rotary_factor. Published weights are stored for these pairs."""
    n = cosines.shape[-1]
    first, second, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines, rest], -1)


def rotate_adjacent(x, cosines, sines):
    """The same of elements 2i and 2i + 1, as Cohere, GLM and DeepSeek store them."""
    n = cosines.shape[-1]
    first, second, rest = x[..., 0 : 2 * n : 2], x[..., 1 : 2 * n : 2], x[..., 2 * n :]
    turned = torch.stack([first * cosines - second * sines, second * cosines + first * sines], -1).flatten(-2)
    return torch.cat([turned, rest], -1)


def linear_bias(heads, sequence, rounded=False):
    """ALiBi (Press et al., arXiv 2108.12409), section 3 and its code: the rates of heads are a geometric sequence from
    2^(-8/n) on, n the largest power of 2 up to their number; the others take every second rate of the sequence for 2n.
    [heads, sequence]: the rate times the position of each key. Falcon rounds both to bf16."""
    n = 2 ** math.floor(math.log2(heads))
    rates = [2.0 ** (-8 * (i + 1) / n) for i in range(n)] + [2.0 ** (-4 * (2 * i + 1) / n) for i in range(heads - n)]
    rates, positions = torch.tensor(rates, dtype=torch.float64)[:, None], torch.arange(sequence, dtype=torch.float64)
    return (rates.bfloat16().double() * positions).bfloat16().double() if rounded else rates * positions


def attend(q, k, v, scale, window=None, cap=None, chunk=None, sinks=None, bias=None, causal=True, kept=None):
    """Causal attention: q [batch, heads, sequence, width], k and v with a divisor of its heads; gives [batch, sequence,
    heads * width].

    Adjacent heads of q share one of k and v (Ainslie et al., "GQA", arXiv 2305.13245). With a window, a token sees
    itself and the window - 1 tokens before it (Mistral 7B, arXiv 2310.06825, section 2); with a chunk, only tokens of
    its own chunk (Llama 4). A sink of each head is a score without a value (Xiao et al., arXiv 2309.17453; gpt-oss). A
    bias [heads, keys] is added to the scores. Not causal: a token sees all. Kept [batch, heads or 1, sequence, keys]: a
    token sees those of its keys alone."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = soft_cap(q @ k.transpose(-1, -2) * scale, cap)
    if bias is not None:
        scores = scores + bias[:, None].to(scores.dtype)
    positions = torch.arange(q.shape[2])
    distance = positions[:, None] - positions
    unseen = (distance < 0) & causal | (distance >= (window or q.shape[2]))
    if chunk:
        unseen = unseen | (positions[:, None] // chunk != positions // chunk)
    if kept is not None:
        unseen = unseen | ~kept
    scores = scores.masked_fill(unseen, float("-inf"))
    if sinks is not None:
        column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    mixed = torch.softmax(scores, -1)[..., : k.shape[2]] @ v
    return mixed.transpose(1, 2).flatten(2)


def load_balancing_loss(router_logits, chosen):
    """Switch Transformers (Fedus et al., arXiv 2101.03961), equations 4 to 6: the number of experts times the sum of
    (share of tokens sent to an expert) x (its mean probability). As `transformers` does for these families, a token
    counts once for each of its `chosen` experts, and the tokens of all layers count together."""
    probabilities = torch.cat(router_logits).softmax(-1)
    experts = probabilities.shape[-1]
    sent = functional.one_hot(probabilities.topk(chosen, -1).indices, experts).sum(1).to(probabilities.dtype)
    return experts * (sent.mean(0) * probabilities.mean(0)).sum()
