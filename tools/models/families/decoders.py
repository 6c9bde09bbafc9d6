"""The families of docs/models.md beyond those of model.py, in plain PyTorch: each is a row of
table.py, and what a trait means is written once, from the publication or the code of `transformers` that it
names.

A definition for tests to compare with, as model.py is. Every weight is asked for by its published name with the
shape that the formula needs, so that shapes(config) lists the tensors of the files.

    model = Decoder(config, weights)
    logits = model.forward(inputs)
"""

import math

import torch
from torch.nn import functional

from .mixers import MIXERS
from .operations import ACTIVATIONS, attend, linear_bias, rms_norm, rotary_tables, rotate, rotate_adjacent
from .table import TRAITS

BUFFERS = ("e_score_correction_bias", "expert_bias", "layer_scalar", "gate.bias", "gate.tid2eid")  # ends of the names of what is no parameter
INDEXER = ".indexer."  # in the names of parameters that never have a gradient, which an optimizer leaves alone
LAYER_NORM_EPSILON = ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "layernorm_epsilon", "rms_norm_eps", "norm_eps")


class Decoder:
    """Without weights, zeros stand for them, and `shapes` has what was asked for."""

    def __init__(self, config, weights=None):
        self.config, self.weights = config, weights
        self.family, self.traits = config["model_type"], TRAITS[config["model_type"]]
        self.shapes = {}
        self.router_logits = []
        self.width = self.field("hidden_size", "n_embd", "d_model")
        self.heads = self.field("num_attention_heads", "n_head", "num_heads", "n_heads")
        self.size = config.get("head_dim") or self.width // self.heads
        if self.traits.latent:
            self.size = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
        self.kv_heads = self.heads_of_keys()

    def field(self, *names, default=None):
        """The first of the fields that the config has."""
        return next((self.config[name] for name in names if self.config.get(name) is not None), default)

    def heads_of_keys(self):
        if self.family in ("falcon", "gpt_bigcode") and not self.config.get("new_decoder_architecture"):
            return 1 if self.config.get("multi_query", True) else self.heads
        return self.field("num_key_value_heads", "num_kv_heads", "multi_query_group_num", default=self.heads)

    def take(self, name, *shape):
        self.shapes[name] = shape
        return torch.zeros(shape) if self.weights is None else self.weights[name]

    def has_bias(self, which):
        bias = self.traits.bias.get(which, False)
        return bias if isinstance(bias, bool) else self.config.get(bias, False)

    def linear(self, x, name, out, bias=False):
        y = x @ self.take(name + ".weight", out, x.shape[-1]).T
        return y + self.take(name + ".bias", out) if bias else y

    def epsilon(self):
        """Of RMS norms."""
        return self.field("rms_norm_eps", *LAYER_NORM_EPSILON, default=self.traits.epsilon)

    def norm(self, x, name, epsilon=None):
        kind, width = self.traits.norm, x.shape[-1]
        if kind in ("rms", "gemma"):
            return rms_norm(x, self.take(name + ".weight", width) + (kind == "gemma"), epsilon or self.epsilon())
        if kind == "layer_without_weight":  # OLMo (arXiv 2402.00838), section 3.2
            return functional.layer_norm(x, (width,), eps=1e-5)
        bias = self.take(name + ".bias", width) if kind == "layer" else None
        return functional.layer_norm(x, (width,), self.take(name + ".weight", width), bias,
                                     self.field(*LAYER_NORM_EPSILON, default=1e-5))

    def forward(self, inputs):
        config, traits = self.config, self.traits
        self.router_logits = []
        vocab = self.field("embedding_size", "vocab_size", "padded_vocab_size")
        table = self.table(vocab)
        x = table[inputs] * self.embedding_scale()
        if traits.embedding_norm:
            x = self.norm(x, traits.model + traits.embedding_norm)
        if traits.positions:  # OPT counts positions from 2 (arXiv 2205.01068 and its code)
            offset = 2 if self.family == "opt" else 0
            rows = offset + self.field("max_position_embeddings", "n_positions", "max_sequence_length")
            positions = self.take(f"{traits.model}{traits.positions}.weight", rows, self.width)
            x = x + positions[offset : offset + inputs.shape[1]]
        for layer in range(self.field("num_hidden_layers", "n_layer", "num_layers", "n_layers")):
            x = self.layer(x, layer)
        x = self.norm(x, traits.model + traits.final_norm)
        tied = self.field("tie_word_embeddings", "weight_tying", default=traits.tied)
        head = table if tied else self.take(traits.head + ".weight", vocab, self.width)
        logits = x @ head.T
        if self.has_bias("head"):
            logits = logits + self.take(traits.head + ".bias", vocab)
        return logits * self.logit_scale()

    def table(self, vocab):
        return self.take(f"{self.traits.model}{self.traits.embedding}.weight", vocab, self.width)

    def embedding_scale(self):
        return self.width**0.5 if self.family == "gemma" else self.field("embedding_multiplier", "scale_emb", default=1)

    def residual_scale(self):
        """MiniCPM (arXiv 2404.06395), section 4.1."""
        if self.family.startswith("minicpm"):
            return self.config["scale_depth"] / self.config["num_hidden_layers"] ** 0.5
        return self.config.get("residual_multiplier", 1)

    def logit_scale(self):
        if self.family == "falcon_h1":
            return self.config["lm_head_multiplier"]
        if self.family.startswith("minicpm"):
            return self.config["dim_model_base"] / self.width
        return self.config.get("logit_scale", 1) / self.config.get("logits_scaling", 1)

    def layer(self, x, index):
        name = f"{self.traits.model}{self.traits.layers}.{index}."
        before, after, second, last = self.names_of_norms()
        scale = self.residual_scale()
        normed = self.norm(x, name + before) if before else x
        kind = self.kind(index)
        if kind == "network":  # alone
            return x + self.feed_forward(normed, name, index)
        attended = self.mixed(normed, name, index, kind)
        if self.family in ("nemotron_h", "mamba2"):
            return x + attended
        if after:
            attended = self.norm(attended, name + after)
        joined = x + scale * attended
        block = self.block()
        if block != "one":
            stream = joined if block == "turns" else x
            normed = self.norm(stream, name + second) if second else stream
        fed = self.feed_forward(normed, name, index)
        if last:
            fed = self.norm(fed, name + last)
        return joined + scale * fed

    def kind(self, layer):
        """attention, a mixer of mixers.py, both of Falcon-H1, or network: of Nemotron-H, without any."""
        if self.family == "falcon_h1":
            return "both"
        if self.family == "mamba2":
            return "space"
        if self.family == "nemotron_h":
            letters = {"M": "space", "*": "attention", "-": "network", "E": "network"}
            return letters[self.config["hybrid_override_pattern"][layer]]
        mixer = {"linear_attn": "delta", "mamba": "space", "conv": "convolution"}.get(self.traits.mixer)
        others = ("linear_attention", "mamba", "conv")
        return mixer if mixer and self.config["layer_types"][layer] in others else "attention"

    def mixed(self, x, name, layer, kind):
        attention = name + (self.traits.attention + "." if self.traits.attention else "")
        if kind == "attention":
            return self.attention(x, attention, layer)
        if kind != "both":
            return MIXERS[kind](self, x, f"{name}{self.traits.mixer}.")
        config = self.config
        attended = self.attention(x * config["attention_in_multiplier"], attention, layer)
        return attended * config["attention_out_multiplier"] + MIXERS["space"](self, x, f"{name}{self.traits.mixer}.")

    def block(self):
        config = self.config
        if self.family == "falcon":
            if config.get("new_decoder_architecture"):
                return "beside" if config.get("num_ln_in_parallel_attn", 2) == 2 else "one"
            return "one" if config.get("parallel_attn", True) else "turns"
        if self.family == "gpt_neox":
            return "beside" if config.get("use_parallel_residual", True) else "turns"
        if self.family == "stablelm":
            return "one" if config.get("use_parallel_residual", False) else "turns"
        return self.traits.block

    def names_of_norms(self):
        if self.family == "falcon" and self.block() == "beside":
            return "ln_attn", "", "ln_mlp", ""
        return self.traits.norms

    # Attention.

    def attention(self, x, name, layer):
        q, k, v = self.latent(x, name, layer) if self.traits.latent else self.projected(x, name, layer)
        if self.grows(layer):
            q = q * self.growth(x.shape[1]).to(q.dtype)
        sinks = self.take(name + "sinks", self.heads) if self.family == "gpt_oss" else None
        window, chunk = self.limits(layer)
        mixed = attend(q, k, v, self.score_scale(), window, chunk=chunk, sinks=sinks, bias=self.bias(x.shape[1]),
                       kept=self.kept(x, name, layer))
        if self.traits.gated:
            mixed = mixed * torch.sigmoid(self.gate)
        return self.linear(mixed, name + self.traits.output, self.width, self.has_bias("output"))

    def kept(self, x, name, layer):
        """The keys that queries attend to, where these are not all before them."""

    def bias(self, sequence):
        """Falcon scales it as scores; the models of Baichuan of 13B have no field of positions."""
        if self.family == "falcon" and self.config["alibi"]:
            return linear_bias(self.heads, sequence, rounded=True) * self.score_scale()
        has_bias = self.traits.has_bias or (self.family == "baichuan" and "max_position_embeddings" not in self.config)
        return linear_bias(self.heads, sequence) if has_bias else None

    def projected(self, x, name, layer):
        """Queries, keys and values [batch, heads, sequence, size]."""
        queries, keys = self.heads * self.size, self.kv_heads * self.size
        bias = self.has_bias("qkv")
        if len(self.traits.qkv) == 3:
            q, k, v = (self.linear(x, name + which, rows, bias)
                       for which, rows in zip(self.traits.qkv, (queries * (1 + self.traits.gated), keys, keys)))
            if self.traits.gated:
                q, self.gate = (part.flatten(2) for part in q.unflatten(-1, (self.heads, -1)).chunk(2, -1))
            k = k * self.config.get("key_multiplier", 1)
        else:
            q, k, v = self.unpacked(self.linear(x, name + self.traits.qkv[0], queries + 2 * keys, bias))
        norms, when = self.norms_of_heads()
        if norms and when == "whole":
            q, k = self.norm(q, name + norms[0]), self.norm(k, name + norms[1])
        limit = self.config.get("clip_qkv") or self.config.get("attn_config", {}).get("clip_qkv")
        if limit:
            q, k, v = (t.clamp(-limit, limit) for t in (q, k, v))
        q, k, v = (t.unflatten(-1, (-1, self.size)) for t in (q, k, v))
        if norms and when == "before":
            q, k = self.norm(q, name + norms[0]), self.norm(k, name + norms[1])
        if norms and when == "each":
            q, k = self.norm_of_each_head(q, name + norms[0]), self.norm_of_each_head(k, name + norms[1])
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        if self.rotates(layer):
            q, k = self.rotated(q, layer=layer), self.rotated(k, layer=layer)
            if self.config.get("use_qk_norm") and self.family == "llama4_text":
                q, k = (rms_norm(t, 1, self.config["rms_norm_eps"]) for t in (q, k))
        if norms and when == "after":
            q, k = self.norm(q, name + norms[0]), self.norm(k, name + norms[1])
        return q, k, v

    def norms_of_heads(self):
        if self.family == "glm4_moe" and self.config.get("use_qk_norm"):
            return ("q_norm", "k_norm"), "before"
        if self.family == "cohere" and self.config.get("use_qk_norm"):
            return ("q_norm", "k_norm"), "each"
        if self.family == "stablelm" and self.config.get("qk_layernorm"):
            return ("q_layernorm", "k_layernorm"), "each"
        return self.traits.head_norms, self.traits.head_norms_when

    def norm_of_each_head(self, x, name):
        """Command R+ has the weights of all heads in one tensor, StableLM 2 in one each."""
        heads, size = x.shape[-2:]
        if self.family == "stablelm":
            weight = torch.stack([self.take(f"{name}.norms.{head}.weight", size) for head in range(heads)])
        else:
            weight = self.take(name + ".weight", heads, size)
        return functional.layer_norm(x, (size,), eps=self.field(*LAYER_NORM_EPSILON, default=1e-5)) * weight

    def unpacked(self, packed):
        """Of each head of keys its queries, its key and its value, or all queries, all keys and all values."""
        queries, keys = self.heads * self.size, self.kv_heads * self.size
        if not self.traits.grouped:
            return packed.split([queries, keys, keys], -1)
        group = self.heads // self.kv_heads
        groups = packed.unflatten(-1, (self.kv_heads, group + 2, self.size))
        return groups[..., :group, :].flatten(2), groups[..., group, :].flatten(2), groups[..., group + 1, :].flatten(2)

    def latent(self, x, name, layer):
        """DeepSeek-V2 (arXiv 2405.04434), section 2.1.2 and appendix C."""
        config = self.config
        plain, turned, value = (config[key] for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        bias, rank = self.has_bias("qkv"), config["kv_lora_rank"]
        if config.get("q_lora_rank"):
            low = self.linear(x, name + "q_a_proj", config["q_lora_rank"], bias)
            self.low = self.norm(low, name + "q_a_layernorm", 1e-6)
            q = self.linear(self.low, name + "q_b_proj", self.heads * self.size)
        else:
            q = self.linear(x, name + "q_proj", self.heads * self.size)
        q = q.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        low, k_turned = self.linear(x, name + "kv_a_proj_with_mqa", rank + turned, bias).split([rank, turned], -1)
        kv = self.linear(self.norm(low, name + "kv_a_layernorm", 1e-6), name + "kv_b_proj",
                         self.heads * (plain + value))
        k, v = kv.unflatten(-1, (self.heads, -1)).transpose(1, 2).split([plain, value], -1)
        k_turned = self.rotated(k_turned.unsqueeze(1), turned).expand(-1, self.heads, -1, -1)
        q = torch.cat([q[..., :plain], self.rotated(q[..., plain:], turned)], -1)
        return q, torch.cat([k, k_turned], -1), v

    def rope(self, layer=None):
        """The parameters of rotary embedding, whichever field has them; OLMo 3 has some for each kind of layers."""
        config = self.config
        rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
        if "full_attention" in rope:
            rope = dict(rope[config["layer_types"][layer]])
        rope.setdefault("rope_type", rope.get("type", "default"))
        if self.family == "chatglm":
            rope["rope_theta"] = 10000.0 * config.get("rope_ratio", 1)
        rope.setdefault("rope_theta", self.field("rope_theta", "rotary_emb_base", default=10000.0))
        rope.setdefault("max_position_embeddings", self.field("max_position_embeddings", default=2048))
        if config.get("original_max_position_embeddings"):
            rope.setdefault("original_max_position_embeddings", config["original_max_position_embeddings"])
        return rope

    def rotated(self, x, width=None, layer=None):
        config, rope = self.config, self.rope(layer)
        share = rope.get("partial_rotary_factor", self.field("partial_rotary_factor", "rotary_pct", default=1))
        if self.family == "chatglm":
            share = 0.5
        width = width or config.get("rotary_dim") or int(x.shape[-1] * share)
        tables = rotary_tables(rope, width, x.shape[-2], x.dtype)
        return (rotate_adjacent if self.traits.adjacent else rotate)(x, *tables)

    def rotates(self, layer):
        config = self.config
        if self.traits.positions or self.bias(1) is not None or self.family == "nemotron_h":
            return False
        if config.get("position_embedding_type") == "nope":
            return False
        if config.get("no_rope_layers"):  # its 1 means that the layer rotates
            return bool(config["no_rope_layers"][layer])
        if self.family == "cohere2" or (self.family == "exaone4" and config["sliding_window"]):
            return config["layer_types"][layer] == "sliding_attention"
        return True

    def limits(self, layer):
        """(window, chunk) of a layer."""
        config = self.config
        if self.family == "gpt_neo":
            kinds = [kind for names, times in config["attention_types"] for _ in range(times) for kind in names]
            return (config["window_size"] if kinds[layer] == "local" else None), None
        types = config.get("layer_types")
        if self.family == "llama4_text":
            return None, config["attention_chunk_size"] if types[layer] == "chunked_attention" else None
        limited = types[layer] == "sliding_attention" if types else self.family == "starcoder2"
        return (config.get("sliding_window") if limited else None), None

    def grows(self, layer):
        if self.family == "llama4_text":
            return self.config.get("attn_temperature_tuning", True) and not self.rotates(layer)
        return self.family == "ministral3"

    def growth(self, sequence):
        """Scalable softmax (arXiv 2501.19399) as Llama 4 and Ministral 3 have it."""
        positions = torch.arange(sequence, dtype=torch.float64)[:, None]
        if self.family == "ministral3":
            rope = self.config["rope_parameters"]
            steps = torch.floor(positions / rope["original_max_position_embeddings"])
            return 1 + rope["llama_4_scaling_beta"] * torch.log(1 + steps)
        return 1 + self.config["attn_scale"] * torch.log1p(torch.floor((positions + 1) / self.config["floor_scale"]))

    def score_scale(self):
        if self.family == "gpt_neo" or not self.config.get("scale_attn_weights", True):
            return 1.0
        scale = self.config.get("attention_multiplier", self.size**-0.5)
        scale = self.config.get("attn_config", {}).get("softmax_scale") or scale
        rope = self.rope() if self.family in ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa") else {}
        if rope.get("rope_type", "default") != "default" and rope.get("mscale_all_dim"):
            scale *= (0.1 * rope["mscale_all_dim"] * math.log(rope["factor"]) + 1) ** 2
        return scale

    # Feed-forward layers.

    def activation(self, x):
        return ACTIVATIONS[self.field("hidden_act", "activation_function", "activation", "mlp_hidden_act",
                                      default=self.traits.activation)](x)

    def feed_forward(self, x, name, layer):
        config, module = self.config, name + (self.traits.ffn + "." if self.traits.ffn else "")
        if self.traits.experts and self.has_experts(layer):
            return self.experts(x, name + self.traits.experts + ".")
        width = self.field("intermediate_size_mlp", "ffn_hidden_size", "ffn_dim", "n_inner", "mlp_hidden_size", "intermediate_size",
                           default=4 * self.width)
        if self.family in ("qwen", "hf_olmo", "molmo"):  # gate and up share it
            width //= 2
        if self.family == "granitemoehybrid":
            width = config["shared_intermediate_size"]
        if config.get("block_auto_adjust_ff_dim"):  # LFM2: two thirds, rounded up
            multiple = config["block_multiple_of"]
            width = -(-int(config["block_ffn_dim_multiplier"] * int(2 * width / 3)) // multiple) * multiple
        return self.network(x, module, width, self.has_bias("ffn"))

    def network(self, x, module, width, bias=False, names=None):
        names = names or self.traits.matrices
        if "|" in names[0]:
            first, second = self.linear(x, module + names[0].strip("|"), 2 * width, bias).chunk(2, -1)
            gate, up = (second, first) if names[0].startswith("|") else (first, second)
            inner = self.activation(gate) * up
        else:
            first, last = self.config.get("mlp_multipliers", (1, 1))
            inner = self.activation(self.linear(x, module + names[0], width, bias) * first)
            if len(names) == 3:
                inner = inner * self.linear(x, module + names[1], width, bias)
            return self.linear(inner, module + names[-1], self.width, bias) * last
        return self.linear(inner, module + names[-1], self.width, bias)

    def has_experts(self, layer):
        config = self.config
        if config.get("moe_layers") is not None:
            return layer in config["moe_layers"]
        if self.family == "nemotron_h":
            return config["hybrid_override_pattern"][layer] == "E"
        if config.get("num_local_experts") == 0 or layer in config.get("mlp_only_layers", ()):
            return False
        if "moe_layer_start_index" in config:
            end = config["moe_layer_end_index"]
            return (config["moe_layer_start_index"] <= layer <= (end if end >= 0 else layer)
                    and (layer + 1) % config["moe_layer_interval"] == 0)
        return layer >= self.field("first_k_dense_replace", "num_dense_layers", default=0)

    def experts(self, x, name):
        config, traits = self.config, self.traits
        count = self.field("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
        width = self.field("moe_intermediate_size", "intermediate_size")
        logits = self.linear(x, name + traits.router, count, self.family == "gpt_oss")
        self.router_logits.append(logits.flatten(0, 1))
        shares, chosen = self.route(logits, name, count)
        expert = self.packed_experts(name, count, width) if traits.packed else None
        model, latent, before = self.width, config.get("moe_latent_size"), x
        if latent:  # Nemotron 3 Super: experts read and write a projection of the model's width
            x = self.linear(x, name + "fc1_latent_proj", latent)
            self.width = latent
        mixed = torch.zeros_like(x)
        for i in range(count):
            share = torch.where(chosen == i, shares, torch.zeros_like(shares)).sum(-1, keepdim=True)
            run = expert or (lambda y, i=i: self.network(y, f"{name}experts.{i}.", width, names=traits.expert_names))
            if self.family == "llama4_text":  # the router's weights are factors of what an expert reads
                mixed = mixed + run(share * x, i)
            else:
                mixed = mixed + share * (run(x, i) if expert else run(x))
        if latent:
            self.width, x = model, before
            mixed = self.linear(mixed, name + "fc2_latent_proj", model)
        if traits.shared == "shared_mlp":  # of the layer
            name = name.removesuffix(traits.experts + ".")
        width_of_shared = self.field("shared_expert_intermediate_size", "shared_intermediate_size",
                                     "moe_shared_expert_intermediate_size")
        if width_of_shared:
            shared = self.network(x, f"{name}{traits.shared}.", width_of_shared)
            if self.family.startswith("qwen"):
                shared = shared * torch.sigmoid(self.linear(x, name + "shared_expert_gate", 1))
            mixed = mixed + shared
        elif traits.shared:
            times = 1 if self.family == "llama4_text" else self.field("n_shared_experts", "moe_num_shared_experts")
            mixed = mixed + self.network(x, f"{name}{traits.shared}.", width * times)
        return mixed

    def route(self, logits, name, count):
        """(weights, numbers) of each token's experts. DeepSeek-V3 (arXiv 2412.19437), section 2.1.2: a correction chooses
        and does not weigh; experts come from the best groups (node-limited routing, section 2.1.2)."""
        config, traits = self.config, self.traits
        k = self.field("num_experts_per_tok", "moe_k")
        if traits.scores == "chosen":
            best, chosen = logits.topk(k, -1)
            return best.softmax(-1), chosen
        scores = torch.sigmoid(logits) if traits.scores == "sigmoid" else logits.softmax(-1)
        choosing = scores.detach()
        if traits.correction:
            shape = (1, count) if self.family == "ernie4_5_moe" else (count,)
            choosing = choosing + self.take(name + traits.correction, *shape).detach().flatten()
        groups = config.get("n_group") or 1
        if groups > 1 and config.get("topk_method") != "greedy":
            best_two = 1 if self.family == "deepseek_v2" else 2
            grouped = choosing.unflatten(-1, (groups, -1))
            of_group = grouped.topk(best_two, -1).values.sum(-1)
            best = of_group.topk(config["topk_group"], -1).indices
            is_best = functional.one_hot(best, groups).sum(-2).bool().unsqueeze(-1)
            choosing = torch.where(is_best, grouped, torch.zeros_like(grouped)).flatten(-2)
        chosen = choosing.topk(k, -1).indices
        shares = scores.gather(-1, chosen)
        if self.normalises():
            shares = shares / (shares.sum(-1, keepdim=True) + (1e-6 if self.family == "lfm2_moe" else 0))
        return shares * config.get("routed_scaling_factor", 1), chosen

    def normalises(self):
        if self.family in ("deepseek_v2", "llama4_text"):
            return False
        return self.family in ("minimax_m2", "ernie4_5_moe") or self.config.get("norm_topk_prob", True)

    def packed_experts(self, name, count, width):
        """All experts in one tensor; gpt-oss (arXiv 2508.10925 and its code) has biases and a SwiGLU in limits."""
        packed, (gate_up, down) = self.traits.packed, (name + which for which in self.traits.expert_names)
        if packed == "halves":
            first, second = self.take(gate_up, count, 2 * width, self.width), self.take(down, count, self.width, width)
            first, second = first.transpose(1, 2), second.transpose(1, 2)
        else:
            first, second = self.take(gate_up, count, self.width, 2 * width), self.take(down, count, width, self.width)
        if packed != "alternating":
            return lambda x, i: (self.activation((x @ first[i])[..., :width]) * (x @ first[i])[..., width:]) @ second[i]
        first_bias, second_bias = self.take(gate_up + "_bias", count, 2 * width), self.take(down + "_bias", count, self.width)
        limit, slope = self.config.get("swiglu_limit", 7.0), self.config.get("swiglu_alpha", 1.702)

        def run(x, i):
            both = x @ first[i] + first_bias[i]
            gate, up = both[..., ::2].clamp(max=limit), both[..., 1::2].clamp(-limit, limit)
            return ((up + 1) * gate * torch.sigmoid(slope * gate)) @ second[i] + second_bias[i]

        return run

