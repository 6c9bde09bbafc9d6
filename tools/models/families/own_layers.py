"""Families of docs/models.md whose layers have parts that no other has, in plain PyTorch: decoders.py with these
parts in place of its own. decoder_of() finds the class of a config.

    model = decoder_of(config, weights)
    logits = model.forward(inputs)
"""

import torch
from torch.nn import functional

from . import decoders
from .decoders import Decoder
from .operations import attend, rms_norm, rotary_tables, rotate, rotate_adjacent, soft_cap


class Gemma4(Decoder):
    """Gemma 4, after its code in `transformers`: `full` layers have heads of another size, whose values may be the keys;
    the last layers may share keys and values; layers may read vectors of their own beside the stream; experts may stand
    beside a feed-forward layer, each with its norms."""

    def is_full(self, layer):
        return self.config["layer_types"][layer] == "full_attention"

    def forward(self, inputs):
        config, layers = self.config, self.config["num_hidden_layers"]
        self.kept = {}  # keys and values of the last layer of each kind that projects its own
        table = self.take("model.embed_tokens.weight", config["vocab_size"], self.width)
        x = table[inputs] * self.width**0.5
        side = config["hidden_size_per_layer_input"]
        vectors = self.vectors(inputs, x) if side else None
        for layer in range(layers):
            x = self.layer(x, layer)
            name = f"model.layers.{layer}."
            if side:
                x = x + self.side_term(x, vectors[:, :, layer], name)
            x = x * self.take(name + "layer_scalar", 1).detach()
        return soft_cap(self.norm(x, "model.norm") @ table.T, config["final_logit_softcapping"])

    def vectors(self, inputs, x):
        """Of each token and layer, [batch, sequence, layers, side]."""
        layers, side = self.config["num_hidden_layers"], self.config["hidden_size_per_layer_input"]
        rows = self.take("model.embed_tokens_per_layer.weight", self.config["vocab_size_per_layer_input"], layers * side)
        own = rows[inputs].unflatten(-1, (layers, side)) * side**0.5
        projected = self.linear(x, "model.per_layer_model_projection", layers * side) * self.width**-0.5
        projected = self.norm(projected.unflatten(-1, (layers, side)), "model.per_layer_projection_norm")
        return (projected + own) * 2**-0.5

    def side_term(self, x, vector, name):
        gate = self.activation(self.linear(x, name + "per_layer_input_gate", vector.shape[-1])) * vector
        return self.norm(self.linear(gate, name + "per_layer_projection", self.width), name + "post_per_layer_input_norm")

    def layer(self, x, layer):
        name = f"model.layers.{layer}."
        attended = self.attention(self.norm(x, name + "input_layernorm"), name + "self_attn.", layer)
        x = x + self.norm(attended, name + "post_attention_layernorm")
        wide = self.config["use_double_wide_mlp"] and self.shares(layer)
        fed = self.network(self.norm(x, name + "pre_feedforward_layernorm"), name + "mlp.",
                           self.config["intermediate_size"] * (2 if wide else 1))
        if self.config["enable_moe_block"]:
            mixed = self.mixture(x, name)
            fed = self.norm(fed, name + "post_feedforward_layernorm_1")
            fed = fed + self.norm(mixed, name + "post_feedforward_layernorm_2")
        return x + self.norm(fed, name + "post_feedforward_layernorm")

    def shares(self, layer):
        return layer >= self.config["num_hidden_layers"] - self.config["num_kv_shared_layers"]

    def attention(self, x, name, layer):
        config, kind = self.config, self.config["layer_types"][layer]
        size = config.get("global_head_dim", config["head_dim"]) if self.is_full(layer) else config["head_dim"]
        shared = config.get("attention_k_eq_v") and self.is_full(layer)
        heads = config["num_global_key_value_heads"] if shared else config["num_key_value_heads"]

        def by_head(t):
            return t.unflatten(-1, (-1, size))

        q = self.norm(by_head(self.linear(x, name + "q_proj", self.heads * size)), name + "q_norm")
        q = self.turned(q.transpose(1, 2), kind)
        if not self.shares(layer):
            k = by_head(self.linear(x, name + "k_proj", heads * size))
            v = k if shared else by_head(self.linear(x, name + "v_proj", heads * size))
            k = self.turned(self.norm(k, name + "k_norm").transpose(1, 2), kind)
            self.kept[kind] = k, rms_norm(v, 1, config["rms_norm_eps"]).transpose(1, 2)
        window = None if self.is_full(layer) else config["sliding_window"]
        return self.linear(attend(q, *self.kept[kind], 1.0, window), name + "o_proj", self.width)

    def turned(self, x, kind):
        """The scaling `proportional` rotates the first pairs of a whole head and leaves the others."""
        rope, size = dict(self.config["rope_parameters"][kind]), x.shape[-1]
        if rope["rope_type"] != "proportional":
            return rotate(x, *rotary_tables(rope, size, x.shape[-2], x.dtype))
        cosines, sines = rotary_tables(dict(rope, rope_type="default"), size, x.shape[-2], x.dtype)
        still = torch.arange(size // 2) >= int(rope["partial_rotary_factor"] * size // 2)
        return rotate(x, cosines.masked_fill(still, 1), sines.masked_fill(still, 0))

    def activation(self, x):
        return decoders.ACTIVATIONS[self.config["hidden_activation"]](x)

    def mixture(self, x, name):
        config, count = self.config, self.config["num_experts"]
        read = rms_norm(x, self.take(name + "router.scale", self.width) * self.width**-0.5, config["rms_norm_eps"])
        best, chosen = self.linear(read, name + "router.proj", count).softmax(-1).topk(config["top_k_experts"], -1)
        shares = best / best.sum(-1, keepdim=True)
        shares = shares * self.take(name + "router.per_expert_scale", count)[chosen]
        run = self.packed_experts(name, count, config["moe_intermediate_size"])
        normed = self.norm(x, name + "pre_feedforward_layernorm_2")
        return sum(torch.where(chosen == i, shares, torch.zeros_like(shares)).sum(-1, keepdim=True) * run(normed, i)
                   for i in range(count))


class Gemma3n(Gemma4):
    """Gemma 3n, after its code in `transformers`: AltUp (Baykal et al., arXiv 2301.13310) keeps several streams of which a
    layer transforms one; LAuReL (Menghani et al., arXiv 2411.07501) adds a projection through a low rank; the gate of
    some layers keeps what lies above a quantile of a normal distribution."""

    def forward(self, inputs):
        config, layers, count = self.config, self.config["num_hidden_layers"], self.config["altup_num_inputs"]
        self.kept = {}
        table = self.take("model.embed_tokens.weight", config["vocab_size"], self.width)
        x = table[inputs] * self.width**0.5
        vectors = self.vectors(inputs, x)
        streams = [x] + [self.as_large(self.linear(x, f"model.altup_projections.{i}", self.width), x)
                         for i in range(count - 1)]
        for layer in range(layers):
            streams = self.updated(streams, vectors[:, :, layer], layer)
        first = streams[0]
        ends = [self.as_large(self.linear(streams[i + 1], f"model.altup_unembed_projections.{i}", self.width), first)
                for i in range(count - 1)]
        x = self.norm(sum(ends, first) / count, "model.norm")
        return soft_cap(x @ table.T, config["final_logit_softcapping"])

    @staticmethod
    def as_large(x, other):
        """x at the root mean square of the other."""
        return x * other.square().mean(-1, keepdim=True).sqrt() / x.square().mean(-1, keepdim=True).clamp(min=1e-5).sqrt()

    def updated(self, streams, vector, layer):
        config, count, name = self.config, self.config["altup_num_inputs"], f"model.layers.{layer}."
        active = config["altup_active_idx"]
        mixes = self.linear(self.modalities(streams[active], name), name + "altup.prediction_coefs", count * count)
        predicted = [streams[i] + sum(mixes[..., i * count + j, None] * streams[j] for j in range(count))
                     for i in range(count)]
        made = self.transformed(predicted[active], layer)
        steps = self.linear(self.modalities(made, name), name + "altup.correction_coefs", count) + 1
        corrected = [predicted[i] + steps[..., i, None] * (made - predicted[active]) for i in range(count)]
        scale = self.take(name + "altup.correct_output_scale", self.width)
        read = corrected[active] * (scale if config["altup_correct_scale"] else 1)
        term = self.side_term(read, vector, name)
        return corrected[:1] + [stream + term for stream in corrected[1:]]

    def modalities(self, x, name):
        normed = self.norm(x, name + "altup.router_norm") / self.width
        return torch.tanh(self.linear(normed, name + "altup.modality_router", self.config["altup_num_inputs"]))

    def transformed(self, x, layer):
        name = f"model.layers.{layer}."
        read = self.norm(x, name + "input_layernorm")
        low = self.linear(read, name + "laurel.linear_left", self.config["laurel_rank"])
        low = self.linear(low, name + "laurel.linear_right", self.width)
        side = read + self.norm(low, name + "laurel.post_laurel_norm")
        attended = self.norm(self.attention(read, name + "self_attn.", layer), name + "post_attention_layernorm")
        x = (x + attended + side) / 2**0.5
        h = self.norm(x, name + "pre_feedforward_layernorm")
        gate = self.linear(h, name + "mlp.gate_proj", self.config["intermediate_size"])
        share = self.config["activation_sparsity_pattern"][layer]
        if share > 0:
            quantile = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(share))
            gate = (gate - gate.mean(-1, keepdim=True) - gate.std(-1, unbiased=False, keepdim=True) * quantile).relu()
        inner = self.activation(gate) * self.linear(h, name + "mlp.up_proj", self.config["intermediate_size"])
        fed = self.linear(inner, name + "mlp.down_proj", self.width)
        return x + self.norm(fed, name + "post_feedforward_layernorm")


