// What config.json files of each family mean: sizes and architecture.
#include "interchange/huggingface/model_config.h"

#include <fmt/format.h>

#include <cmath>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/huggingface/config_text.h"
#include "interchange/huggingface/families/family.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::config_of;
using testing::parse;

// A list of ones.
std::string factors(std::size_t count) { return dump_json(Json(std::vector<double>(count, 1.0))); }

TEST(ModelConfig, of_gpt2_has_layer_norms_biases_learned_positions_and_a_tied_head) {
  const TransformerConfig c = config_of(
      R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
          "n_ctx": 1024, "activation_function": "gelu_new", "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})");
  EXPECT_EQ(c.d_ff, 3072);
  EXPECT_EQ(c.architecture.family, "gpt2");
  EXPECT_EQ(c.architecture.norm, Norm::layer_norm);
  EXPECT_EQ(c.architecture.activation, Activation::gelu_tanh);
  EXPECT_EQ(c.architecture.positions, Positions::learned);
  EXPECT_EQ(c.architecture.max_context, 1024);
  EXPECT_FALSE(c.architecture.gated);
  EXPECT_TRUE(c.architecture.projection_bias && c.architecture.output_bias && c.architecture.feed_forward_bias);
  EXPECT_TRUE(c.architecture.tied_head);
  EXPECT_EQ(parameter_count(c), 124'439'808);
}

TEST(ModelConfig, of_llama_3_1_has_grouped_heads_and_the_scaling_of_its_rotary_embedding) {
  const TransformerConfig c = config_of(
      R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "rms_norm_eps": 1e-05,
          "max_position_embeddings": 131072, "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
          "rope_type": "llama3"}})");
  EXPECT_EQ(c.kv_heads(), 8);
  EXPECT_EQ(c.architecture.rotary, (Rotary{.theta = 500000,
                                           .scaling = RotaryScaling::llama3,
                                           .factor = 8,
                                           .low_frequency_factor = 1,
                                           .high_frequency_factor = 4,
                                           .original_context = 8192}));
  EXPECT_EQ(parameter_count(c), 8'030'261'248);
}

// The models that it is for were pretrained with so many tokens; the longer context is what scaling makes of them.
TEST(ModelConfig, of_llama_3_has_the_usual_scaling_where_the_file_does_not_say_it) {
  const TransformerConfig c = config_of(
      R"({"model_type": "llama", "max_position_embeddings": 131072,
          "rope_scaling": {"rope_type": "llama3", "factor": 8.0}})");
  EXPECT_EQ(c.architecture.rotary.original_context, 8192);
  EXPECT_EQ(c.architecture.rotary.low_frequency_factor, 1);
  EXPECT_EQ(c.architecture.rotary.high_frequency_factor, 4);
}

TEST(ModelConfig, reads_the_fields_that_transformers_5_renamed) {
  const TransformerConfig c = config_of(
      R"({"model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}})");
  EXPECT_EQ(c.architecture.rotary, (Rotary{.theta = 5000, .scaling = RotaryScaling::linear, .factor = 2}));
}

TEST(ModelConfig, of_llama_2_with_the_old_name_of_the_scaling) {
  const TransformerConfig c = config_of(R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 4}})");
  EXPECT_EQ(c.architecture.rotary.scaling, RotaryScaling::linear);
  EXPECT_EQ(c.architecture.rotary.factor, 4);
}

TEST(ModelConfig, of_mistral_has_a_window_in_every_layer_unless_it_is_null) {
  const TransformerConfig c = config_of(R"({"model_type": "mistral"})");
  EXPECT_EQ(c.architecture.window, 4096);
  EXPECT_THAT(c.architecture.window_layers, IsEmpty());
  EXPECT_EQ(parameter_count(c), 7'241'732'096);
  EXPECT_EQ(config_of(R"({"model_type": "mistral", "sliding_window": null})").architecture.window, 0);
}

TEST(ModelConfig, of_qwen2_has_biases_and_windows_only_if_asked_for) {
  const char* sizes =
      R"("model_type": "qwen2", "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
         "hidden_size": 64, "intermediate_size": 128, "sliding_window": 16, "max_window_layers": 3)";
  const TransformerConfig c = config_of("{" + std::string(sizes) + "}");
  EXPECT_TRUE(c.architecture.projection_bias);
  EXPECT_FALSE(c.architecture.output_bias);
  EXPECT_EQ(c.architecture.window, 0);
  const TransformerConfig windows = config_of("{\"use_sliding_window\": true, " + std::string(sizes) + "}");
  EXPECT_EQ(windows.architecture.window, 16);
  EXPECT_THAT(windows.architecture.window_layers, ElementsAre(false, false, false, true));
}

