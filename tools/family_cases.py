"""Tiny models of every family of docs/models.md: config.json, random weights under published names, and tokens."""

import zlib

import torch

from family_models import GEMMA, NORMS_OF_HEADS, head_width

BATCH, SEQUENCE = 2, 13

SIZES = dict(vocab_size=29, hidden_size=24, intermediate_size=19, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, attention_dropout=0.0)
TOKENS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=None)  # a padding token's embedding would get no gradient


def rope(theta=10000.0, kind="default", **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **more))


def decoder(family, **fields):
    return {"model_type": family, **TOKENS, **SIZES, **fields}


def gpt2(**fields):
    sizes = dict(vocab_size=29, n_embd=21, n_layer=2, n_head=3, n_positions=17, n_inner=None)
    dropout = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return {"model_type": "gpt2", **TOKENS, **sizes, **dropout, **fields}


# The fields of config.json. Sizes are odd where the family allows it, and small: the files are committed.
CASES = {
    "gpt2": gpt2(activation_function="gelu_new"),
    "gpt2_erf": gpt2(activation_function="gelu", n_layer=1, n_inner=31),
    "llama2": decoder("llama", num_key_value_heads=4, num_hidden_layers=3, intermediate_size=21, **rope()),
    "llama2_linear": decoder("llama", attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
                             **rope(kind="linear", factor=4.0)),
    # A frequency of each kind: kept, blended, divided.
    "llama3": decoder("llama", tie_word_embeddings=True, head_dim=12, max_position_embeddings=512,
                      **rope(500000.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=64)),
    "mistral": decoder("mistral", sliding_window=5, **rope()),
    "qwen2": decoder("qwen2", num_hidden_layers=3, use_sliding_window=True, sliding_window=4, max_window_layers=1,
                     layer_types=["full_attention", "sliding_attention", "sliding_attention"],
                     tie_word_embeddings=True, **rope(1e6)),
    "qwen3": decoder("qwen3", head_dim=14, use_sliding_window=False, sliding_window=None, **rope(1e6)),
    "gemma2": decoder("gemma2", head_dim=10, query_pre_attn_scalar=24, sliding_window=5, attn_logit_softcapping=2.0,
                      final_logit_softcapping=3.0, hidden_activation="gelu_pytorch_tanh",
                      layer_types=["sliding_attention", "full_attention"], **rope()),
    "gemma3": decoder("gemma3_text", num_hidden_layers=3, head_dim=10, query_pre_attn_scalar=24, sliding_window=5,
                      num_key_value_heads=1, hidden_activation="gelu_pytorch_tanh",
                      layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                      rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
                                           sliding_attention=dict(rope_type="default", rope_theta=10000.0))),
    "phi3": decoder("phi3", sliding_window=6, resid_pdrop=0.0, embd_pdrop=0.0, num_key_value_heads=4,
                    original_max_position_embeddings=64, **rope()),
    # Rotated are 4 of a head's 6 elements.
    "phi3_partial": decoder("phi3", resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None, tie_word_embeddings=True,
                            original_max_position_embeddings=64, partial_rotary_factor=0.75,
                            **rope(partial_rotary_factor=0.75)),
    "olmo2": decoder("olmo2", **rope(500000.0)),
    "mixtral": decoder("mixtral", num_local_experts=3, num_experts_per_tok=2, intermediate_size=14, sliding_window=None,
                       output_router_logits=False, **rope(1e6)),
    "mixtral_auxiliary": decoder("mixtral", num_local_experts=4, num_experts_per_tok=2, intermediate_size=11,
                                 sliding_window=6, output_router_logits=True, router_aux_loss_coef=0.1,
                                 router_jitter_noise=0.0, **rope(1e6)),
    "qwen2_moe": decoder("qwen2_moe", num_key_value_heads=4, moe_intermediate_size=10, num_experts=5,
                         num_experts_per_tok=3, shared_expert_intermediate_size=22, norm_topk_prob=False,
                         decoder_sparse_step=1, mlp_only_layers=[], output_router_logits=False,
                         use_sliding_window=False, **rope(1e6)),
    "qwen3_moe": decoder("qwen3_moe", head_dim=10, moe_intermediate_size=9, num_experts=5, num_experts_per_tok=3,
                         norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], output_router_logits=True,
                         router_aux_loss_coef=0.05, use_sliding_window=False, **rope(1e6)),
}


def linear_shapes(name, outputs, inputs, bias=False):
    return {f"{name}.weight": (outputs, inputs), **({f"{name}.bias": (outputs,)} if bias else {})}


def parameter_shapes(config):
    """Name -> shape of every tensor of the published files."""
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
        has_experts = "num_experts_per_tok" in config
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


def random_weight(name, shape, family, generator):
    """At the scale of its inputs. Norms are moved off their usual value, where a missing factor would not show."""
    values = torch.randn(shape, generator=generator)
    if len(shape) == 1:
        is_factor = ("norm" in name or ".ln_" in name) and name.endswith(".weight")
        return (1 if is_factor and family not in GEMMA else 0) + 0.2 * values
    if "embed_tokens" in name or ".wte." in name or ".wpe." in name:
        return 0.4 * values
    return values / shape[-1] ** 0.5


def make_case(name):
    """(config, fp32 weights by name, inputs, targets) of a case; tokens are int64 [BATCH, SEQUENCE]."""
    config = CASES[name]
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    weights = {key: random_weight(key, shape, config["model_type"], generator)
               for key, shape in sorted(parameter_shapes(config).items())}
    inputs, targets = (torch.randint(config["vocab_size"], (BATCH, SEQUENCE), generator=generator) for _ in range(2))
    return config, weights, inputs, targets