class Phimoe(Decoder):
    """SparseMixer (Liu et al., arXiv 2310.00811) as Phi-3.5 MoE evaluates it: the best expert, then the best of the
    others; the weight of each is its part of the softmax over those near its logit."""

    def rope(self, layer=None):
        """The factor of cosines and sines, up to the original context, is a field of its own."""
        rope = super().rope(layer)
        return {**rope, "attention_factor": rope.get("short_mscale")}

    def route(self, logits, name, count):
        shares, chosen, left = [], [], logits
        for _ in range(2):
            best, place = left.max(-1, keepdim=True)
            near = (best - left) / torch.maximum(logits.abs(), best) <= 2 * self.config["router_jitter_noise"]
            shares.append(left.masked_fill(~near, float("-inf")).softmax(-1).gather(-1, place))
            chosen.append(place)
            left = left.scatter(-1, place, float("-inf"))
        return torch.cat(shares, -1), torch.cat(chosen, -1)


class Dbrx(Decoder):
    """DBRX, whose fields of attention and of experts are objects, and whose experts stand one below the other."""

    def __init__(self, config, weights=None):
        attention, network = config["attn_config"], config["ffn_config"]
        super().__init__({**config, "num_key_value_heads": attention["kv_n_heads"], "clip_qkv": attention["clip_qkv"],
                          "num_local_experts": network["moe_num_experts"], "num_experts_per_tok": network["moe_top_k"],
                          "intermediate_size": network["ffn_hidden_size"]}, weights)

    def packed_experts(self, name, count, width):
        gate, up, down = (self.take(f"{name}experts.mlp.{which}", count * width, self.width).unflatten(0, (count, width))
                          for which in ("w1", "v1", "w2"))
        return lambda x, i: (self.activation(x @ gate[i].T) * (x @ up[i].T)) @ down[i]


