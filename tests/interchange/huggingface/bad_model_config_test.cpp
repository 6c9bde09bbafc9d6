// config.json files that are refused: each with a sentence that names the field.

#include <fstream>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/huggingface/config/config_fields.h"
#include "interchange/huggingface/model_config.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

std::string refusal(std::string_view text) {
  return error_of([&] { parse_model_config(parse_json_object(text, "c"), "test", {}, "c"); });
}
std::string refusal_of_llama(std::string_view fields) {
  return refusal("{\"model_type\": \"llama\", " + std::string(fields) + "}");
}

TEST(BadModelConfig, an_unknown_family_is_named_with_what_is_missing_and_the_nearest) {
  EXPECT_THAT(refusal(R"({"model_type": "rwkv"})"),
              AllOf(HasSubstr("'rwkv', a family that is not supported: it has recurrent layers"),
                    HasSubstr("docs/models.md lists the ")));
  EXPECT_THAT(refusal(R"({"model_type": "falcon_mamba"})"),
              HasSubstr("it has state-space layers of the first Mamba; docs/models.md lists"));
  EXPECT_THAT(refusal(R"({"model_type": "lama"})"), HasSubstr("the nearest is 'llama'"));
  EXPECT_THAT(refusal(R"({"hidden_size": 64})"), HasSubstr("is missing, and 'architectures', too"));
  EXPECT_THAT(refusal(R"({"model_type": "bart"})"), HasSubstr("it has a decoder that attends to an encoder"));
  EXPECT_THAT(refusal(R"({"model_type": 7})"), HasSubstr("it must be a string"));
}

TEST(BadModelConfig, of_openmoe_with_what_its_networks_do_not_have_is_refused) {
  const auto of = [](std::string_view fields) {
    return refusal("{\"architectures\": [\"OpenMoeForCausalLM\"], " + std::string(fields) + "}");
  };
  EXPECT_THAT(of(R"("hidden_act": "silu")"), HasSubstr("'hidden_act' is not swiglu"));
  EXPECT_THAT(of(R"("mlp_gated": false)"), HasSubstr("'mlp_gated' is false"));
  EXPECT_THAT(of(R"("topk": 33)"), HasSubstr("'topk' is 33, but a layer has 32 experts"));
  EXPECT_THAT(of(R"("moe_layer_interval": 25)"), HasSubstr("none would have experts"));
  EXPECT_THAT(of(R"("router_noisy_policy": "Jitter")"), HasSubstr("random noise at the router"));
}

TEST(BadModelConfig, of_molmo_with_other_norms_heads_or_widths_is_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "molmo", "layer_norm_type": "default"})"), HasSubstr("is not rms"));
  EXPECT_THAT(refusal(R"({"model_type": "molmo", "weight_tying": true})"), HasSubstr("'weight_tying' is true"));
  EXPECT_THAT(refusal(R"({"model_type": "molmo", "intermediate_size": 37})"), HasSubstr("so it is even"));
  EXPECT_THAT(refusal(R"({"model_type": "molmo", "clip_qkv": 8})"), HasSubstr("'clip_qkv' is 8"));
}

