"""The families of docs/models.md as data. TRAITS: what the definition in plain PyTorch (decoders.py) needs to know of
a family, beyond those of model.py. CASES: tiny models of every family, from which golden files are made
(cases.py). A new family is a row of each.
"""

import dataclasses


@dataclasses.dataclass
class Traits:
    """Names are those of the files. `block`: feed-forward after attention (turns), beside it with a norm of its own
    (beside) or with the same (one). `norms`: before attention, after it, before feed-forward, after it."""

    model: str = "model."
    embedding: str = "embed_tokens"
    positions: str = ""
    layers: str = "layers"
    final_norm: str = "norm"
    head: str = "lm_head"
    attention: str = "self_attn"
    qkv: tuple = ("q_proj", "k_proj", "v_proj")
    grouped: bool = False  # one matrix with the queries, key and value of each head of keys
    output: str = "o_proj"
    head_norms: tuple = ()
    head_norms_when: str = "before"  # rotation, or "after", or over all heads: "whole"
    ffn: str = "mlp"
    matrices: tuple = ("gate_proj", "up_proj", "down_proj")  # two: no gate; gate and up may be one: "gate_up|", up first: "|both"
    norms: tuple = ("input_layernorm", "", "post_attention_layernorm", "")
    epsilon: float = 1e-6  # of RMS norms, where the config has none
    norm: str = "rms"  # rms, gemma (1 + weight), layer, layer_without_bias, layer_without_weight
    block: str = "turns"
    adjacent: bool = False  # rotary embedding turns elements side by side, not halves
    bias: dict = dataclasses.field(default_factory=dict)  # of qkv, output, ffn, head: True or a field of the config
    tied: bool = False
    latent: bool = False
    experts: str = ""  # the module
    expert_names: tuple = ("gate_proj", "up_proj", "down_proj")
    shared: str = ""
    scores: str = "softmax"  # sigmoid, chosen
    correction: str = ""
    router: str = "gate"
    packed: str = ""  # experts in one tensor: halves, transposed, alternating
    mixer: str = ""  # the module of layers without attention, or of what is beside it
    gated: bool = False  # attention's result has a gate, whose rows follow the queries of each head
    embedding_norm: str = ""
    has_bias: bool = False  # of scores: ALiBi
    activation: str = "silu"  # where the config has none


GPT = dict(model="transformer.", embedding="wte", layers="h", final_norm="ln_f", norm="layer", tied=True)
LN = ("ln_1", "", "ln_2", "")
AFTER = ("", "post_attention_layernorm", "", "post_feedforward_layernorm")
ALL_BIASES = dict(qkv=True, output=True, ffn=True)
BOTH = dict(qkv="attention_bias", output="attention_bias")
NEXT = dict(norm="gemma", bias=BOTH, head_norms=("q_norm", "k_norm"), mixer="linear_attn", gated=True)
LFM2 = dict(epsilon=1e-5, final_norm="embedding_norm", output="out_proj", head_norms=("q_layernorm", "k_layernorm"),
            ffn="feed_forward", matrices=("w1", "w3", "w2"), norms=("operator_norm", "", "ffn_norm", ""), tied=True,
            mixer="conv")