TEST(ModelConfig, of_qwen3_has_norms_of_queries_and_keys_and_a_head_size_of_its_own) {
  const TransformerConfig c = config_of(
      R"({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
          "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": true})");
  EXPECT_EQ(c.architecture.projection_norm, ProjectionNorm::per_head);
  EXPECT_EQ(c.head_size(), 128);
  EXPECT_EQ(parameter_count(c), 596'049'920);
}

// transformers 5.10 and later write them so.
TEST(ModelConfig, of_qwen_moe_has_windows_in_every_layer_or_in_every_second_one) {
  const char* sizes = R"("num_hidden_layers": 6, "sliding_window": 16, "use_sliding_window": true)";
  const auto layers_of = [&](const char* family, const char* more) {
    return config_of(fmt::format(R"({{"model_type": "{}", {}{}}})", family, sizes, more)).architecture.window_layers;
  };
  EXPECT_THAT(layers_of("qwen3_moe", ""), IsEmpty());
  EXPECT_THAT(layers_of("qwen2_moe", ""), ElementsAre(true, false));
  EXPECT_THAT(layers_of("qwen2_moe", R"(, "max_window_layers": 1)"),
              ElementsAre(true, false, false, false, false, false));
  EXPECT_EQ(config_of(R"({"model_type": "qwen3_moe"})").architecture.window, 0);
}

TEST(ModelConfig, of_dbrx_has_its_fields_in_objects) {
  const TransformerConfig c = config_of(R"({"model_type": "dbrx", "n_heads": 16, "d_model": 2048,
      "attn_config": {"kv_n_heads": 4, "clip_qkv": 8, "rope_theta": 500000},
      "ffn_config": {"ffn_hidden_size": 100, "moe_num_experts": 6, "moe_top_k": 2, "moe_normalize_expert_weights": null}})");
  EXPECT_EQ(c.kv_heads(), 4);
  EXPECT_EQ(c.architecture.projection_limit, 8);
  EXPECT_EQ(c.architecture.rotary.theta, 500000);
  EXPECT_EQ(c.d_ff, 100);
  EXPECT_EQ(c.architecture.experts.per_token, 2);
  EXPECT_FALSE(c.architecture.experts.normalised);
}

TEST(ModelConfig, has_linear_bias_of_scores_where_positions_are_none) {
  const TransformerConfig bloom = config_of(R"({"model_type": "bloom", "n_embed": 64, "n_layer": 3,
      "num_attention_heads": 4, "seq_length": 128, "offset_alibi": 100})");
  EXPECT_EQ(bloom.architecture.positions, Positions::linear_bias);
  EXPECT_TRUE(bloom.architecture.embedding_norm && bloom.architecture.tied_head);
  EXPECT_EQ(bloom.d_model, 64);
  EXPECT_EQ(bloom.d_ff, 256);
  const Architecture mpt =
      config_of(R"({"model_type": "mpt", "attn_config": {"softmax_scale": 0.5, "clip_qkv": 6}})").architecture;
  EXPECT_EQ(mpt.query_scale, 0.5);
  EXPECT_EQ(mpt.projection_limit, 6);
  const Architecture falcon =
      config_of(R"({"model_type": "falcon", "alibi": true, "multi_query": false})").architecture;
  EXPECT_TRUE(falcon.positions == Positions::linear_bias && falcon.low_bias);
}

TEST(ModelConfig, of_encoders_sees_later_tokens_and_has_a_transform_before_its_head) {
  const Architecture bert = config_of(R"({"model_type": "bert"})").architecture;
  EXPECT_FALSE(bert.is_causal || bert.final_norm);
  EXPECT_EQ(bert.placement, NormPlacement::of_sums);
  EXPECT_TRUE(bert.head_transform && bert.head_bias && bert.embedding_norm);
  EXPECT_EQ(bert.token_types, 2);
  const Architecture roberta =
      config_of(R"({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1})").architecture;
  EXPECT_EQ(roberta.unused_positions, 2);
  EXPECT_EQ(roberta.max_context, 512);
}