TEST(BadModelConfig, indexers_that_do_not_fit_are_refused) {
  const auto v32 = [](std::string_view fields) {
    return refusal("{\"model_type\": \"deepseek_v32\", " + std::string(fields) + "}");
  };
  EXPECT_THAT(v32(R"("index_head_dim": 32)"), HasSubstr("is 32, less than the 64 elements that are rotated"));
  EXPECT_THAT(v32(R"("q_lora_rank": null)"), HasSubstr("the indexer reads the low rank of queries"));
  EXPECT_THAT(v32(R"("index_topk": 0)"), HasSubstr("'index_topk' is 0"));
  const auto glm = [](std::string_view fields) {
    return refusal("{\"model_type\": \"glm_moe_dsa\", \"num_hidden_layers\": 4, \"first_k_dense_replace\": 1, " +
                   std::string(fields) + "}");
  };
  EXPECT_THAT(glm(R"("indexer_types": ["shared", "full", "full", "full"])"), HasSubstr("begins with a shared layer"));
  EXPECT_THAT(glm(R"("indexer_types": ["full", "half", "full", "full"])"), HasSubstr("entries are full or shared"));
  EXPECT_THAT(glm(R"("index_topk_pattern": "FXFF")"), HasSubstr("entries are full or shared"));
  EXPECT_THAT(glm(R"("index_topk_pattern": "F")"), HasSubstr("must be a list of 4 entries"));
  EXPECT_THAT(glm(R"("mlp_layer_types": ["dense", "sparse", "thin", "sparse"])"), HasSubstr("entries are \"sparse\""));
  EXPECT_THAT(glm(R"("mlp_layer_types": ["dense", "dense", "dense", "dense"])"), HasSubstr("no layer with experts"));
  const auto m3 = [](std::string_view fields) {
    return refusal(R"({"model_type": "minimax_m3_vl_text", "num_hidden_layers": 1, "layer_types":
        ["minimax_m3_sparse"], )" +
                   std::string(fields) + "}");
  };
  EXPECT_THAT(m3(R"("index_n_heads": 3)"), HasSubstr("neither one nor a head for each of the 4 of keys"));
  EXPECT_THAT(m3(R"("index_head_dim": 32)"), HasSubstr("less than the 64 elements that are rotated"));
  EXPECT_THAT(m3(R"("index_local_blocks": 17)"), HasSubstr("17 blocks that are kept always among 16"));
  EXPECT_THAT(m3(R"("rotary_dim": 7)"), HasSubstr("must be an even part of a head"));
  EXPECT_THAT(m3(R"("moe_layer_freq": [0])"), HasSubstr("names no layer with experts"));
  EXPECT_THAT(m3(R"("hidden_act": "gelu")"), HasSubstr("is neither silu nor swigluoai"));
  EXPECT_THAT(refusal(R"({"model_type": "minimax_m3_vl_text", "num_hidden_layers": 1, "layer_types": ["sparse"]})"),
              HasSubstr("full_attention and minimax_m3_sparse are supported"));
}

TEST(BadModelConfig, of_deepseek_v4_that_contradicts_itself_is_refused) {
  const auto of = [](std::string_view fields) {
    return refusal("{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 2, " + std::string(fields) + "}");
  };
  EXPECT_THAT(of(R"("compress_ratios": [4, 5])"), HasSubstr("entries are 0, 4 and 128"));
  EXPECT_THAT(of(R"("compress_ratios": [4])"), HasSubstr("must be a list of 2 entries"));
  EXPECT_THAT(of(R"("qk_rope_head_dim": 130)"), HasSubstr("must be an even part of index_head_dim, 128"));
  EXPECT_THAT(of(R"("o_groups": 7)"), HasSubstr("does not divide the 64 heads"));
  EXPECT_THAT(of(R"("num_key_value_heads": 2)"), HasSubstr("is not 1; one head"));
  EXPECT_THAT(of(R"("mlp_layer_types": ["moe", "hash_moe"])"), HasSubstr("the first layers are hash_moe"));
  EXPECT_THAT(of(R"("scoring_func": "relu")"), HasSubstr("is neither sqrtsoftplus nor softmax nor sigmoid"));
  EXPECT_THAT(of(R"("num_experts_per_tok": 257)"), HasSubstr("a layer has 256 experts"));
  EXPECT_THAT(of(R"("norm_topk_prob": false)"), HasSubstr("divides the weights always"));
  EXPECT_THAT(of(R"("n_shared_experts": 2)"), HasSubstr("'n_shared_experts' is not 1"));
}

TEST(BadModelConfig, heads_that_divide_nothing_are_refused) {
  EXPECT_THAT(refusal_of_llama(R"("num_attention_heads": 7)"), HasSubstr("does not divide the width 4096"));
  EXPECT_THAT(refusal_of_llama(R"("num_key_value_heads": 5)"), HasSubstr("'num_key_value_heads' is 5 and does not"));
  EXPECT_THAT(refusal_of_llama(R"("head_dim": 33)"), HasSubstr("rotary embedding needs an even one"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma3_text", "head_dim": 7, "rope_parameters": {"full_attention": {}}})"),
              HasSubstr("rotary embedding needs an even one"));
  EXPECT_THAT(refusal(R"({"model_type": "gpt2", "n_head": 7})"), HasSubstr("does not divide n_embd, 768"));
}