class Bert(Decoder):
    """BERT (Devlin et al., arXiv 1810.04805) with the head of the masked language model, as its published code has it.
    Every token is of the first type."""

    def forward(self, inputs):
        config, family, name = self.config, self.family, self.family + ".embeddings."
        first = config["pad_token_id"] + 1 if family == "roberta" else 0  # of the positions (Liu et al., arXiv 1907.11692)
        head = "lm_head." if family == "roberta" else "cls.predictions."
        transform = ("dense", "layer_norm") if family == "roberta" else ("transform.dense", "transform.LayerNorm")
        table = self.take(name + "word_embeddings.weight", config["vocab_size"], self.width)
        types = self.take(name + "token_type_embeddings.weight", config["type_vocab_size"], self.width)
        positions = self.take(name + "position_embeddings.weight", config["max_position_embeddings"], self.width)
        x = self.norm(table[inputs] + types[0] + positions[first : first + inputs.shape[1]], name + "LayerNorm")
        for layer in range(config["num_hidden_layers"]):
            name = f"{family}.encoder.layer.{layer}."
            x = self.norm(x + self.mixed(x, name + "attention."), name + "attention.output.LayerNorm")
            inner = self.activation(self.linear(x, name + "intermediate.dense", config["intermediate_size"], True))
            x = self.norm(x + self.linear(inner, name + "output.dense", self.width, True), name + "output.LayerNorm")
        x = self.norm(self.activation(self.linear(x, head + transform[0], self.width, True)), head + transform[1])
        return x @ table.T + self.take(head + "bias", config["vocab_size"])

    def mixed(self, x, name):
        q, k, v = (self.linear(x, name + "self." + which, self.width, True).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for which in ("query", "key", "value"))
        return self.linear(attend(q, k, v, self.size**-0.5, causal=False), name + "output.dense", self.width, True)