TEST(ModelConfig, of_images_has_a_token_for_each_patch_and_one_for_the_class) {
  const TransformerConfig c = config_of(R"({"model_type": "vit", "image_size": [30, 30], "patch_size": 7,
      "num_channels": 1, "id2label": {"0": "cat", "1": "dog", "2": "fox"}})");
  EXPECT_EQ(c.architecture.images.patches(), 16);  // what is left at the borders is not read
  EXPECT_EQ(c.architecture.images.values(), 49);
  EXPECT_EQ(c.architecture.max_context, 17);
  EXPECT_EQ(c.vocab, 3);
}

TEST(ModelConfig, of_roberta_has_other_defaults_than_bert_and_other_names) {
  EXPECT_EQ(config_of(R"({"model_type": "bert"})").vocab, 30522);
  EXPECT_EQ(config_of(R"({"model_type": "roberta"})").vocab, 50265);
  const TransformerConfig c = config_of(R"({"model_type": "xlm-roberta", "max_position_embeddings": 514})");
  EXPECT_EQ(c.architecture.family, "roberta");
  EXPECT_EQ(c.architecture.max_context, 512);
}

TEST(ModelConfig, of_phimoe_says_that_experts_are_not_sampled) {
  const ModelConfig model = parse(R"({"model_type": "phimoe", "router_jitter_noise": 0.02, "rope_scaling": {
      "type": "longrope", "short_mscale": 1.1, "long_mscale": 1.3, "original_max_position_embeddings": 4096,
      "short_factor": )" + factors(64) +
                                  R"(, "long_factor": )" + factors(64) + "}}");
  EXPECT_EQ(model.config.architecture.experts.rules.jitter, 0.02);
  EXPECT_EQ(model.config.architecture.rotary.amplitude, 1.1);
  EXPECT_EQ(model.config.architecture.rotary.long_amplitude, 1.3);
  EXPECT_THAT(model.notes, Contains(HasSubstr("training samples them")));
}

TEST(ModelConfig, of_phi3_can_rotate_a_part_of_a_head) {
  const TransformerConfig c =
      config_of(R"({"model_type": "phi3", "partial_rotary_factor": 0.75, "sliding_window": 2047})");
  EXPECT_EQ(c.architecture.rotary.share, 0.75);
  EXPECT_EQ(c.architecture.window, 2047);
  EXPECT_EQ(parameter_count(config_of(R"({"model_type": "phi3"})")), 3'821'079'552);
}

TEST(ModelConfig, of_olmo2_has_norms_after_attention_and_feed_forward) {
  const TransformerConfig c = config_of(
      R"({"model_type": "olmo2", "vocab_size": 100352, "max_position_embeddings": 4096, "rope_theta": 500000})");
  EXPECT_EQ(c.architecture.placement, NormPlacement::after);
  EXPECT_EQ(c.architecture.projection_norm, ProjectionNorm::whole);
  EXPECT_EQ(parameter_count(c), 7'298'617'344);
}

TEST(ModelConfig, of_mixtral_has_experts_whose_weights_sum_to_1) {
  const ModelConfig model = parse(R"({"model_type": "mixtral"})");
  const Experts& experts = model.config.architecture.experts;
  EXPECT_EQ(experts.count, 8);
  EXPECT_EQ(experts.per_token, 2);
  EXPECT_TRUE(experts.normalised);
  EXPECT_EQ(experts.auxiliary_loss, 0);
  EXPECT_THAT(model.notes, ElementsAre(HasSubstr("output_router_logits")));
  EXPECT_EQ(parameter_count(model.config), 46'702'792'704);
  EXPECT_EQ(config_of(R"({"model_type": "mixtral", "output_router_logits": true, "router_aux_loss_coef": 0.02})")
                .architecture.experts.auxiliary_loss,
            0.02);
}

TEST(ModelConfig, of_qwen_moe_has_the_width_of_one_expert) {
  const TransformerConfig shared = config_of(R"({"model_type": "qwen2_moe", "intermediate_size": 5632})");
  EXPECT_EQ(shared.d_ff, 1408);
  EXPECT_EQ(shared.architecture.experts.shared_width, 5632);
  EXPECT_EQ(parameter_count(shared), 14'315'784'192);
  const TransformerConfig c =
      config_of(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "head_dim": 128})");
  EXPECT_EQ(c.architecture.experts.count, 128);
  EXPECT_EQ(parameter_count(c), 30'532'122'624);
}

TEST(ModelConfig, of_qwen_moe_can_have_layers_without_experts) {
  const TransformerConfig c = config_of(R"({"model_type": "qwen3_moe", "num_hidden_layers": 6, "decoder_sparse_step": 2,
                                            "mlp_only_layers": [5], "intermediate_size": 100})");
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) layers.push_back(c.architecture.has_experts(layer));
  EXPECT_THAT(layers, ElementsAre(false, true, false, true, false, false));
  EXPECT_EQ(c.dense_width(), 100);
}

TEST(ModelConfig, finds_the_text_model_wherever_it_lies) {
  const std::pair<const char*, const char*> texts[] = {
      {R"({"model_type": "qwen2_vl", "num_hidden_layers": 7, "vision_config": {}})", "qwen2"},
      {R"({"model_type": "qwen2_5_vl", "text_config": {"model_type": "qwen2_5_vl_text", "num_hidden_layers": 7}})",
       "qwen2"},
      {R"({"model_type": "qwen3_vl_moe", "text_config": {"model_type": "qwen3_vl_moe_text", "num_hidden_layers": 7}})",
       "qwen3_moe"},
      {R"({"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {"num_hidden_layers": 7}}})", "qwen3_moe"},
      {R"({"model_type": "internvl_chat", "llm_config": {"model_type": "internlm2", "num_hidden_layers": 7}})",
       "internlm2"},
      {R"({"model_type": "mistral3", "text_config": {"model_type": "ministral3", "num_hidden_layers": 7}})",
       "ministral3"},
      {R"({"model_type": "llava", "text_config": {"num_hidden_layers": 7}})", "llama"},
      {R"({"model_type": "qwen3_5", "text_config": {"num_hidden_layers": 7}, "vision_config": {}})", "qwen3_5_text"},
      {R"({"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text", "num_hidden_layers": 7}})",
       "qwen3_5_moe_text"},
      {R"({"model_type": "mllama", "text_config": {"num_hidden_layers": 9, "cross_attention_layers": [3, 8]}})",
       "llama"}};
  for (const auto& [text, family] : texts) {
    const ModelConfig model = parse(text);
    EXPECT_EQ(model.config.architecture.family, family) << text;
    EXPECT_EQ(model.config.layers, 7) << text;
    EXPECT_THAT(model.notes, Contains(HasSubstr("only the text model is read"))) << text;
  }
  EXPECT_EQ(config_of(R"({"architectures": ["Phi3ForCausalLM"]})").architecture.family, "phi3");
  EXPECT_EQ(config_of(R"({"model_type": "kimi_k2"})").architecture.family, "deepseek_v3");
}