TEST(BadModelConfig, sizes_that_contradict_each_other_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "mixtral", "num_experts_per_tok": 9})"), HasSubstr("has 8 experts"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_moe", "num_experts": 5, "num_local_experts": 6})"),
              HasSubstr("'num_local_experts' is 6, and num_experts is another number"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma2", "layer_types": ["full_attention"]})"),
              HasSubstr("a list of 26 entries, one a layer"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma2", "sliding_window": null, "num_hidden_layers": 1,
                          "layer_types": ["sliding_attention"]})"),
              HasSubstr("no sliding_window"));
  EXPECT_THAT(refusal(R"({"model_type": "phi3", "partial_rotary_factor": 0.01})"), HasSubstr("an even part"));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                                                   "high_freq_factor": 4})"),
              HasSubstr("'rope_scaling.high_freq_factor' is 4; it must be above low_freq_factor, 4"));
}

TEST(BadModelConfig, layers_that_share_keys_need_some_before_them) {
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "num_kv_shared_layers": 30})"),
              HasSubstr("'num_kv_shared_layers' is 30, but there are 30 layers"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "num_kv_shared_layers": 25})"),
              HasSubstr("layer 5 has no keys of its own, and no layer before it without a window has any"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "attention_k_eq_v": true, "num_global_key_value_heads": 3})"),
              HasSubstr("'num_global_key_value_heads' is 3 and does not divide the 8 heads"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "num_hidden_layers": 2,
                          "per_layer_config": {"0": {"head_dim": 8}, "1": {"head_dim": 16}}})"),
              HasSubstr("'per_layer_config' has other heads for layer 0"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "enable_moe_block": true})"),
              HasSubstr("'num_experts' is missing; enable_moe_block needs it"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "use_bidirectional_attention": "all"})"),
              HasSubstr("attention to later tokens"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma4_text", "rope_parameters": {"full_attention": {
                          "rope_type": "proportional", "partial_rotary_factor": 0.001}}})"),
              HasSubstr("it must rotate a part of heads"));
}

TEST(BadModelConfig, mixtures_that_are_not_computed_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "phimoe", "num_experts_per_tok": 3})"), HasSubstr("SparseMixer chooses 2"));
  EXPECT_THAT(refusal(R"({"model_type": "phimoe", "rope_scaling": {"type": "linear", "factor": 2}})"),
              HasSubstr("'rope_scaling.short_mscale' is missing"));
  EXPECT_THAT(refusal(R"({"model_type": "dbrx", "ffn_config": {"moe_top_k": 5}})"),
              HasSubstr("'ffn_config.moe_top_k' is 5, but a layer has 4 experts"));
  EXPECT_THAT(refusal(R"({"model_type": "dbrx", "ffn_config": {"moe_normalize_expert_weights": 2}})"),
              HasSubstr("'ffn_config.moe_normalize_expert_weights' is not 1"));
  EXPECT_THAT(refusal(R"({"model_type": "dbrx", "attn_config": {"kv_n_heads": 3}})"),
              HasSubstr("'attn_config.kv_n_heads' is 3 and does not divide the 16 heads"));
}

TEST(BadModelConfig, linear_bias_that_is_not_computed_is_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "bloom", "apply_residual_connection_post_layernorm": true})"),
              HasSubstr("residuals after the norm"));
  EXPECT_THAT(refusal(R"({"model_type": "falcon", "apply_residual_connection_post_layernorm": true})"),
              HasSubstr("residuals after the norm are not supported"));
  EXPECT_THAT(refusal(R"({"model_type": "mpt", "attn_config": {"alibi": false}})"),
              HasSubstr("'attn_config.alibi' is false"));
  EXPECT_THAT(refusal(R"({"model_type": "mpt", "expansion_ratio": 2})"), HasSubstr("'expansion_ratio' is not 4"));
  EXPECT_THAT(refusal(R"({"model_type": "mpt", "n_heads": 7})"), HasSubstr("does not divide the width 2048"));
  EXPECT_THAT(refusal(R"({"model_type": "falcon", "alibi": true})"), HasSubstr("multi_query is not supported"));
}