DEEPSEEK = dict(experts="mlp", shared="shared_experts", bias=BOTH)
TRAITS = {
    "gemma": Traits(norm="gemma", tied=True, bias=BOTH),
    "gemma3n_text": Traits(tied=True),
    "gemma4_text": Traits(packed="halves", expert_names=("experts.gate_up_proj", "experts.down_proj"), tied=True),
    "phimoe": Traits(norm="layer", experts="block_sparse_moe", expert_names=("w1", "w3", "w2"),
                     bias=dict(BOTH, head="lm_head_bias")),
    "dbrx": Traits(model="transformer.", embedding="wte", layers="blocks", final_norm="norm_f",
                   attention="norm_attn_norm.attn", qkv=("Wqkv",), output="out_proj", norm="layer_without_bias",
                   norms=("norm_attn_norm.norm_1", "", "norm_attn_norm.norm_2", ""), experts="ffn",
                   router="router.layer", packed="stacked"),
    "olmo": Traits(norm="layer_without_weight", bias=BOTH),
    "olmo3": Traits(epsilon=1e-5, norms=AFTER, head_norms=("q_norm", "k_norm"), head_norms_when="whole", bias=BOTH),
    "olmoe": Traits(epsilon=1e-5, head_norms=("q_norm", "k_norm"), head_norms_when="whole", experts="mlp", bias=BOTH),
    "smollm3": Traits(bias=dict(BOTH, ffn="mlp_bias"), tied=True),
    "seed_oss": Traits(bias=dict(qkv="attention_bias", output="attention_out_bias", ffn="mlp_bias")),
    "ernie4_5": Traits(epsilon=1e-5, bias=dict(qkv="use_bias", output="use_bias", ffn="use_bias"), tied=True, adjacent=True),
    "ernie4_5_moe": Traits(epsilon=1e-5, tied=True, adjacent=True, experts="mlp", shared="shared_experts",
                           correction="moe_statics.e_score_correction_bias"),
    "hunyuan_v1_dense": Traits(epsilon=1e-5, bias=BOTH, head_norms=("query_layernorm", "key_layernorm"), head_norms_when="after"),
    "exaone4": Traits(epsilon=1e-5, norms=AFTER, head_norms=("q_norm", "k_norm")),
    "granite": Traits(bias=dict(BOTH, ffn="mlp_bias")),
    "granitemoe": Traits(bias=BOTH, experts="block_sparse_moe", scores="chosen", router="router.layer", packed="halves",
                         expert_names=("input_linear.weight", "output_linear.weight")),
    "ministral3": Traits(epsilon=1e-5),
    "minimax_m2": Traits(head_norms=("q_norm", "k_norm"), head_norms_when="whole", experts="block_sparse_moe",
                         expert_names=("w1", "w3", "w2"), scores="sigmoid", correction="e_score_correction_bias"),
    "glm": Traits(epsilon=1.5625e-7, matrices=("gate_up_proj|", "down_proj"), adjacent=True, bias=dict(qkv="attention_bias")),
    "glm4": Traits(epsilon=1.5625e-7, matrices=("gate_up_proj|", "down_proj"), adjacent=True, bias=dict(qkv="attention_bias"),
                   norms=("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                          "post_mlp_layernorm")),
    "glm4_moe": Traits(epsilon=1e-5, **dict(DEEPSEEK, bias=dict(qkv="attention_bias")), scores="sigmoid",
                       correction="gate.e_score_correction_bias"),
    "deepseek": Traits(**DEEPSEEK),
    "deepseek_v2": Traits(**DEEPSEEK, latent=True, adjacent=True),
    "deepseek_v3": Traits(**DEEPSEEK, latent=True, adjacent=True, scores="sigmoid",
                          correction="gate.e_score_correction_bias"),
    "deepseek_v32": Traits(**DEEPSEEK, latent=True, adjacent=True, scores="sigmoid",
                           correction="gate.e_score_correction_bias"),
    "glm_moe_dsa": Traits(**DEEPSEEK, epsilon=1e-5, latent=True, adjacent=True, scores="sigmoid",
                          correction="gate.e_score_correction_bias"),
    "minimax_m3_vl_text": Traits(norm="gemma", head_norms=("q_norm", "k_norm"), matrices=("gate_up_proj|", "down_proj"),
                                 experts="mlp", expert_names=("experts.gate_up_proj", "experts.down_proj"),
                                 packed="halves", shared="shared_experts", scores="sigmoid",
                                 correction="gate.e_score_correction_bias"),
    "deepseek_v4": Traits(),
    "minicpm3": Traits(latent=True, tied=True),
    "gpt_oss": Traits(epsilon=1e-5, bias=BOTH, experts="mlp", scores="chosen", router="router", packed="alternating",
                      expert_names=("experts.gate_up_proj", "experts.down_proj")),
    "llama4_text": Traits(bias=BOTH, ffn="feed_forward", experts="feed_forward", shared="shared_expert",
                          scores="sigmoid", router="router", packed="transposed", adjacent=True,
                          expert_names=("experts.gate_up_proj", "experts.down_proj")),
    "starcoder2": Traits(norm="layer", matrices=("c_fc", "c_proj"), tied=True,
                         bias=dict(qkv="use_bias", output="use_bias", ffn="use_bias")),
    "stablelm": Traits(norm="layer", bias=dict(qkv="use_qkv_bias")),
    "phi": Traits(norm="layer", block="one", final_norm="final_layernorm", output="dense", matrices=("fc1", "fc2"),
                  bias=dict(ALL_BIASES, head=True)),
    "gpt_neox": Traits(model="gpt_neox.", embedding="embed_in", final_norm="final_layer_norm", head="embed_out",
                       attention="attention", qkv=("query_key_value",), grouped=True, output="dense",
                       matrices=("dense_h_to_4h", "dense_4h_to_h"), norm="layer",
                       bias=dict(BOTH, ffn=True)),
    "gptj": Traits(**dict(GPT, tied=False), attention="attn", output="out_proj", matrices=("fc_in", "fc_out"),
                   norms=("ln_1", "", "", ""), block="one", adjacent=True, bias=dict(ffn=True, head=True)),
    "cohere": Traits(norm="layer_without_bias", block="one", adjacent=True, tied=True, bias=BOTH),
    "cohere2": Traits(norm="layer_without_bias", block="one", adjacent=True, tied=True, bias=BOTH),
    "falcon": Traits(**dict(GPT, embedding="word_embeddings"), attention="self_attention", qkv=("query_key_value",),
                     grouped=True, output="dense", matrices=("dense_h_to_4h", "dense_4h_to_h"),
                     bias=dict(qkv="bias", output="bias", ffn="bias")),
    "opt": Traits(model="model.decoder.", positions="embed_positions", final_norm="final_layer_norm", output="out_proj",
                  ffn="", matrices=("fc1", "fc2"), norms=("self_attn_layer_norm", "", "final_layer_norm", ""),
                  norm="layer", tied=True, bias=ALL_BIASES),
    "gpt_bigcode": Traits(**GPT, positions="wpe", attention="attn", qkv=("c_attn",), grouped=True, output="c_proj",
                          matrices=("c_fc", "c_proj"), norms=LN, bias=ALL_BIASES),
    "gpt_neo": Traits(**GPT, positions="wpe", attention="attn.attention", output="out_proj",
                      matrices=("c_fc", "c_proj"), norms=LN, bias=dict(output=True, ffn=True)),
    "bloom": Traits(**dict(GPT, embedding="word_embeddings"), embedding_norm="word_embeddings_layernorm",
                    attention="self_attention", qkv=("query_key_value",), grouped=True, output="dense", has_bias=True,
                    matrices=("dense_h_to_4h", "dense_4h_to_h"), bias=ALL_BIASES, activation="gelu_new"),
    "mpt": Traits(**dict(GPT, layers="blocks", final_norm="norm_f", norm="layer_without_bias"), attention="attn",
                  qkv=("Wqkv",), output="out_proj", has_bias=True, ffn="ffn", matrices=("up_proj", "down_proj"),
                  norms=("norm_1", "", "norm_2", ""), activation="gelu"),
    "bert": Traits(norm="layer", activation="gelu"),
    "roberta": Traits(norm="layer", activation="gelu"),
    "vit": Traits(norm="layer", activation="gelu"),
    "minicpm": Traits(tied=True),
    "internlm": Traits(bias=dict(qkv="bias", output="bias")),
    "internlm2": Traits(embedding="tok_embeddings", head="output", attention="attention", qkv=("wqkv",), grouped=True,
                        output="wo", ffn="feed_forward", matrices=("w1", "w3", "w2"),
                        norms=("attention_norm", "", "ffn_norm", ""), bias=dict(qkv="bias", output="bias")),
    "qwen": Traits(**dict(GPT, tied=False, norm="rms"), attention="attn", qkv=("c_attn",), output="c_proj",
                   matrices=("w2", "w1", "c_proj"), norms=LN, bias=dict(qkv=True)),
    "baichuan": Traits(qkv=("W_pack",)),
    "orion": Traits(norm="layer"),
    "hf_olmo": Traits(model="model.transformer.", embedding="wte", positions="wpe", layers="blocks", final_norm="ln_f",
                      head="model.transformer.ff_out", attention="", qkv=("att_proj",), output="attn_out", ffn="",
                      matrices=("|ff_proj", "ff_out"), norms=("attn_norm", "", "ff_norm", ""), norm="layer", tied=True,
                      bias=dict(qkv="include_bias", output="include_bias", ffn="include_bias")),
    "molmo": Traits(model="model.transformer.", embedding="wte", layers="blocks", final_norm="ln_f",
                    head="model.transformer.ff_out", attention="", qkv=("att_proj",), output="attn_out", ffn="",
                    matrices=("|ff_proj", "ff_out"), norms=("attn_norm", "", "ff_norm", ""), bias=dict(qkv="qkv_bias")),
    "openmoe": Traits(experts="mlp"),
    "chatglm": Traits(model="transformer.", embedding="embedding.word_embeddings", layers="encoder.layers",
                      final_norm="encoder.final_layernorm", head="transformer.output_layer",
                      attention="self_attention", qkv=("query_key_value",), output="dense",
                      matrices=("dense_h_to_4h|", "dense_4h_to_h"), adjacent=True,
                      bias=dict(qkv="add_qkv_bias")),
    "qwen3_next": Traits(**NEXT, experts="mlp", shared="shared_expert"),
    "qwen3_5_text": Traits(**NEXT),
    "qwen3_5_moe_text": Traits(**NEXT, experts="mlp", shared="shared_expert", packed="halves",
                               expert_names=("experts.gate_up_proj", "experts.down_proj")),
    "nemotron_h": Traits(epsilon=1e-5, model="backbone.", embedding="embeddings", final_norm="norm_f",
                         attention="mixer", ffn="mixer", matrices=("up_proj", "down_proj"), norms=("norm", "", "norm", ""),
                         bias=dict(BOTH, ffn="mlp_bias"), experts="mixer", expert_names=("up_proj", "down_proj"),
                         shared="shared_experts", scores="sigmoid", correction="gate.e_score_correction_bias",
                         mixer="mixer"),
    "granitemoehybrid": Traits(bias=BOTH, ffn="shared_mlp", matrices=("input_linear|", "output_linear"),
                               experts="block_sparse_moe", scores="chosen", router="router.layer", packed="halves",
                               expert_names=("input_linear.weight", "output_linear.weight"), shared="shared_mlp",
                               mixer="mamba"),
    "mamba2": Traits(epsilon=1e-5, model="backbone.", embedding="embeddings", final_norm="norm_f",
                     norms=("norm", "", "", ""), mixer="mixer"),
    "falcon_h1": Traits(epsilon=1e-5, final_norm="final_layernorm", ffn="feed_forward",
                        norms=("input_layernorm", "", "pre_ff_layernorm", ""), bias=dict(BOTH, ffn="mlp_bias"),
                        mixer="mamba"),
    "lfm2": Traits(**LFM2),
    "lfm2_moe": Traits(**LFM2, experts="feed_forward", expert_names=("w1", "w3", "w2"), scores="sigmoid",
                       correction="expert_bias"),
}

# Families that `transformers` has no code for, by `model_type`: their models come with code of their own.
OWN_CODE = ("deepseek", "minicpm", "minicpm3", "internlm", "internlm2", "qwen", "baichuan", "orion", "chatglm",
            "hf_olmo", "molmo", "openmoe")

BATCH, SEQUENCE = 2, 13

SIZES = dict(vocab_size=29, hidden_size=24, intermediate_size=19, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, attention_dropout=0.0)
TOKENS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=None)  # a padding token's embedding would get no gradient


def rope(theta=10000.0, kind="default", **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **more))