TEST(ModelConfig, of_an_image_model_with_a_quantisation_is_refused_unless_it_is_taken_away) {
  const char* text = R"({"model_type": "llava", "quantization_config": {"bits": 4}, "text_config": {"vocab_size": 7}})";
  EXPECT_THROW(parse(text), Error);
  EXPECT_EQ(parse_model_config(parse_json_object(text, "test"), "test",
                               parse_config_overrides("quantization_config=null"), "test")
                .config.vocab,
            7);
}

TEST(ModelConfig, of_layers_without_positions_and_in_chunks) {
  const Architecture a = config_of(R"({"model_type": "llama4_text", "num_hidden_layers": 8})").architecture;
  EXPECT_TRUE(a.chunks);
  EXPECT_EQ(a.window, 8192);
  EXPECT_THAT(a.window_layers, ElementsAre(true, true, true, false));
  EXPECT_THAT(a.unrotated_layers, ElementsAre(false, false, false, true));
  const Architecture smol = config_of(R"({"model_type": "smollm3"})").architecture;
  EXPECT_THAT(smol.unrotated_layers, ElementsAre(false, false, false, true));
  EXPECT_EQ(smol.window, 0);
}

TEST(ModelConfig, of_a_hybrid_says_what_mixes_the_tokens_of_a_layer) {
  const Architecture next = config_of(R"({"model_type": "qwen3_next", "num_hidden_layers": 12})").architecture;
  EXPECT_THAT(next.mixers, ElementsAre(Mixer::gated_delta, Mixer::gated_delta, Mixer::gated_delta, Mixer::attention));
  EXPECT_TRUE(next.output_gate && next.norm_adds_one && next.experts.normalised);
  EXPECT_EQ(next.rotary.share, 0.25);
  const TransformerConfig nemotron =
      config_of(R"({"model_type": "nemotron_h", "layers_block_type": ["mamba", "moe", "full_attention", "mlp"],
                    "time_step_limit": [0.25, Infinity]})");
  EXPECT_EQ(nemotron.layers, 4);
  EXPECT_THAT(nemotron.architecture.mixers,
              ElementsAre(Mixer::state_space, Mixer::none, Mixer::attention, Mixer::none));
  EXPECT_THAT(nemotron.architecture.feed_forward_layers, ElementsAre(false, true));
  EXPECT_TRUE(nemotron.architecture.has_experts(1) && !nemotron.architecture.has_experts(3));
  EXPECT_EQ(nemotron.dense_width(), 21504);
  EXPECT_EQ(nemotron.architecture.experts.rules.latent_width, 0);
  const TransformerConfig super =
      config_of(R"({"model_type": "nemotron_h", "hybrid_override_pattern": "ME", "moe_latent_size": 1024})");
  EXPECT_EQ(super.architecture.experts.rules.latent_width, 1024);
  EXPECT_EQ(nemotron.architecture.state.least_step, 0.25);
  EXPECT_EQ(nemotron.architecture.state.most_step, 0);
  EXPECT_FALSE(nemotron.architecture.is_rotated(2));
  const TransformerConfig granite =
      config_of(R"({"model_type": "granitemoehybrid", "num_local_experts": 0, "num_hidden_layers": 2,
                    "layer_types": ["mamba", "attention"], "time_step_limit": [0.0, {"__float__": "Infinity"}]})");
  EXPECT_THAT(granite.architecture.mixers, ElementsAre(Mixer::state_space, Mixer::attention));
  EXPECT_EQ(granite.d_ff, 1024);
  EXPECT_EQ(granite.architecture.experts.count, 0);
  const TransformerConfig lfm2 = config_of(R"({"model_type": "lfm2", "num_hidden_layers": 4, "full_attn_idxs": [2],
                                               "block_ff_dim": 6656, "hidden_size": 1024})");
  EXPECT_EQ(lfm2.architecture.mixer(2), Mixer::attention);
  EXPECT_EQ(lfm2.architecture.mixer(3), Mixer::short_convolution);
  EXPECT_EQ(lfm2.d_ff, 4608);
}