TEST(BadModelConfig, encoders_that_are_not_computed_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "bert", "position_embedding_type": "relative_key"})"),
              HasSubstr("relative positions"));
  EXPECT_THAT(refusal(R"({"model_type": "bert", "is_decoder": true})"), HasSubstr("'is_decoder' is true"));
  EXPECT_THAT(refusal(R"({"model_type": "bert", "tie_word_embeddings": false})"),
              HasSubstr("the head of this family is the embedding"));
  EXPECT_THAT(refusal(R"({"model_type": "roberta", "max_position_embeddings": 2})"),
              HasSubstr("positions begin at 2, after that of pad_token_id"));
}

TEST(BadModelConfig, images_without_a_patch_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "vit", "image_size": 8, "patch_size": 9})"),
              HasSubstr("'patch_size' is 9, but images have 8 pixels a side"));
  EXPECT_THAT(refusal(R"({"model_type": "vit", "image_size": [8, 9]})"), HasSubstr("two equal ones"));
  EXPECT_THAT(refusal(R"({"model_type": "vit", "image_size": 1099511627776})"), HasSubstr("from 1 to 65536"));
}

TEST(BadModelConfig, streams_that_are_not_there_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "gemma3n_text", "altup_active_idx": 4})"), HasSubstr("one of them active"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma3n_text", "altup_num_inputs": 1})"), HasSubstr("two or more"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma3n_text", "activation_sparsity_pattern": [0.5]})"),
              HasSubstr("a list of 35 entries, one a layer"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma3n_text", "num_hidden_layers": 2, "num_kv_shared_layers": 0,
                          "intermediate_size": [8, 16]})"),
              HasSubstr("a list of 2 equal ones"));
}

TEST(BadModelConfig, absurd_sizes_are_refused_and_overflow_nothing) {
  EXPECT_THAT(refusal_of_llama(R"("hidden_size": 1099511627776, "num_attention_heads": 1)"),
              AllOf(StartsWith("c: "), HasSubstr("parameter")));
  EXPECT_THAT(refusal_of_llama(R"("vocab_size": 18446744073709551615)"),
              HasSubstr("'vocab_size' is 18446744073709551615"));
  EXPECT_THAT(refusal_of_llama(R"("vocab_size": 1e400)"), HasSubstr("number that no type holds"));
  EXPECT_THAT(refusal_of_llama(R"("vocab_size": 1e30)"), HasSubstr("must be an integer from 1"));
  EXPECT_THAT(refusal_of_llama(R"("num_hidden_layers": 100000000)"), HasSubstr("from 1 to 4096"));
  EXPECT_THAT(refusal_of_llama(R"("num_hidden_layers": 0)"), HasSubstr("'num_hidden_layers' is 0"));
  EXPECT_THAT(refusal_of_llama(R"("num_hidden_layers": -3)"), HasSubstr("'num_hidden_layers' is -3"));
  EXPECT_THAT(refusal_of_llama(R"("rms_norm_eps": -1)"), HasSubstr("a number above 0"));
}

TEST(BadModelConfig, fields_of_other_types_are_refused) {
  EXPECT_THAT(refusal_of_llama(R"("vocab_size": "32000")"), HasSubstr(R"(is "32000"; it must be an integer)"));
  EXPECT_THAT(refusal_of_llama(R"("hidden_size": null)"), HasSubstr("'hidden_size' is null; it must be an integer"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma3", "text_config": "x"})"),
              HasSubstr("'text_config' is a value of the type string; it must be an object"));
  EXPECT_THAT(refusal_of_llama(R"("tie_word_embeddings": 1)"), HasSubstr("must be true or false"));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": [1])"), HasSubstr("must be an object"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma2", "layer_types": 3})"), HasSubstr("must be a list"));
}