def decoder(family, **fields):
    return {"model_type": family, **TOKENS, **SIZES, **fields}


def scaled(kind, **fields):
    """The same before version 5 of transformers: the scaling in an object of its own."""
    return dict(rope_theta=10000.0, rope_scaling=dict(rope_type=kind, **fields))


SLIDING = dict(sliding_window=5, layer_types=["sliding_attention", "full_attention"])
YARN = dict(factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5)
MLA = dict(num_key_value_heads=4, kv_lora_rank=13, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=7)
MIXTURE = dict(first_k_dense_replace=1, moe_intermediate_size=7, n_routed_experts=8, num_experts_per_tok=3)


# Values have twice the heads of keys. Gated results can be small, and a small epsilon of their norms would let fp32's
# rounding show.
DELTA = dict(rms_norm_eps=1e-3, head_dim=8, attention_bias=False, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=5,
             linear_value_head_dim=3, linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention"])
MAMBA = dict(mamba_n_heads=4, mamba_d_head=6, mamba_n_groups=2, mamba_d_state=3, mamba_d_conv=4, mamba_conv_bias=True)
GRANITE = dict(MAMBA, mamba_d_head=12, mamba_expand=2, layer_types=["mamba", "attention"], shared_intermediate_size=7,
               embedding_multiplier=3.0, logits_scaling=5.0, residual_multiplier=0.3, attention_multiplier=0.2,
               tie_word_embeddings=True)
FALCON = dict(MAMBA, num_hidden_layers=1, mamba_d_ssm=24, mamba_proj_bias=False, embedding_multiplier=2.0,
              lm_head_multiplier=0.5, key_multiplier=0.7, attention_in_multiplier=1.2, attention_out_multiplier=0.9,
              ssm_in_multiplier=1.1, ssm_out_multiplier=0.6, ssm_multipliers=[0.9, 1.3, 0.8, 1.2, 0.7],
              mlp_multipliers=[1.5, 0.4])
NEMOTRON = {"model_type": "nemotron_h", **TOKENS, "vocab_size": 29, "hidden_size": 24, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 7, "max_position_embeddings": 64, "attention_bias": False,
            "attention_dropout": 0.0, "hidden_dropout": 0.0, "mlp_hidden_act": "relu2", "mamba_num_heads": 4,
            "mamba_head_dim": 5, "ssm_state_size": 3, "n_groups": 2, "conv_kernel": 4, "use_conv_bias": True,
            "layer_norm_epsilon": 1e-2, "tie_word_embeddings": False}
CONVOLUTION = dict(layer_types=["conv", "full_attention"], conv_L_cache=3, norm_eps=1e-5, tie_word_embeddings=True)

MOLMO = dict(embedding_size=29, vocab_size=27, hidden_size=24, num_hidden_layers=2, intermediate_size=38,
             max_position_embeddings=64, rope_theta=10000.0, layer_norm_eps=1e-6, layer_norm_type="rms",
             tie_word_embeddings=False)


def gpt(family, **fields):
    sizes = dict(vocab_size=29, n_embd=24, n_layer=2, n_head=4, n_positions=17, n_inner=19)
    dropout = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return {"model_type": family, **TOKENS, **sizes, **dropout, **fields}


ENCODERS = ("bert", "roberta")


def encoder(family, **fields):
    sizes = dict(vocab_size=19, hidden_size=16, intermediate_size=9, num_attention_heads=2, max_position_embeddings=15)
    usual = dict(hidden_act="gelu", layer_norm_eps=1e-12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return {"model_type": family, **TOKENS, **sizes, **usual, **fields}


def gpt2(**fields):
    sizes = dict(vocab_size=29, n_embd=21, n_layer=2, n_head=3, n_positions=17, n_inner=None)
    dropout = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return {"model_type": "gpt2", **TOKENS, **sizes, **dropout, **fields}


def gemma4(**fields):
    sizes = dict(vocab_size=18, hidden_size=12, intermediate_size=5, num_hidden_layers=2, num_attention_heads=2,
                 num_key_value_heads=2, num_global_key_value_heads=1, head_dim=4, global_head_dim=8,
                 max_position_embeddings=64, attention_dropout=0.0)
    rotary = dict(full_attention=dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.6),
                  sliding_attention=dict(rope_type="default", rope_theta=10000.0))
    usual = dict(hidden_activation="gelu_pytorch_tanh", sliding_window=5, rms_norm_eps=1e-6,
                 layer_types=["sliding_attention", "full_attention"], rope_parameters=rotary, attention_k_eq_v=False,
                 hidden_size_per_layer_input=0, num_kv_shared_layers=0, use_double_wide_mlp=False,
                 enable_moe_block=False, final_logit_softcapping=None, tie_word_embeddings=True)
    return {"model_type": "gemma4_text", **TOKENS, **sizes, **usual, **fields}


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
    # The last two layers have no keys of their own; 4 of the 8 elements of a head without window are rotated.
    "gemma4": gemma4(num_hidden_layers=4, num_kv_shared_layers=2, use_double_wide_mlp=True,
                     layer_types=["sliding_attention", "full_attention"] * 2, hidden_size_per_layer_input=3,
                     vocab_size_per_layer_input=18, final_logit_softcapping=3.0),
    "gemma4_experts": gemma4(attention_k_eq_v=True, enable_moe_block=True, num_experts=4, top_k_experts=2,
                             moe_intermediate_size=5),
    # The last layer has no keys of its own; the first one keeps the largest of its gate.
    "gemma3n": {"model_type": "gemma3n_text", **TOKENS, "vocab_size": 13, "hidden_size": 12, "intermediate_size": 6,
                "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 6,
                "max_position_embeddings": 64, "attention_dropout": 0.0, "hidden_activation": "gelu_pytorch_tanh",
                "sliding_window": 5, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "altup_num_inputs": 3,
                "altup_active_idx": 1, "altup_correct_scale": True, "altup_coef_clip": 120.0, "laurel_rank": 3,
                "layer_types": ["sliding_attention", "full_attention", "full_attention"], "num_kv_shared_layers": 1,
                "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 13, "final_logit_softcapping": 3.0,
                "activation_sparsity_pattern": [0.6, 0.0, 0.0],
                "rope_parameters": dict(full_attention=dict(rope_type="default", rope_theta=1e6),
                                        sliding_attention=dict(rope_type="default", rope_theta=10000.0))},
    "phi3": decoder("phi3", sliding_window=6, resid_pdrop=0.0, embd_pdrop=0.0, num_key_value_heads=4,
                    original_max_position_embeddings=64, **rope()),
    # Rotated are 4 of a head's 6 elements.
    "phi3_partial": decoder("phi3", resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None, tie_word_embeddings=True,
                            original_max_position_embeddings=64, partial_rotary_factor=0.75,
                            **rope(partial_rotary_factor=0.75)),
    # Most logits of the router are near the best; the factors are those beyond the original context.
    "phimoe": decoder("phimoe", hidden_size=16, intermediate_size=5, vocab_size=19, num_hidden_layers=1,
                      num_local_experts=5, num_experts_per_tok=2, router_jitter_noise=0.4, input_jitter_noise=0.0,
                      attention_bias=True, lm_head_bias=True, sliding_window=None, output_router_logits=False,
                      rms_norm_eps=1e-5,
                      **rope(kind="longrope", short_factor=[1.0, 1.3], long_factor=[1.0, 2.5], short_mscale=1.2,
                             long_mscale=1.2, original_max_position_embeddings=64)),
    "dbrx": {"model_type": "dbrx", **TOKENS, "vocab_size": 19, "d_model": 16, "n_heads": 4, "n_layers": 1,
             "max_seq_len": 64, "resid_pdrop": 0.0, "emb_pdrop": 0.0, "output_router_logits": False,
             "attn_config": dict(kv_n_heads=2, clip_qkv=0.9, rope_theta=10000.0, attn_pdrop=0.0),
             "ffn_config": dict(ffn_hidden_size=7, hidden_size=16, moe_num_experts=5, moe_top_k=3,
                                ffn_act_fn=dict(name="silu"), moe_jitter_eps=None, moe_loss_weight=0.05,
                                moe_normalize_expert_weights=1.0), **rope()},
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
    "qwen3_moe_mixed": decoder("qwen3_moe", head_dim=8, moe_intermediate_size=7, num_experts=4,
                               num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1],
                               output_router_logits=False, use_sliding_window=False,
                               **rope(1e4, "yarn", **YARN, truncate=False)),
    "qwen2_moe_windows": decoder("qwen2_moe", hidden_size=12, intermediate_size=7, vocab_size=19,
                                 num_attention_heads=2, num_key_value_heads=2, moe_intermediate_size=5, num_experts=3,
                                 num_experts_per_tok=2, shared_expert_intermediate_size=4, norm_topk_prob=False,
                                 decoder_sparse_step=1, mlp_only_layers=[], output_router_logits=False,
                                 use_sliding_window=True, max_window_layers=2, **SLIDING, **rope(1e6)),
    "qwen3_moe_windows": decoder("qwen3_moe", hidden_size=12, intermediate_size=7, vocab_size=19, num_hidden_layers=1,
                                 num_attention_heads=2, num_key_value_heads=1, head_dim=6, moe_intermediate_size=5,
                                 num_experts=3, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1,
                                 mlp_only_layers=[], output_router_logits=False, use_sliding_window=True,
                                 sliding_window=4, **rope(1e6)),
    "llama_dynamic": decoder("llama", num_hidden_layers=1, max_position_embeddings=7, **rope(kind="dynamic", factor=2.0)),
    "phi3_longrope": decoder("phi3", num_hidden_layers=1, resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None,
                             original_max_position_embeddings=9,
                             **rope(kind="longrope", short_factor=[1.0, 1.1, 1.2], long_factor=[1.0, 2.5, 4.0],
                                    original_max_position_embeddings=9)),
    "gemma": decoder("gemma", head_dim=10, num_key_value_heads=1, hidden_act="gelu_pytorch_tanh", **rope()),
    "olmo": decoder("olmo", clip_qkv=0.7, **rope()),
    "olmo3": decoder("olmo3", **SLIDING,
                     rope_parameters=dict(full_attention=dict(rope_type="yarn", rope_theta=20000.0, **YARN),
                                          sliding_attention=dict(rope_type="default", rope_theta=10000.0))),
    "olmoe": decoder("olmoe", intermediate_size=9, num_experts=5, num_experts_per_tok=3, norm_topk_prob=False,
                     output_router_logits=True, router_aux_loss_coef=0.1, clip_qkv=1.5, **rope()),
    "smollm3": decoder("smollm3", no_rope_layers=[1, 0], use_sliding_window=False, **rope(2e6)),
    "seed_oss": decoder("seed_oss", head_dim=10, attention_bias=True, attention_out_bias=False, residual_dropout=0.0,
                        **rope(1e7)),
    "ernie4_5": decoder("ernie4_5", head_dim=10, use_bias=True, tie_word_embeddings=True, **rope(500000.0)),
    "ernie4_5_moe": decoder("ernie4_5_moe", moe_intermediate_size=9, moe_num_experts=5, moe_k=2,
                            moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=-1,
                            moe_layer_interval=1, use_bias=False, tie_word_embeddings=True, **rope(500000.0)),
    "hunyuan": decoder("hunyuan_v1_dense", head_dim=8, tie_word_embeddings=True,
                       **rope(kind="dynamic", factor=1.0, alpha=20.0)),
    "exaone4": decoder("exaone4", **SLIDING, **rope(1e6)),
    "granite": decoder("granite", embedding_multiplier=3.0, logits_scaling=5.0, residual_multiplier=0.3,
                       attention_multiplier=0.2, attention_bias=True, tie_word_embeddings=True, **rope()),
    "granitemoe": decoder("granitemoe", intermediate_size=9, embedding_multiplier=3.0, logits_scaling=5.0,
                          residual_multiplier=0.3, attention_multiplier=0.2, num_local_experts=4, num_experts_per_tok=2,
                          output_router_logits=False, **rope()),
    # Queries grow from position 4 on.
    "ministral3": decoder("ministral3", head_dim=8, sliding_window=None,
                          **rope(1e4, "yarn", factor=16.0, original_max_position_embeddings=4, beta_fast=2.0,
                                 beta_slow=0.25, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
    "minimax_m2": decoder("minimax_m2", head_dim=8, intermediate_size=9, num_local_experts=5, num_experts_per_tok=2,
                          rotary_dim=4, output_router_logits=False,
                          **rope(5e6, partial_rotary_factor=0.5)),
    "glm": decoder("glm", head_dim=8, attention_bias=True, partial_rotary_factor=0.5, **rope(partial_rotary_factor=0.5)),
    "glm4": decoder("glm4", head_dim=8, attention_bias=True, partial_rotary_factor=0.5,
                    **rope(partial_rotary_factor=0.5)),
    "glm4_moe": decoder("glm4_moe", **MIXTURE, head_dim=8, attention_bias=True, use_qk_norm=True, n_shared_experts=1,
                        routed_scaling_factor=1.7, n_group=1, topk_group=1, norm_topk_prob=True,
                        partial_rotary_factor=0.5, **rope(partial_rotary_factor=0.5)),
    "deepseek": decoder("deepseek", **MIXTURE, num_key_value_heads=4, n_shared_experts=2, norm_topk_prob=False,
                        rope_theta=10000.0),
    # transformers looks at the keys that are rotated as complex numbers, which must lie at even addresses.
    "deepseek_v2": decoder("deepseek_v2", **MIXTURE, **{**MLA, "kv_lora_rank": 14}, q_lora_rank=None, n_shared_experts=2, n_group=4,
                           topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=1.3,
                           norm_topk_prob=False, **rope(1e4, "yarn", **YARN, mscale=0.7, mscale_all_dim=0.5)),
    "deepseek_v3": decoder("deepseek_v3", **MIXTURE, **MLA, q_lora_rank=11, n_shared_experts=1, n_group=4, topk_group=2,
                           routed_scaling_factor=2.5, norm_topk_prob=True, attention_bias=True,
                           **rope(1e4, "yarn", **YARN, mscale=1.0, mscale_all_dim=1.0)),
    # A query of 13 tokens keeps 5 of its keys.
    "deepseek_v32": decoder("deepseek_v32", **MIXTURE, **MLA, q_lora_rank=11, n_shared_experts=1, n_group=4, topk_group=2,
                            routed_scaling_factor=2.5, norm_topk_prob=True, index_n_heads=6, index_head_dim=7,
                            index_topk=5, **rope(1e4, "yarn", **YARN, mscale=1.0, mscale_all_dim=1.0)),
    "glm_moe_dsa": decoder("glm_moe_dsa", **MIXTURE, **MLA, q_lora_rank=11, n_shared_experts=1, n_group=1, topk_group=1,
                           routed_scaling_factor=1.7, norm_topk_prob=True, index_n_heads=6, index_head_dim=7,
                           index_topk=5, indexer_types=["full", "shared"], **rope()),
    # A query keeps two of five blocks, its own among them.
    "minimax_m3": decoder("minimax_m3_vl_text", head_dim=8, rotary_dim=4, intermediate_size=9, dense_intermediate_size=11,
                          shared_intermediate_size=7, num_local_experts=5, num_experts_per_tok=2,
                          routed_scaling_factor=1.7, swiglu_alpha=1.702, swiglu_limit=1.0, output_router_logits=False,
                          mlp_layer_types=["dense", "sparse"], layer_types=["minimax_m3_sparse", "full_attention"],
                          index_n_heads=2, index_head_dim=6, index_block_size=3, index_topk_blocks=2,
                          index_local_blocks=1, **rope(5e6, partial_rotary_factor=0.5)),
    # Windows of 4 tokens, entries of 2 and 5 tokens, of which a query keeps 3 of at most 6.
    "deepseek_v4": decoder("deepseek_v4", rms_norm_eps=1e-2, num_hidden_layers=3, num_key_value_heads=1, head_dim=8,
                           # transformers reads both as the width of an expert, and takes the first.
                           intermediate_size=7, moe_intermediate_size=7,
                           n_routed_experts=5, num_experts_per_tok=2, n_shared_experts=1, routed_scaling_factor=1.5,
                           swiglu_limit=1.0, scoring_func="sqrtsoftplus", q_lora_rank=11, qk_rope_head_dim=4,
                           sliding_window=4, o_groups=2, o_lora_rank=10, index_n_heads=6, index_head_dim=6, index_topk=3,
                           hc_mult=3, hc_sinkhorn_iters=4, hc_eps=1e-6, output_router_logits=False,
                           layer_types=["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
                           mlp_layer_types=["hash_moe", "moe", "moe"],
                           compress_rates=dict(compressed_sparse_attention=2, heavily_compressed_attention=5),
                           rope_parameters=dict(
                               main=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
                               compress=dict(YARN, rope_type="yarn", rope_theta=160000.0, partial_rotary_factor=0.5,
                                             attention_factor=1.0))),
    "minicpm3": decoder("minicpm3", **MLA, q_lora_rank=11, scale_emb=5, scale_depth=1.4, dim_model_base=8,
                        tie_word_embeddings=True,
                        **scaled("longrope", short_factor=[1.0, 1.2], long_factor=[1.0, 3.0],
                                 original_max_position_embeddings=64)),
    "gpt_oss": decoder("gpt_oss", head_dim=8, intermediate_size=9, sliding_window=5, num_local_experts=5,
                       num_experts_per_tok=2, layer_types=["sliding_attention", "full_attention"],
                       output_router_logits=False, attention_bias=True, swiglu_limit=7.0,
                       **rope(1e4, "yarn", **YARN, truncate=False)),
    # Chunks of 5 in a sequence of 13; queries grow from position 3 on.
    "llama4": decoder("llama4_text", head_dim=8, intermediate_size=9, intermediate_size_mlp=14,
                      num_local_experts=3, num_experts_per_tok=1, moe_layers=[1], interleave_moe_layer_step=2,
                      use_qk_norm=True, no_rope_layers=[1, 0], attention_chunk_size=5,
                      layer_types=["chunked_attention", "full_attention"], attn_temperature_tuning=True,
                      floor_scale=4, attn_scale=0.1, output_router_logits=False, rms_norm_eps=1e-5, **rope(500000.0)),
    "starcoder2": decoder("starcoder2", sliding_window=5, use_bias=True, hidden_act="gelu_pytorch_tanh",
                          embedding_dropout=0.0, residual_dropout=0.0, tie_word_embeddings=True, **rope()),
    "stablelm": decoder("stablelm", head_dim=None, num_key_value_heads=4, use_qkv_bias=True, qk_layernorm=False,
                        use_parallel_residual=False, hidden_dropout=0.0, partial_rotary_factor=0.34,
                        **rope(partial_rotary_factor=0.34)),
    "stablelm_norms": decoder("stablelm", head_dim=None, num_hidden_layers=1, use_qkv_bias=False, qk_layernorm=True,
                              use_parallel_residual=True, hidden_dropout=0.0, partial_rotary_factor=0.67,
                              **rope(partial_rotary_factor=0.67)),
    "cohere_norms": decoder("cohere", num_hidden_layers=1, logit_scale=0.25, use_qk_norm=True, tie_word_embeddings=True,
                            **rope()),
    "phi": decoder("phi", hidden_act="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, qk_layernorm=False,
                   partial_rotary_factor=0.67, **rope(partial_rotary_factor=0.67)),
    "gpt_neox": decoder("gpt_neox", num_key_value_heads=4, hidden_act="gelu", rotary_pct=0.34, hidden_dropout=0.0,
                        use_parallel_residual=True, attention_bias=True, tie_word_embeddings=False,
                        **rope(partial_rotary_factor=0.34)),
    "gpt_neox_in_turn": decoder("gpt_neox", num_hidden_layers=1, num_key_value_heads=4, hidden_act="gelu",
                                rotary_pct=1.0, hidden_dropout=0.0, use_parallel_residual=False, attention_bias=True,
                                tie_word_embeddings=False, **rope(partial_rotary_factor=1.0)),
    "gptj": gpt("gptj", rotary_dim=4, activation_function="gelu_new", tie_word_embeddings=False),
    "cohere": decoder("cohere", logit_scale=0.25, use_qk_norm=False, tie_word_embeddings=True, **rope()),
    "cohere2": decoder("cohere2", **SLIDING, logit_scale=0.25, tie_word_embeddings=True, **rope()),
    "falcon": decoder("falcon", multi_query=True, parallel_attn=True, new_decoder_architecture=False, alibi=False,
                      bias=False, hidden_dropout=0.0, ffn_hidden_size=31, activation="gelu", tie_word_embeddings=True,
                      **rope()),
    "falcon_new": decoder("falcon", num_hidden_layers=1, num_kv_heads=2, new_decoder_architecture=True, alibi=False,
                          bias=True, hidden_dropout=0.0, ffn_hidden_size=31, activation="gelu",
                          num_ln_in_parallel_attn=2, multi_query=True, parallel_attn=True, tie_word_embeddings=True,
                          **rope()),
    "opt": {"model_type": "opt", **TOKENS, **SIZES, "num_key_value_heads": 4, "ffn_dim": 19, "dropout": 0.0,
            "activation_function": "relu", "do_layer_norm_before": True, "word_embed_proj_dim": 24,
            "tie_word_embeddings": True},
    "gpt_bigcode": gpt("gpt_bigcode", multi_query=True, activation_function="gelu_pytorch_tanh"),
    "gpt_neo": {"model_type": "gpt_neo", **TOKENS, "vocab_size": 29, "hidden_size": 24, "num_layers": 2, "num_heads": 3,
                "attention_types": [[["global", "local"], 1]], "window_size": 5, "max_position_embeddings": 17,
                "intermediate_size": 19, "resid_dropout": 0.0, "embed_dropout": 0.0, "attention_dropout": 0.0,
                "activation_function": "gelu_new"},
    "bloom": {"model_type": "bloom", **TOKENS, "vocab_size": 17, "hidden_size": 12, "n_layer": 2, "n_head": 3,
              "hidden_dropout": 0.0, "attention_dropout": 0.0, "layer_norm_epsilon": 1e-5},
    "mpt": {"model_type": "mpt", **TOKENS, "vocab_size": 19, "d_model": 12, "n_layers": 2, "n_heads": 6,
            "max_seq_len": 31, "attn_config": dict(alibi=True, clip_qkv=1.1, softmax_scale=0.8, attn_pdrop=0)},
    "falcon_bias": decoder("falcon", num_hidden_layers=1, hidden_size=15, num_attention_heads=5, multi_query=False,
                           parallel_attn=False, new_decoder_architecture=False, alibi=True, bias=True,
                           hidden_dropout=0.0, ffn_hidden_size=13, activation="gelu", tie_word_embeddings=True,
                           **rope()),
    "baichuan_bias": {"model_type": "baichuan", **TOKENS, "vocab_size": 19, "hidden_size": 12, "intermediate_size": 7,
                      "num_hidden_layers": 1, "num_attention_heads": 3, "model_max_length": 64, "hidden_act": "silu",
                      "rms_norm_eps": 1e-6, "tie_word_embeddings": False},
    "bert": encoder("bert", num_hidden_layers=2, type_vocab_size=2),
    "roberta": encoder("roberta", num_hidden_layers=1, type_vocab_size=1, pad_token_id=1),
    "vit": {"model_type": "vit", "num_labels": 5, "hidden_size": 16, "intermediate_size": 9, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 11, "patch_size": 3, "num_channels": 2, "qkv_bias": True,
            "hidden_act": "gelu", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0},
    "minicpm": decoder("minicpm", scale_emb=5, scale_depth=1.4, dim_model_base=8, tie_word_embeddings=True,
                       rope_theta=10000.0),
    "internlm": decoder("internlm", num_key_value_heads=4, bias=True, rope_theta=10000.0),
    "internlm2": decoder("internlm2", bias=False, rope_theta=1000000.0),
    "qwen": decoder("qwen", num_key_value_heads=4, intermediate_size=38, layer_norm_epsilon=1e-6, rotary_emb_base=10000,
                    no_bias=True),
    "baichuan": decoder("baichuan", num_key_value_heads=4, rope_theta=10000.0),
    "orion": decoder("orion", rope_theta=10000.0),
    "hf_olmo": {"model_type": "hf_olmo", "embedding_size": 29, "vocab_size": 27, "d_model": 24, "n_heads": 3,
                "n_layers": 2, "mlp_hidden_size": 38, "max_sequence_length": 17, "rope": False, "alibi": False,
                "include_bias": True, "weight_tying": True, "layer_norm_with_affine": True},
    "molmo": {"model_type": "molmo", **MOLMO, "num_attention_heads": 4, "num_key_value_heads": 2, "qkv_bias": True},
    "molmo_after": {"model_type": "molmo", **MOLMO, "num_attention_heads": 3, "num_key_value_heads": 3,
                    "qkv_bias": False, "norm_after": True, "attention_layer_norm": True},
    "openmoe": decoder("openmoe", num_key_value_heads=4, num_hidden_layers=3, head_dim=8, intermediate_size=9,
                       hidden_act="swiglu", mlp_gated=True, num_experts=5, router_topk=2, moe_layer_interval=2),
    "chatglm": {"model_type": "chatglm", "padded_vocab_size": 29, "hidden_size": 24, "ffn_hidden_size": 19,
                "num_layers": 2, "num_attention_heads": 3, "multi_query_attention": True, "multi_query_group_num": 1,
                "kv_channels": 8, "seq_length": 64, "rope_ratio": 3, "add_qkv_bias": True, "add_bias_linear": False,
                "layernorm_epsilon": 1e-5, "rmsnorm": True, "tie_word_embeddings": False},
    "qwen3_next": decoder("qwen3_next", **DELTA, moe_intermediate_size=5, num_experts=4, num_experts_per_tok=2,
                          shared_expert_intermediate_size=7, norm_topk_prob=True, decoder_sparse_step=1,
                          mlp_only_layers=[1], output_router_logits=False, **rope(1e7, partial_rotary_factor=0.5)),
    "qwen3_5": decoder("qwen3_5_text", **dict(DELTA, linear_num_value_heads=2, linear_value_head_dim=6), tie_word_embeddings=True,
                       **rope(1e7, partial_rotary_factor=0.5, mrope_section=[1, 1, 0], mrope_interleaved=True)),
    "qwen3_5_moe": decoder("qwen3_5_moe_text", **DELTA, moe_intermediate_size=5, num_experts=4, num_experts_per_tok=2,
                           shared_expert_intermediate_size=7, output_router_logits=False,
                           **rope(1e7, partial_rotary_factor=0.5)),
    "nemotron_h": {**NEMOTRON, "hybrid_override_pattern": "M-M*", "num_hidden_layers": 4, "intermediate_size": 17,
                   "mlp_bias": True, "use_bias": True},
    "nemotron_h_moe": {**NEMOTRON, "hybrid_override_pattern": "ME*", "num_hidden_layers": 3, "n_routed_experts": 4,
                       "num_experts_per_tok": 2, "moe_intermediate_size": 5, "n_shared_experts": 1,
                       "moe_shared_expert_intermediate_size": 7, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
                       "n_group": 1, "topk_group": 1, "moe_latent_size": None, "mlp_bias": False, "use_bias": False},
    "nemotron_h_latent": {**NEMOTRON, "hybrid_override_pattern": "ME", "num_hidden_layers": 2, "n_routed_experts": 4,
                          "num_experts_per_tok": 2, "moe_intermediate_size": 5, "n_shared_experts": 1,
                          "moe_shared_expert_intermediate_size": 7, "routed_scaling_factor": 2.5,
                          "norm_topk_prob": True, "n_group": 1, "topk_group": 1, "moe_latent_size": 11,
                          "mlp_bias": False, "use_bias": False},
    "granite_hybrid": decoder("granitemoehybrid", **GRANITE, num_local_experts=0, num_experts_per_tok=0,
                              position_embedding_type="rope", mamba_proj_bias=True, **rope()),
    "granite_hybrid_moe": decoder("granitemoehybrid", **dict(GRANITE, intermediate_size=5), num_local_experts=4,
                                  num_experts_per_tok=2, output_router_logits=False, position_embedding_type="nope",
                                  mamba_proj_bias=False, **rope()),
    "mamba2": {"model_type": "mamba2", **TOKENS, "vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 2,
               "num_heads": 8, "head_dim": 6, "expand": 2, "n_groups": 2, "state_size": 5, "conv_kernel": 4,
               "use_bias": True, "use_conv_bias": False, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True},
    "falcon_h1": decoder("falcon_h1", **FALCON, mamba_rms_norm=False, mamba_norm_before_gate=True,
                         projectors_bias=False, time_step_limit=[0.4, 1.1], **rope(1e11)),
    "falcon_h1_norm": decoder("falcon_h1", **FALCON, mamba_rms_norm=True,
                              mamba_norm_before_gate=True, projectors_bias=True, mlp_bias=True, **rope(1e11)),
    "lfm2": decoder("lfm2", **CONVOLUTION, intermediate_size=27, block_auto_adjust_ff_dim=True, block_multiple_of=5,
                    block_ffn_dim_multiplier=1.0, conv_bias=True, **rope(1e6)),
    "lfm2_moe": decoder("lfm2_moe", **CONVOLUTION, moe_intermediate_size=5, num_experts=4, num_experts_per_tok=2,
                        num_dense_layers=1, use_expert_bias=True, norm_topk_prob=True, routed_scaling_factor=1.5,
                        conv_bias=False, **rope(1e6)),
}