TEST(ModelConfig, of_openmoe_is_known_by_its_class_and_has_networks_of_three_factors) {
  const ModelConfig model = parse(R"({"model_type": "llama", "architectures": ["OpenMoeForCausalLM"],
      "hidden_act": "swiglu", "head_dim": 128, "intermediate_size": 8192, "hidden_size": 2048, "num_hidden_layers": 24,
      "num_attention_heads": 24, "num_key_value_heads": 24, "vocab_size": 256384, "num_experts": 32, "router_topk": 2,
      "moe_layer_interval": 6, "rms_norm_eps": 1e-06})");
  const Architecture& a = model.config.architecture;
  EXPECT_EQ(a.family, "openmoe");
  EXPECT_TRUE(a.third_factor && a.experts.before_dense && !a.experts.normalised);
  EXPECT_TRUE(a.has_experts(5) && !a.has_experts(4) && a.has_dense(5));
  EXPECT_EQ(a.query_scale, 1);
  EXPECT_THAT(model.notes, ElementsAre(HasSubstr("the model's own code limits the tokens of an expert")));
  EXPECT_EQ(parameter_count(model.config), 11'855'046'656);
}

TEST(ModelConfig, of_openmoe_without_model_type_has_the_fields_of_its_first_files) {
  const TransformerConfig c = config_of(R"({"architectures": ["OpenMoeForCausalLM"], "hidden_act": "swiglu",
      "layer_norm_epsilon": 1e-05, "topk": 3, "gated": true, "noisy_policy": null})");
  EXPECT_EQ(c.architecture.experts.per_token, 3);
  EXPECT_EQ(c.architecture.norm_epsilon, 1e-5);
  EXPECT_EQ(parameter_count(c), 11'855'046'656);
}

TEST(ModelConfig, of_molmo_has_embeddings_that_the_head_lacks_and_norms_where_the_file_says) {
  const TransformerConfig c = config_of(R"({"model_type": "molmo", "vocab_size": 152064, "embedding_size": 152064,
      "qkv_bias": true, "rope_theta": 1000000.0, "weight_tying": false})");
  EXPECT_EQ(c.d_ff, 18944);
  EXPECT_EQ(c.architecture.unpredicted_tokens, 128);
  EXPECT_TRUE(c.architecture.projection_bias);
  EXPECT_EQ(parameter_count(c), 7'616'075'264);
  const Architecture after =
      config_of(R"({"model_type": "molmo", "norm_after": true, "attention_layer_norm": true})").architecture;
  EXPECT_EQ(after.placement, NormPlacement::after);
  EXPECT_EQ(after.projection_norm, ProjectionNorm::whole);
}