TEST(BadModelConfig, fields_that_change_the_computation_are_refused) {
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"rope_type": "proportional", "factor": 4})"),
              AllOf(HasSubstr("'proportional'"), HasSubstr("yarn, longrope and dynamic are")));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"rope_type": "linear"})"), HasSubstr("needs it"));
  EXPECT_THAT(refusal_of_llama(R"("quantization_config": {"bits": 4})"), HasSubstr("quantised weights"));
  EXPECT_THAT(refusal_of_llama(R"("hidden_act": "geglu")"), HasSubstr("'geglu', an activation that is not supported"));
  EXPECT_THAT(refusal_of_llama(R"("partial_rotary_factor": 0.5)"), HasSubstr("rotate whole heads"));
  EXPECT_THAT(refusal(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})"),
              HasSubstr("'scale_attn_by_inverse_layer_idx'"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["linear_attention"]})"),
              HasSubstr("'linear_attention'"));
}

TEST(BadModelConfig, a_field_of_another_family_is_refused_by_name) {
  EXPECT_THAT(refusal_of_llama(R"("num_experts": 32)"),
              HasSubstr("'num_experts' is 32; models of the family llama have nothing of that kind"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3", "kv_lora_rank": 512})"), HasSubstr("'kv_lora_rank' is 512"));
  EXPECT_THAT(refusal(R"({"model_type": "mistral", "logit_scale": 0.5})"), HasSubstr("'logit_scale' is 0.5"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma3_text", "num_kv_shared_layers": 10})"),
              HasSubstr("'num_kv_shared_layers' is 10"));
  EXPECT_EQ(refusal_of_llama(R"("num_experts": 0, "clip_qkv": null)"), "");
}

TEST(BadModelConfig, scaling_without_its_fields_is_refused) {
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"rope_type": "yarn"})"),
              HasSubstr("'rope_scaling.factor' is missing; rope_type yarn needs it"));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"rope_type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 9})"),
              HasSubstr("'rope_scaling.beta_fast' is 1; it must not be below beta_slow, 9"));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"type": "longrope"})"),
              HasSubstr("'rope_scaling.short_factor' must be a list of factors"));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"type": "su", "short_factor": [1], "long_factor": [-1]})"),
              HasSubstr("'rope_scaling.long_factor' has the entry -1"));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"type": "su", "short_factor": [1, 2], "long_factor": [1, 2]})"),
              HasSubstr("has 2 factors for the 64 pairs"));
  EXPECT_THAT(refusal_of_llama(R"("rope_scaling": {"rope_type": "dynamic"})"), HasSubstr("rope_type dynamic needs it"));
}

TEST(BadModelConfig, layer_lists_that_contradict_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "smollm3", "no_rope_layers": [1, 0]})"),
              HasSubstr("'no_rope_layers' must be a list of 36 entries"));
  EXPECT_THAT(refusal(R"({"model_type": "smollm3", "num_hidden_layers": 1, "no_rope_layers": [3]})"),
              HasSubstr("has the entry 3; entries are 0 or 1"));
  EXPECT_THAT(refusal(R"({"model_type": "llama4", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]})"),
              HasSubstr("full_attention and chunked_attention are supported"));
  EXPECT_THAT(refusal(R"({"model_type": "llama4_text", "moe_layers": [48]})"), HasSubstr("names the layer 48"));
  EXPECT_THAT(refusal(R"({"model_type": "llama4_text", "moe_layers": []})"), HasSubstr("leave none of the 48 layers"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_moe", "mlp_only_layers": [24]})"), HasSubstr("names the layer 24"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_moe", "decoder_sparse_step": 25})"),
              HasSubstr("leave no layer with experts"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v3", "first_k_dense_replace": 61})"),
              HasSubstr("'first_k_dense_replace' is 61, but there are 61 layers"));
  EXPECT_THAT(refusal(R"({"model_type": "gpt_neo", "attention_types": [[["local"], 1]]})"),
              HasSubstr("has 1 layers; there are 24"));
  EXPECT_THAT(refusal(R"({"model_type": "gpt_neo", "attention_types": [[["local"], 18446744073709551615]]})"),
              HasSubstr("has more layers than the 24"));
  EXPECT_THAT(refusal(R"({"model_type": "exaone4", "sliding_window_pattern": "LX"})"), HasSubstr("letters L and G"));
}