class Vit(Decoder):
    """ViT (Dosovitskiy et al., arXiv 2010.11929), section 3.1, with the head of classes. An image is given as its patches,
    [batch, patches, channels * rows * columns]."""

    def forward(self, inputs):
        config, name = self.config, "vit.embeddings."
        channels, patch = config["num_channels"], config["patch_size"]
        kernel = self.take(name + "patch_embeddings.projection.weight", self.width, channels, patch, patch).flatten(1)
        patches = inputs.to(kernel.dtype) @ kernel.T + self.take(name + "patch_embeddings.projection.bias", self.width)
        first = self.take(name + "cls_token", 1, 1, self.width).expand(len(inputs), -1, -1)
        x = torch.cat([first, patches], 1)
        x = x + self.take(name + "position_embeddings", 1, x.shape[1], self.width)
        for layer in range(config["num_hidden_layers"]):
            name = f"vit.encoder.layer.{layer}."
            x = x + self.mixed(self.norm(x, name + "layernorm_before"), name + "attention.")
            h = self.norm(x, name + "layernorm_after")
            inner = self.activation(self.linear(h, name + "intermediate.dense", config["intermediate_size"], True))
            x = x + self.linear(inner, name + "output.dense", self.width, True)
        return self.linear(self.norm(x, "vit.layernorm")[:, 0], "classifier", config["num_labels"], True)

    def mixed(self, x, name):
        q, k, v = (self.linear(x, name + "attention." + which, self.width, True)
                   .unflatten(-1, (self.heads, -1)).transpose(1, 2) for which in ("query", "key", "value"))
        return self.linear(attend(q, k, v, self.size**-0.5, causal=False), name + "output.dense", self.width, True)


def largest(scores, count):
    """True at the `count` largest of each row. Which these are must not depend on rounding."""
    best = scores.topk(min(count + 1, scores.shape[-1]), -1)
    if best.values.shape[-1] > count:
        gap = best.values[..., count - 1] - best.values[..., count]  # of less than `count` that are not -inf, nan
        if (gap < 1e-4).any():
            raise ValueError("two scores around the last one that is kept differ by less than 1e-4")
    chosen = best.indices[..., :count]
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, chosen, True)


def before(scores):
    """-inf at keys after the query, in the last two dimensions."""
    queries, keys = (torch.arange(size) for size in scores.shape[-2:])
    return scores.masked_fill(keys > queries[:, None], float("-inf"))


