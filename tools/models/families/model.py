"""The families of models of docs/models.md in plain PyTorch: what a published config.json and its weights compute.

A definition for tests to compare with, which shares no code with the engine or with `transformers`: formulas of the
publications that it names, and every token goes through every expert. The numbers are those of the weights' type, which
is double in tests. Works on PyTorch 1.13 and newer.

    model = FamilyModel(config, weights)   config: the fields of config.json, as parameter_shapes() of cases.py
                                           takes them; weights: the tensors of the published files, by name
    logits = model.forward(inputs)         int64 [batch, sequence] -> [batch, sequence, vocab]
    loss = model.loss(logits, targets)     a scalar
"""

import torch
from torch.nn import functional

from . import own_layers
from .operations import ACTIVATIONS, attend, load_balancing_loss, rms_norm, rotary_tables, rotate, soft_cap
from .table import TRAITS

GEMMA = ("gemma2", "gemma3_text")
NORMS_OF_HEADS = ("qwen3", "qwen3_moe", "gemma3_text")
WINDOW_IN_EVERY_LAYER = ("mistral", "mixtral", "phi3")
NORM_EPSILON = {"mixtral": 1e-5, "phi3": 1e-5, "olmo2": 1e-5}  # of the others: 1e-6
LAYER_NORM_EPSILON = 1e-5