TEST(ModelConfig, of_deepseek_v32_chooses_keys_in_every_layer) {
  const TransformerConfig c = config_of(R"({"model_type": "deepseek_v32"})");
  const KeySelection& s = c.architecture.selection;
  EXPECT_EQ(s, (KeySelection{.heads = 64, .head_size = 128, .rotated = 64, .kept = 2048}));
  EXPECT_TRUE(s.keeps_all(2048) && !s.keeps_all(2049));
  // Those of deepseek_v3, and in each layer queries, keys with their norm, and weights of heads.
  const std::int64_t indexer = 1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64;
  EXPECT_EQ(parameter_count(c), 671'026'404'352 + 61 * indexer);
}

TEST(ModelConfig, of_glm_moe_dsa_may_share_what_a_layer_has_chosen) {
  const auto selection = [](std::string_view more) {
    return config_of(fmt::format(R"({{"model_type": "glm_moe_dsa", "num_hidden_layers": 6{}}})", more))
        .architecture.selection;
  };
  const auto layers = [](const KeySelection& s) {
    std::vector<std::int64_t> own;
    for (std::int64_t layer = 0; layer < 6; ++layer) {
      if (s.has_indexer(layer)) own.push_back(layer);
    }
    return own;
  };
  EXPECT_THAT(selection("").layers, IsEmpty());
  EXPECT_FALSE(selection("").others_share);
  EXPECT_THAT(layers(selection(R"(, "index_topk_freq": 2)")), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(layers(selection(R"(, "index_topk_pattern": "FSSFSS")")), ElementsAre(0, 3));
  const KeySelection named =
      selection(R"(, "indexer_types": ["full", "shared", "full", "shared", "full", "shared"], "index_topk": 64)");
  EXPECT_THAT(layers(named), ElementsAre(0, 2, 4));
  EXPECT_TRUE(named.others_share);
  EXPECT_EQ(named.kept, 64);
  const TransformerConfig dense = config_of(R"({"model_type": "glm_moe_dsa", "num_hidden_layers": 2,
      "mlp_layer_types": ["sparse", "dense"], "first_k_dense_replace": 1})");
  EXPECT_THAT(dense.architecture.experts.layers, ElementsAre(true, false));
}

TEST(ModelConfig, of_minimax_m3_chooses_blocks_of_keys_and_has_swiglu_in_limits_everywhere) {
  const TransformerConfig c = config_of(R"({"model_type": "minimax_m3_vl", "vision_config": {}, "text_config": {
      "model_type": "minimax_m2", "hidden_act": "swigluoai", "num_hidden_layers": 2, "moe_layer_freq": [true, false],
      "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8, "rotary_dim": 4, "hidden_size": 32,
      "sparse_attention_config": {"sparse_attention_freq": [false, true], "sparse_block_size": 16,
      "sparse_index_dim": 8, "sparse_local_block": 1, "sparse_num_index_heads": 1, "sparse_topk_blocks": 2}}})");
  const Architecture& a = c.architecture;
  EXPECT_EQ(a.family, "minimax_m3_vl_text");
  EXPECT_TRUE(a.norm_adds_one && a.experts.rules.limits_all && a.experts.rules.has_correction);
  EXPECT_TRUE(a.has_experts(0) && !a.has_experts(1));
  EXPECT_TRUE(!a.selection.has_indexer(0) && a.selection.has_indexer(1) && !a.selection.others_share);
  EXPECT_EQ(a.selection.rotated, 4);
  EXPECT_TRUE(a.selection.keeps_all(32) && !a.selection.keeps_all(33));
  EXPECT_EQ(config_of(R"({"model_type": "minimax_m3_vl_text"})").architecture.selection.heads, 0);
}