class IndexedKeys(Decoder):
    """DeepSeek-V3.2 (arXiv 2512.02556), section 2.1: the lightning indexer's score of a query and a key is the sum over
    its heads of a weight times ReLU of their product; a query attends to its best keys. In GLM 5 layers may take the
    choice of the one before them. No gradient passes through the choice."""

    def kept(self, x, name, layer):
        config, name = self.config, name + "indexer."
        if config.get("indexer_types") and config["indexer_types"][layer] == "shared":
            return self.choice
        heads, size, turned = config["index_n_heads"], config["index_head_dim"], config["qk_rope_head_dim"]
        turn = rotate_adjacent if self.family == "glm_moe_dsa" else rotate
        tables = rotary_tables(self.rope(), turned, x.shape[1], x.dtype)
        q = self.linear(self.low.detach(), name + "wq_b", heads * size).unflatten(-1, (heads, size)).transpose(1, 2)
        k = self.linear(x.detach(), name + "wk", size)
        k = functional.layer_norm(k, (size,), self.take(name + "k_norm.weight", size),
                                  self.take(name + "k_norm.bias", size), 1e-6)
        products = turn(q, *tables) @ turn(k.unsqueeze(1), *tables).transpose(-1, -2) * size**-0.5
        weights = self.linear(x.detach(), name + "weights_proj", heads) * heads**-0.5
        scores = (products.relu() * weights.transpose(1, 2).unsqueeze(-1)).sum(1, keepdim=True)
        self.choice = largest(before(scores.detach()), config["index_topk"])
        return self.choice