class FamilyModel:
    def __init__(self, config, weights):
        self.config = config
        self.family = config["model_type"]
        self.weights = weights
        self.router_logits = []  # of forward(): [batch * sequence, experts], one a layer with experts

    def forward(self, inputs):
        self.router_logits = []
        if self.family in TRAITS:
            decoder = own_layers.decoder_of(self.config, self.weights)
            logits = decoder.forward(inputs)
            self.router_logits = decoder.router_logits
            return logits
        return self.gpt2(inputs) if self.family == "gpt2" else self.decoder(inputs)

    def loss(self, logits, targets):
        """Mean cross-entropy with the target at the same position, and the load-balancing loss if the config asks."""
        loss = functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        if not self.config.get("output_router_logits"):
            return loss
        balance = load_balancing_loss(self.router_logits, self.config["num_experts_per_tok"])
        return loss + self.config["router_aux_loss_coef"] * balance

    def linear(self, x, name):
        """x W^T + b, without b where the files have none."""
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        """RMS norm; Gemma stores its factor less 1."""
        weight = self.weights[name + ".weight"]
        epsilon = self.config.get("rms_norm_eps", NORM_EPSILON.get(self.family, 1e-6))
        return rms_norm(x, 1 + weight if self.family in GEMMA else weight, epsilon)

    def activation(self, x):
        return ACTIVATIONS[self.config.get("hidden_activation") or self.config.get("hidden_act", "silu")](x)

    def decoder(self, inputs):
        """Llama (arXiv 2302.13971) and the families after it."""
        config = self.config
        embeddings = self.weights["model.embed_tokens.weight"]
        x = embeddings[inputs]
        if self.family in GEMMA:
            x = x * config["hidden_size"] ** 0.5
        for layer in range(config["num_hidden_layers"]):
            x = self.decoder_layer(x, layer)
        head = self.weights.get("lm_head.weight", embeddings)  # a tied head is not in the files
        return soft_cap(self.norm(x, "model.norm") @ head.T, config.get("final_logit_softcapping"))

    def decoder_layer(self, x, layer):
        """Norms stand before attention and feed-forward (Llama), after them (OLMo 2, arXiv 2501.00656, section 3), or
        both (Gemma 2)."""
        name = f"model.layers.{layer}."
        after_attention, after_ffn = name + "post_attention_layernorm", name + "post_feedforward_layernorm"
        if self.family == "olmo2":
            x = x + self.norm(self.attention(x, layer), after_attention)
            return x + self.norm(self.feed_forward(x, layer), after_ffn)
        attended = self.attention(self.norm(x, name + "input_layernorm"), layer)
        if self.family in GEMMA:
            x = x + self.norm(attended, after_attention)
            h = self.norm(x, name + "pre_feedforward_layernorm")
            return x + self.norm(self.feed_forward(h, layer), after_ffn)
        x = x + attended
        return x + self.feed_forward(self.norm(x, after_attention), layer)

    def attention(self, x, layer):
        """Gemma scales by query_pre_attn_scalar instead of the head's width. Qwen 3 (arXiv 2505.09388) and Gemma 3
        (arXiv 2503.19786) normalise every head of q and k, OLMo 2 all of q and all of k."""
        config, name = self.config, f"model.layers.{layer}.self_attn."
        width = head_width(config)
        q, k, v = self.projections(x, name, width)
        if self.family == "olmo2":
            q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        q, k, v = (t.unflatten(-1, (-1, width)) for t in (q, k, v))
        if self.family in NORMS_OF_HEADS:
            q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        rope = self.rope(layer)
        tables = rotary_tables(rope, int(width * rope.get("partial_rotary_factor", 1)), x.shape[1], x.dtype)
        scale = config.get("query_pre_attn_scalar", width) ** -0.5
        window = config["sliding_window"] if self.has_window(layer) else None
        mixed = attend(rotate(q, *tables), rotate(k, *tables), v, scale, window, config.get("attn_logit_softcapping"))
        return self.linear(mixed, name + "o_proj")

    def projections(self, x, name, width):
        """Phi-3 (arXiv 2404.14219) stores q, k and v in one matrix."""
        if self.family != "phi3":
            return [self.linear(x, name + which) for which in ("q_proj", "k_proj", "v_proj")]
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        return self.linear(x, name + "qkv_proj").split([heads * width, kv_heads * width, kv_heads * width], -1)

    def has_window(self, layer):
        if self.family == "qwen3_moe":
            return self.config["use_sliding_window"]
        types = self.config.get("layer_types")
        return types[layer] == "sliding_attention" if types else self.family in WINDOW_IN_EVERY_LAYER

    def rope(self, layer):
        """Gemma 3 has rotary parameters for each type of layer."""
        rope = self.config["rope_parameters"]
        if self.family == "gemma3_text":
            return rope[self.config["layer_types"][layer]]
        return {"max_position_embeddings": self.config["max_position_embeddings"], **rope}

    def feed_forward(self, x, layer):
        if "num_experts_per_tok" in self.config and self.has_experts(layer):
            return self.experts(x, layer)
        name = f"model.layers.{layer}.mlp."
        if self.family == "phi3":  # gate and up in one matrix
            gate, up = self.linear(x, name + "gate_up_proj").chunk(2, -1)
            return self.linear(self.activation(gate) * up, name + "down_proj")
        return self.gated(x, name)

    def has_experts(self, layer):
        step = self.config.get("decoder_sparse_step", 1)
        return layer not in self.config.get("mlp_only_layers", []) and (layer + 1) % step == 0

    def gated(self, x, name, names=("gate_proj", "up_proj", "down_proj")):
        """Shazeer, "GLU variants improve Transformer" (arXiv 2002.05202): SwiGLU or GeGLU."""
        gate, up, down = (name + which for which in names)
        return self.linear(self.activation(self.linear(x, gate)) * self.linear(x, up), down)

    def experts(self, x, layer):
        """Mixtral of experts (arXiv 2401.04088), section 2.1: the chosen experts' outputs, weighted with the router's
        probabilities, which Qwen MoE divides by their sum only with norm_topk_prob. Qwen 2 MoE (arXiv 2407.10671) adds
        an expert for every token behind a sigmoid gate."""
        config, mixtral = self.config, self.family == "mixtral"
        name = f"model.layers.{layer}." + ("block_sparse_moe." if mixtral else "mlp.")
        names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
        logits = self.linear(x, name + "gate")
        self.router_logits.append(logits.flatten(0, 1))
        shares, chosen = logits.softmax(-1).topk(config["num_experts_per_tok"], -1)
        if mixtral or config["norm_topk_prob"]:
            shares = shares / shares.sum(-1, keepdim=True)
        mixed = torch.zeros_like(x)
        for i in range(logits.shape[-1]):
            share = torch.where(chosen == i, shares, torch.zeros_like(shares)).sum(-1, keepdim=True)
            mixed = mixed + share * self.gated(x, f"{name}experts.{i}.", names)
        if self.family == "qwen2_moe":
            gate = torch.sigmoid(self.linear(x, name + "shared_expert_gate"))
            mixed = mixed + gate * self.gated(x, name + "shared_expert.")
        return mixed

    def gpt2(self, inputs):
        """Radford et al., "Language models are unsupervised multitask learners" (2019), and its published code: learned
        positions, layer norms before, weights stored [in, out]."""
        positions = self.weights["transformer.wpe.weight"][: inputs.shape[1]]
        embeddings = self.weights["transformer.wte.weight"]
        x = embeddings[inputs] + positions
        for layer in range(self.config["n_layer"]):
            name = f"transformer.h.{layer}."
            x = x + self.gpt2_attention(self.layer_norm(x, name + "ln_1"), name + "attn.")
            h = self.transposed_linear(self.layer_norm(x, name + "ln_2"), name + "mlp.c_fc")
            x = x + self.transposed_linear(ACTIVATIONS[self.config["activation_function"]](h), name + "mlp.c_proj")
        return self.layer_norm(x, "transformer.ln_f") @ embeddings.T

    def gpt2_attention(self, x, name):
        heads = self.config["n_head"]
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2)
                   for t in self.transposed_linear(x, name + "c_attn").chunk(3, -1))
        return self.transposed_linear(attend(q, k, v, q.shape[-1] ** -0.5), name + "c_proj")

    def transposed_linear(self, x, name):
        return x @ self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def layer_norm(self, x, name):
        """Ba et al., "Layer normalization" (arXiv 1607.06450)."""
        return functional.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"], self.weights[name + ".bias"],
                                     LAYER_NORM_EPSILON)


def head_width(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