TEST(BadModelConfig, layers_that_carry_a_state_and_contradict_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_next", "num_hidden_layers": 2, "layer_types": ["full_attention"]})"),
              HasSubstr("'layer_types' must be a list of 2 entries"));
  EXPECT_THAT(
      refusal(R"({"model_type": "qwen3_5", "text_config": {"num_hidden_layers": 1, "layer_types": ["mamba"]}})"),
      HasSubstr("kind 'mamba'; this family has linear_attention, full_attention"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_next", "linear_num_key_heads": 5})"),
              HasSubstr("the 5 heads of keys do not divide the 32 heads of values"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_5_text", "hidden_act": "gelu"})"), HasSubstr("with silu alone"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen3_5_text", "attn_output_gate": false})"),
              HasSubstr("'attn_output_gate' is false"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M*X"})"),
              HasSubstr("a layer of kind 'X'; there are M (mamba)"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M*", "num_hidden_layers": 3})"),
              HasSubstr("'num_hidden_layers' is 3, but 2 layers are described: M*"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "M*",
                          "layers_block_type": ["mamba", "mlp"]})"),
              HasSubstr("says M-, and hybrid_override_pattern M*"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "E", "num_experts_per_tok": 9})"),
              HasSubstr("has 8 experts"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "moe_latent_size": 0})"), HasSubstr("'moe_latent_size'"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "n_groups": 7})"),
              HasSubstr("the 7 heads of keys do not divide"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "time_step_limit": [0.5, 0.1]})"),
              HasSubstr("steps of at least 0.5 and at most 0.1"));
  EXPECT_THAT(refusal(R"({"model_type": "nemotron_h", "time_step_limit": [0.0]})"),
              HasSubstr("the least and the most"));
  EXPECT_THAT(refusal(R"({"model_type": "granitemoehybrid", "mamba_n_heads": 7})"),
              HasSubstr("'mamba_n_heads' is 7 and does not divide the width 8192"));
  EXPECT_THAT(refusal(R"({"model_type": "granitemoehybrid", "mamba_d_head": 32})"),
              HasSubstr("'mamba_d_head' is 32; 128 heads of that size"));
  EXPECT_THAT(refusal(R"({"model_type": "mamba2", "expand": 3})"), HasSubstr("is not the width of 128 heads of 64"));
  EXPECT_THAT(refusal(R"({"model_type": "falcon_h1", "ssm_multipliers": [1.0]})"), HasSubstr("a list of 5 factors"));
  EXPECT_THAT(refusal(R"({"model_type": "falcon_h1", "mlp_multipliers": [1.0, 0]})"), HasSubstr("has the entry 0"));
  EXPECT_THAT(refusal(R"({"model_type": "lfm2", "full_attn_idxs": [32]})"), HasSubstr("names the layer 32"));
  EXPECT_THAT(refusal(R"({"model_type": "lfm2", "num_hidden_layers": 2, "full_attn_idxs": [0],
                          "layer_types": ["conv", "full_attention"]})"),
              HasSubstr("layer_types say different things of layer 0"));
  EXPECT_THAT(refusal(R"({"model_type": "falcon_h1", "mamba_d_state": 1099511627776, "mamba_n_groups": 1099511627776,
                          "mamba_n_heads": 1099511627776})"),
              HasSubstr("c: "));
  EXPECT_THAT(refusal(R"({"model_type": "llama", "conv_L_cache": 3})"), HasSubstr("'conv_L_cache' is 3"));
}