TEST(ModelConfig, of_deepseek_v4_compresses_keys_and_connects_streams) {
  const TransformerConfig c = config_of(R"({"model_type": "deepseek_v4", "num_hidden_layers": 4,
      "compress_ratios": [0, 4, 128, 4], "rope_theta": 10000, "compress_rope_theta": 160000, "rope_scaling":
      {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 65536}})");
  const Architecture& a = c.architecture;
  EXPECT_THAT(a.compressed.layers,
              ElementsAre(Compression::none, Compression::overlapping, Compression::heavy, Compression::overlapping));
  EXPECT_TRUE(a.has_window(0) && !a.has_window(1));
  EXPECT_EQ(a.connections, (HyperConnections{.streams = 4, .iterations = 20}));
  EXPECT_EQ(a.rotary.theta, 160000);
  EXPECT_EQ(a.rotary.scaling, RotaryScaling::yarn);
  EXPECT_EQ(a.rotary.amplitude, 1);
  EXPECT_EQ(a.window_rotary.theta, 10000);
  EXPECT_EQ(rotated_width(c, 1), 64);
  EXPECT_EQ(a.experts.hashed_layers, 3);
  EXPECT_EQ(a.experts.rules.scores, RouterScores::sqrt_softplus);
}

TEST(ModelConfig, of_yarn_has_its_amplitude) {
  const auto rotary = [](const std::string& more) {
    return config_of(
               R"({"model_type": "llama", "max_position_embeddings": 128, "rope_scaling": {"rope_type": "yarn",)" +
               more + "}}")
        .architecture.rotary;
  };
  EXPECT_DOUBLE_EQ(rotary(R"("factor": 4.0)").amplitude, 1 + 0.1 * std::log(4.0));
  EXPECT_EQ(rotary(R"("factor": 4.0)").original_context, 128);
  EXPECT_DOUBLE_EQ(rotary(R"("original_max_position_embeddings": 16)").factor, 8);
  EXPECT_EQ(rotary(R"("factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.7)").amplitude, 1);
  EXPECT_EQ(rotary(R"("factor": 4.0, "attention_factor": 1.5)").amplitude, 1.5);
}

TEST(ModelConfig, has_the_number_of_experts_under_either_name) {
  for (const char* family : {"mixtral", "qwen2_moe", "qwen3_moe"}) {
    for (const char* key : {"num_experts", "num_local_experts"}) {
      const std::string text =
          std::string("{\"model_type\": \"") + family + "\", \"num_experts_per_tok\": 2, \"" + key + "\": 5}";
      EXPECT_EQ(config_of(text).architecture.experts.count, 5) << text;
    }
  }
}

TEST(ModelConfig, of_each_family_is_read_back_as_it_is_written) {
  const std::string more[] = {
      R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true, "rope_scaling": {"rope_type": "llama3",
          "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})",
      R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 5})",
      R"({"model_type": "gemma2", "query_pre_attn_scalar": 144, "num_hidden_layers": 3})",
      R"({"model_type": "gemma3_text", "rope_scaling": {"factor": 8.0, "rope_type": "linear"}})",
      R"({"model_type": "phi3", "partial_rotary_factor": 0.75, "sliding_window": 2047})",
      R"({"model_type": "stablelm", "partial_rotary_factor": 1.0})",
      R"({"model_type": "gemma4_text", "num_hidden_layers": 35, "num_kv_shared_layers": 20, "sliding_window": 128,
          "use_double_wide_mlp": true, "final_logit_softcapping": 30})",
      R"({"model_type": "gemma4_text", "attention_k_eq_v": true, "num_global_key_value_heads": 2, "num_experts": 8,
          "enable_moe_block": true, "top_k_experts": 2, "moe_intermediate_size": 704, "hidden_size_per_layer_input": 0})",
      R"({"model_type": "qwen2_moe", "use_sliding_window": true, "max_window_layers": 5})",
      R"({"model_type": "qwen3_moe", "use_sliding_window": true})",
      R"({"model_type": "dbrx", "attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000}})",
      R"({"model_type": "molmo", "norm_after": true, "attention_layer_norm": true, "embedding_size": 512})",
      R"({"model_type": "glm_moe_dsa", "index_topk_freq": 4, "mlp_layer_types": null})",
      R"({"model_type": "minimax_m3_vl_text", "num_hidden_layers": 2, "layer_types": ["full_attention",
          "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse"], "index_block_size": 64})",
      R"({"model_type": "deepseek_v4", "num_hidden_layers": 3, "compress_ratios": [4, 0, 128], "num_hash_layers": 1,
          "scoring_func": "sigmoid", "rope_scaling": {"type": "yarn", "factor": 16,
          "original_max_position_embeddings": 65536}})",
      R"({"model_type": "phimoe", "lm_head_bias": true, "attention_bias": true, "sliding_window": 64, "rope_scaling": {
          "type": "longrope", "short_mscale": 1.1, "long_mscale": 1.3, "original_max_position_embeddings": 4096,
          "short_factor": )" +
          factors(64) + R"(, "long_factor": )" + factors(64) + "}}",
      R"({"model_type": "gpt2", "n_inner": 100, "scale_attn_weights": false})",
      R"({"model_type": "nemotron_h", "hybrid_override_pattern": "MMM*-", "time_step_limit": [0.5, 4.0]})",
      R"({"model_type": "falcon_h1", "mamba_rms_norm": true, "mamba_norm_before_gate": false, "mamba_n_groups": 4})",
      R"({"model_type": "granitemoehybrid", "num_local_experts": 0, "position_embedding_type": "rope"})",
      R"({"model_type": "mixtral", "output_router_logits": true, "sliding_window": 64})"};
  std::vector<std::string> texts(std::begin(more), std::end(more));
  for (const Family* family : families())
    texts.push_back("{\"model_type\": \"" + std::string(family->model_type) + "\"}");
  for (const std::string& text : texts) {
    const TransformerConfig config = config_of(text);
    const ModelConfig back = parse_model_config(model_config_json(config), "test", {}, "test");
    EXPECT_TRUE(back.config.architecture == config.architecture) << text << model_config_json(config).dump();
    EXPECT_EQ(parameter_count(back.config), parameter_count(config)) << text;
    EXPECT_EQ(back.config.layers, config.layers) << text;
    EXPECT_EQ(back.config.d_ff, config.d_ff) << text;
    for (const std::string& note : back.notes)
      EXPECT_THAT(note, ::testing::AnyOf(HasSubstr("load-balancing"), HasSubstr("samples"), HasSubstr("masked"),
                                         HasSubstr("its class"), HasSubstr("own code"), HasSubstr("text model")))
          << text;
  }
}