class MinimaxM3(Decoder):
    """The text model of MiniMax M3, after its code in `transformers`: in some layers a query attends to its best blocks
    of keys, those with the keys of the largest products in small heads of their own; SwiGLU in limits everywhere."""

    def kept(self, x, name, layer):
        config, name = self.config, name + "indexer."
        if config["layer_types"][layer] != "minimax_m3_sparse":
            return None
        heads, size, block = config["index_n_heads"], config["index_head_dim"], config["index_block_size"]
        q = self.linear(x.detach(), name + "q_proj", heads * size).unflatten(-1, (heads, size))
        k = self.linear(x.detach(), name + "k_proj", size).unflatten(-1, (1, size))
        q, k = (self.rotated(self.norm(t, f"{name}{which}_norm").transpose(1, 2)) for t, which in ((q, "q"), (k, "k")))
        scores = before((q @ k.transpose(-1, -2)).detach())
        blocks = -(-scores.shape[-1] // block)
        padded = functional.pad(scores, (0, blocks * block - scores.shape[-1]), value=float("-inf"))
        of_blocks = padded.unflatten(-1, (blocks, block)).amax(-1)
        own = torch.arange(scores.shape[-2])[:, None] // block
        distance = own - torch.arange(blocks)
        local = (distance >= 0) & (distance < config["index_local_blocks"])
        chosen = largest(of_blocks.masked_fill(local, 1e30), config["index_topk_blocks"])
        chosen = chosen.repeat_interleave(block, -1)[..., : scores.shape[-1]]
        return chosen.repeat_interleave(self.heads // heads, 1)

    def has_experts(self, layer):
        return self.config["mlp_layer_types"][layer] == "sparse"

    def feed_forward(self, x, name, layer):
        if self.has_experts(layer):
            return self.experts(x, name + "mlp.")
        return self.network(x, name + "mlp.", self.config["dense_intermediate_size"])

    def limited(self, both):
        gate, up = both.chunk(2, -1)
        limit, slope = self.config["swiglu_limit"], self.config["swiglu_alpha"]
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return (up + 1) * gate * torch.sigmoid(slope * gate)

    def network(self, x, module, width, bias=False, names=None):
        return self.linear(self.limited(self.linear(x, module + "gate_up_proj", 2 * width)), module + "down_proj", self.width)

    def packed_experts(self, name, count, width):
        first = self.take(name + "experts.gate_up_proj", count, 2 * width, self.width)
        second = self.take(name + "experts.down_proj", count, self.width, width)
        return lambda x, i: self.limited(x @ first[i].T) @ second[i].T


class DeepseekV4(Decoder):
    """DeepSeek-V4, after its code in `transformers` and under the names of its published files: manifold-constrained
    hyper-connections between several streams; one head of keys that are values, too, of a window and of compressed
    tokens; experts by a table of tokens in the first layers."""

    def forward(self, inputs):
        config, n = self.config, self.config["hc_mult"]
        self.inputs = inputs
        x = self.take("embed.weight", config["vocab_size"], self.width)[inputs]
        x = x.unsqueeze(2).expand(-1, -1, n, -1)
        for layer in range(config["num_hidden_layers"]):
            name = f"layers.{layer}."
            x = self.through(x, name + "hc_attn", lambda y: self.attention(self.norm(y, name + "attn_norm"), name + "attn.", layer))
            x = self.through(x, name + "hc_ffn", lambda y: self.mixture(self.norm(y, name + "ffn_norm"), name + "ffn.", layer))
        (weights,) = self.products(x, "hc_head", [n])
        x = ((torch.sigmoid(weights) + config["hc_eps"]).unsqueeze(-1) * x).sum(2)
        return self.norm(x, "norm") @ self.take("head.weight", config["vocab_size"], self.width).T

    def products(self, x, name, sizes):
        """Products of all streams together with parts of a matrix, each times a factor and plus its biases."""
        flat = rms_norm(x.flatten(2), 1, self.epsilon())
        rows = sum(sizes)
        made = (flat @ self.take(name + "_fn", rows, flat.shape[-1]).T).split(sizes, -1)
        factors, biases = self.take(name + "_scale", len(sizes)), self.take(name + "_base", rows).split(sizes)
        return [one * factors[i] + biases[i] for i, one in enumerate(made)]

    def through(self, x, name, part):
        n, tiny = self.config["hc_mult"], self.config["hc_eps"]
        weights, placing, mixing = self.products(x, name, [n, n, n * n])
        mixing = mixing.unflatten(-1, (n, n)).softmax(-1) + tiny
        mixing = mixing / (mixing.sum(-2, keepdim=True) + tiny)
        for _ in range(self.config["hc_sinkhorn_iters"] - 1):
            for axis in (-1, -2):
                mixing = mixing / (mixing.sum(axis, keepdim=True) + tiny)
        made = part(((torch.sigmoid(weights) + tiny).unsqueeze(-1) * x).sum(2))
        return 2 * torch.sigmoid(placing).unsqueeze(-1) * made.unsqueeze(2) + mixing.transpose(-1, -2) @ x

    def turned(self, x, rope, inverse=False, positions=None):
        """x [batch, heads, places, size], the last elements by the angles of their places."""
        turned = self.config["qk_rope_head_dim"]
        places = torch.arange(x.shape[2]) if positions is None else positions
        cosines, sines = (t[places] for t in rotary_tables(rope, turned, int(places.max()) + 1, x.dtype))
        rest, last = x.split([x.shape[-1] - turned, turned], -1)
        return torch.cat([rest, rotate_adjacent(last, cosines, -sines if inverse else sines)], -1)

    def entries(self, x, name, rate, size, rope, overlap):
        """Compressed tokens [batch, 1, entries, size]."""
        config, wide = self.config, size * (2 if overlap else 1)
        whole = x.shape[1] // rate * rate
        values, gates = (self.linear(x, name + which, wide)[:, :whole].unflatten(1, (-1, rate)) for which in ("wkv", "wgate"))
        gates = gates + self.take(name + "ape", rate, wide)
        norm = self.take(name + "norm.weight", size)
        if whole == 0:
            return x.new_zeros(len(x), 1, 0, size)
        if overlap:
            def both(t, fill):
                before = torch.cat([torch.full_like(t[:, :1, :, :size], fill), t[:, :-1, :, :size]], 1)
                return torch.cat([before, t[..., size:]], 2)

            values, gates = both(values, 0.0), both(gates, float("-inf"))
        made = rms_norm((values * gates.softmax(2)).sum(2), norm, self.epsilon()).unsqueeze(1)
        return self.turned(made, rope, positions=torch.arange(made.shape[2]) * rate)

    def attention(self, x, name, layer):
        config, size, kind = self.config, self.size, self.config["layer_types"][layer]
        rope = dict(config["rope_parameters"]["main" if kind == "sliding_attention" else "compress"])
        low = self.norm(self.linear(x, name + "wq_a", config["q_lora_rank"]), name + "q_norm")
        q = self.linear(low, name + "wq_b", self.heads * size).unflatten(-1, (self.heads, size)).transpose(1, 2)
        q = self.turned(rms_norm(q, 1, self.epsilon()), rope)
        keys = self.turned(self.norm(self.linear(x, name + "wkv", size), name + "kv_norm").unsqueeze(1), rope)
        places = torch.arange(x.shape[1])
        distance = places[:, None] - places
        seen = ((distance >= 0) & (distance < config["sliding_window"])).expand(len(x), 1, -1, -1)
        if kind != "sliding_attention":
            rate, overlap = config["compress_rates"][kind], kind == "compressed_sparse_attention"
            more = self.entries(x, name + "compressor.", rate, size, rope, overlap)
            ready = (places[:, None] + 1) // rate > torch.arange(more.shape[2])
            if overlap:
                ready = ready & self.chosen(x, low, name + "indexer.", rate, rope, ready)
            keys = torch.cat([keys, more], 2)
            seen = torch.cat([seen, ready.expand(len(x), 1, -1, -1)], -1)
        scores = (q @ keys.transpose(-1, -2) * size**-0.5).masked_fill(~seen, float("-inf"))
        sinks = self.take(name + "attn_sink", self.heads)[:, None, None].expand(*scores.shape[:-1], 1)
        mixed = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ keys
        groups, rank = config["o_groups"], config["o_lora_rank"]
        mixed = self.turned(mixed, rope, inverse=True).transpose(1, 2).flatten(2).unflatten(-1, (groups, -1))
        first = self.take(name + "wo_a.weight", groups * rank, mixed.shape[-1]).unflatten(0, (groups, rank))
        return self.linear(torch.einsum("bsgi,gri->bsgr", mixed, first).flatten(2), name + "wo_b", self.width)

    def chosen(self, x, low, name, rate, rope, ready):
        config = self.config
        heads, size = config["index_n_heads"], config["index_head_dim"]
        keys = self.entries(x.detach(), name + "compressor.", rate, size, rope, True)
        q = self.linear(low.detach(), name + "wq_b", heads * size).unflatten(-1, (heads, size)).transpose(1, 2)
        products = (self.turned(q, rope) @ keys.transpose(-1, -2)).relu() * size**-0.5
        weights = self.linear(x.detach(), name + "weights_proj", heads) * heads**-0.5
        scores = (products * weights.transpose(1, 2).unsqueeze(-1)).sum(1, keepdim=True).detach()
        return largest(scores.masked_fill(~ready, float("-inf")), min(config["index_topk"], scores.shape[-1]))

    def mixture(self, x, name, layer):
        config, width = self.config, self.config["moe_intermediate_size"]
        count, k = config["n_routed_experts"], config["num_experts_per_tok"]
        logits = self.linear(x, name + "gate", count)
        scores = torch.sqrt(functional.softplus(logits))
        if config["mlp_layer_types"][layer] == "hash_moe":
            chosen = self.take(name + "gate.tid2eid", config["vocab_size"], k).long()[self.inputs]
        else:
            chosen = (scores + self.take(name + "gate.bias", count)).detach().topk(k, -1).indices
        shares = scores.gather(-1, chosen)
        shares = shares / shares.sum(-1, keepdim=True) * config["routed_scaling_factor"]
        limit = config["swiglu_limit"]
        mixed = self.three(x, name + "shared_experts.", width, limit)
        for i in range(count):
            share = torch.where(chosen == i, shares, torch.zeros_like(shares)).sum(-1, keepdim=True)
            mixed = mixed + share * self.three(x, f"{name}experts.{i}.", width, limit)
        return mixed

    def three(self, x, name, width, limit):
        gate, up = (self.linear(x, name + which, width) for which in ("w1", "w3"))
        return self.linear(functional.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit), name + "w2", self.width)


class Molmo(Decoder):
    """The text model of Molmo (Deitke et al., arXiv 2409.17146), after its code: tokens of images have embeddings that
    the head lacks; norms may stand after attention and feed-forward, and queries and keys may have norms."""

    def table(self, vocab):
        first, more = (self.take(f"model.transformer.wte.{which}", rows, self.width)
                       for which, rows in (("embedding", vocab), ("new_embedding", 128)))
        return torch.cat([first, more])

    def names_of_norms(self):
        return ("", "attn_norm", "", "ff_norm") if self.config.get("norm_after") else super().names_of_norms()

    def norms_of_heads(self):
        return (("q_norm", "k_norm"), "whole") if self.config.get("attention_layer_norm") else ((), "")


class OpenMoe(Decoder):
    """OpenMoE (Xue et al., arXiv 2402.01739), after its code: the gate of a network is twice as wide, and its halves
    are multiplied before they are the gate; layers with experts have a network behind them. Without limits of the
    tokens of an expert."""

    def score_scale(self):
        return 1.0

    def layer(self, x, index):
        name, width = f"model.layers.{index}.", self.config["intermediate_size"]
        x = x + self.attention(self.norm(x, name + "input_layernorm"), name + "self_attn.", index)
        read = self.norm(x, name + "post_attention_layernorm")
        if (index + 1) % self.config["moe_layer_interval"] != 0:
            return x + self.three_factors(read, name + "mlp.", width)
        x = x + self.mixture(read, name + "mlp.", width)
        return x + self.three_factors(self.norm(x, name + "pre_extra_mlp_layernorm"), name + "extra_mlp.", width)

    def three_factors(self, x, name, width):
        first, second = self.linear(x, name + "gate_proj", 2 * width).chunk(2, -1)
        inner = first * (second * torch.sigmoid(second)) * self.linear(x, name + "up_proj", width)
        return self.linear(inner, name + "down_proj", self.width)

    def mixture(self, x, name, width):
        count, chosen = self.config["num_experts"], self.config["router_topk"]
        shares, best = (x @ self.take(name + "gate_weight", count, self.width).T).softmax(-1).topk(chosen, -1)
        gates, ups = (self.take(f"{name}experts.{which}", count, self.width, columns)
                      for which, columns in (("wi_gate", 2 * width), ("wi_up", width)))
        downs = self.take(name + "experts.wo", count, width, self.width)
        mixed = torch.zeros_like(x)
        for i in range(count):
            first, second = (x @ gates[i]).chunk(2, -1)
            made = (first * (second * torch.sigmoid(second)) * (x @ ups[i])) @ downs[i]
            mixed = mixed + torch.where(best == i, shares, torch.zeros_like(shares)).sum(-1, keepdim=True) * made
        return mixed


CLASSES = {"vit": Vit, "deepseek_v32": IndexedKeys, "glm_moe_dsa": IndexedKeys, "minimax_m3_vl_text": MinimaxM3,
           "deepseek_v4": DeepseekV4,
           "molmo": Molmo, "openmoe": OpenMoe, "gemma3n_text": Gemma3n, "bert": Bert, "roberta": Bert, "gemma4_text": Gemma4, "phimoe": Phimoe, "dbrx": Dbrx}


def decoder_of(config, weights=None):
    return CLASSES.get(config["model_type"], Decoder)(config, weights)


def shapes(config):
    """Name -> shape of every tensor of the published files."""
    model = decoder_of(config)
    model.forward(torch.zeros(1, *patches_of(config)) if "patch_size" in config else torch.zeros(1, 2, dtype=torch.int64))
    return model.shapes


def patches_of(config):
    """The patches of an image and the values of each."""
    return (config["image_size"] // config["patch_size"]) ** 2, config["num_channels"] * config["patch_size"] ** 2