TEST(BadModelConfig, mixtures_and_ranks_that_do_not_fit_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v3", "num_experts_per_tok": 257})"), HasSubstr("has 256 experts"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v3", "n_group": 7})"), HasSubstr("groups of 256 experts"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v3", "topk_group": 9})"), HasSubstr("9 of 8 groups"));
  EXPECT_THAT(refusal(R"({"model_type": "gpt_oss", "num_experts_per_tok": 129})"), HasSubstr("has 128 experts"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v2", "kv_lora_rank": 100000})"),
              HasSubstr("'kv_lora_rank' is 100000, more than 8192, the width of all keys and values"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v2", "q_lora_rank": 100000})"),
              HasSubstr("the width of all queries"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v2", "v_head_dim": 193})"),
              HasSubstr("'v_head_dim' is 193, more than 192"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v2", "qk_rope_head_dim": 63})"), HasSubstr("is 63; it must be even"));
  EXPECT_THAT(refusal(R"({"model_type": "deepseek_v3", "kv_lora_rank": 1099511627776, "v_head_dim": 1099511627776})"),
              HasSubstr("c: "));
}

TEST(BadModelConfig, a_model_with_images_needs_a_text_model_that_is_known) {
  EXPECT_THAT(refusal(R"({"model_type": "llava", "text_config": {"model_type": "mamba"}, "vision_config": {}})"),
              HasSubstr("'mamba', a family that is not supported: it has state-space layers"));
  EXPECT_THAT(refusal(R"({"model_type": "internvl_chat", "llm_config": {"model_type": "mamba"}})"),
              HasSubstr("'mamba', a family that is not supported: it has state-space layers of the first Mamba"));
  EXPECT_THAT(refusal(R"({"model_type": "internvl_chat", "llm_config": 3})"), HasSubstr("must be an object"));
  EXPECT_THAT(refusal(R"({"model_type": "internvl_chat"})"), HasSubstr("'model_type' is missing"));
  EXPECT_THAT(refusal(R"({"architectures": ["UnknownForCausalLM"]})"),
              HasSubstr(R"(names no class that is known: ["UnknownForCausalLM"])"));
}

TEST(BadModelConfig, text_that_is_no_json_object_is_refused) {
  EXPECT_EQ(refusal("{\"model_type\": \"llama\","), "c is not JSON at byte 24");
  EXPECT_EQ(refusal("[1, 2]"), "c holds no JSON object, but a value of the type array");
  EXPECT_THAT(refusal(""), HasSubstr("is not JSON"));
}

TEST(BadModelConfig, deep_json_is_refused) {
  const std::string deep = "{\"model_type\": " + std::string(3'000'000, '[') + "}";
  EXPECT_EQ(refusal(deep), "c is nested deeper than 64 levels");
}

TEST(BadModelConfig, a_long_string_is_quoted_in_part) {
  EXPECT_LT(refusal("{\"model_type\": \"" + std::string(3'000'000, 'x') + "\"}").size(), 600U);
  EXPECT_LT(refusal_of_llama("\"hidden_act\": \"" + std::string(3'000'000, 'x') + "\"").size(), 600U);
  EXPECT_LT(refusal_of_llama("\"vocab_size\": \"" + std::string(3'000'000, 'x') + "\"").size(), 600U);
}

TEST(BadModelConfig, a_file_of_a_gigabyte_is_refused_before_it_is_read) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", "{");
  std::filesystem::resize_file(folder / "config.json", std::uintmax_t{1} << 30);
  EXPECT_THAT(error_of([&] { read_model_config(folder.path()); }), HasSubstr("config.json"));
}

TEST(BadModelConfig, a_folder_without_config_json_is_refused) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { read_model_config(folder.path()); }), EndsWith("has no config.json"));
  EXPECT_THAT(error_of([&] { read_model_config(folder / "missing.json"); }), HasSubstr("there is no file"));
  write_file(folder / "model.safetensors", "");
  EXPECT_THAT(error_of([&] { read_model_config(folder / "model.safetensors"); }),
              HasSubstr("there is no config.json beside"));
}

TEST(BadModelConfig, messages_name_the_file) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", R"({"model_type": "llama", "vocab_size": 0})");
  EXPECT_THAT(error_of([&] { read_model_config(folder.path()); }),
              StartsWith("'" + (folder / "config.json").string() + "': 'vocab_size' is 0"));
}

}  // namespace
}  // namespace ridgepoint