// As transformers 5 checks: 24.0 is no integer.
TEST(ModelConfig, has_an_integer_where_transformers_declares_one) {
  for (const char* family : {"gemma2", "gemma3_text"}) {
    const Json written =
        model_config_json(config_of(std::string(R"({"query_pre_attn_scalar": 24, "model_type": ")") + family + "\"}"));
    EXPECT_TRUE(written["query_pre_attn_scalar"].is_number_integer()) << written["query_pre_attn_scalar"];
    const Json large = model_config_json(
        config_of(std::string(R"({"query_pre_attn_scalar": 1e300, "model_type": ")") + family + "\"}"));
    EXPECT_GT(large["query_pre_attn_scalar"].get<double>(), 1e299);
  }
}

TEST(ModelConfig, of_a_preset_is_written_as_llama) {
  const ModelConfig back = parse_model_config(model_config_json(transformer_preset("small")), "small", {}, "test");
  EXPECT_EQ(back.config.architecture.family, "llama");
  EXPECT_EQ(back.config.architecture.norm_epsilon, 1e-5);
  EXPECT_EQ(parameter_count(back.config), parameter_count(transformer_preset("small")));
}

TEST(ModelConfig, has_the_name_of_the_repository_or_the_folder) {
  const TemporaryFolder folder;
  const auto name_of = [&](const std::string& path, const std::string& more) {
    std::filesystem::create_directories(folder / path);
    write_file(folder / path / "config.json", R"({"model_type": "llama")" + more + "}");
    return read_model_config(folder / path).config.name;
  };
  EXPECT_EQ(name_of("my-model", ""), "my-model");
  EXPECT_EQ(name_of("my-model", R"(, "_name_or_path": "owner/their-model")"), "owner/their-model");
  EXPECT_EQ(name_of("my-model", R"(, "_name_or_path": "/home/someone/checkpoint")"), "my-model");
  EXPECT_EQ(name_of("models--owner--cached-model/snapshots/0123abcd", ""), "cached-model");
}

TEST(ModelConfig, says_what_is_off_and_what_it_ignores) {
  const ModelConfig model = parse(
      R"({"model_type": "llama", "attention_dropout": 0.25, "torch_dtype": "bfloat16", "use_cache": true, "logit_bonus": 3,
          "router_of_light": {}})");
  EXPECT_THAT(model.notes, ElementsAre("dropout is off: attention_dropout 0.25",
                                       "ignored, because this program does not know them: 'logit_bonus', "
                                       "'router_of_light'"));
  EXPECT_THAT(parse(R"({"model_type": "gpt2"})").notes,
              ElementsAre("dropout is off: resid_pdrop 0.1, embd_pdrop 0.1, attn_pdrop 0.1"));
}

}  // namespace
}  // namespace ridgepoint
