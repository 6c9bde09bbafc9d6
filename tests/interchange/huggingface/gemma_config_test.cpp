// What config.json files of Gemma 2, 3, 3n and 4 mean.

#include <cmath>

#include "interchange/huggingface/config_text.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::config_of;
using testing::parse;

TEST(GemmaConfig, of_gemma2_has_caps_four_norms_and_a_window_in_even_layers) {
  const TransformerConfig c = config_of(R"({"model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh"})");
  const Architecture& a = c.architecture;
  EXPECT_EQ(a.placement, NormPlacement::both);
  EXPECT_TRUE(a.norm_adds_one && a.tied_head);
  EXPECT_EQ(a.score_cap, 50);
  EXPECT_EQ(a.logit_cap, 30);
  EXPECT_DOUBLE_EQ(a.embedding_scale, std::sqrt(2304.0));
  EXPECT_EQ(a.query_scale, 0);  // 1 / sqrt(256), and the head size is 256
  EXPECT_EQ(a.activation, Activation::gelu_tanh);
  EXPECT_EQ(a.window, 4096);
  EXPECT_THAT(a.window_layers, ElementsAre(true, false));
  EXPECT_EQ(parameter_count(c), 2'614'341'888);
  EXPECT_DOUBLE_EQ(config_of(R"({"model_type": "gemma2", "query_pre_attn_scalar": 144})").architecture.query_scale,
                   1.0 / 12);
}

TEST(GemmaConfig, of_gemma3_has_two_rotary_embeddings_and_a_layer_without_window_after_five) {
  const TransformerConfig c =
      config_of(R"({"model_type": "gemma3", "vision_config": {}, "text_config": {"model_type": "gemma3_text",
      "num_hidden_layers": 12, "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  const Architecture& a = c.architecture;
  EXPECT_EQ(a.family, "gemma3_text");
  EXPECT_THAT(a.window_layers, ElementsAre(true, true, true, true, true, false));
  EXPECT_TRUE(a.separate_rotary);
  EXPECT_EQ(a.rotary, (Rotary{.theta = 1e6, .scaling = RotaryScaling::linear, .factor = 8}));
  EXPECT_EQ(a.window_rotary, Rotary{.theta = 10000});
  EXPECT_EQ(a.logit_cap, 0);
  EXPECT_EQ(a.projection_norm, ProjectionNorm::per_head);
}

TEST(GemmaConfig, of_gemma3_reads_rotary_embeddings_by_kind_of_layer) {
  const Architecture a = config_of(R"({"model_type": "gemma3_text", "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}})")
                             .architecture;
  EXPECT_EQ(a.rotary, (Rotary{.theta = 5e5, .scaling = RotaryScaling::linear, .factor = 8}));
  EXPECT_EQ(a.window_rotary, Rotary{.theta = 2e4});
}

TEST(GemmaConfig, of_gemma4_has_heads_of_two_kinds_and_keys_that_are_values) {
  const TransformerConfig c =
      config_of(R"({"model_type": "gemma4", "vision_config": {}, "text_config": {"model_type": "gemma4_text",
      "num_hidden_layers": 12, "attention_k_eq_v": true, "num_global_key_value_heads": 2, "num_key_value_heads": 4,
      "hidden_size_per_layer_input": 0, "use_bidirectional_attention": "vision"}})");
  EXPECT_THAT(c.architecture.window_layers, ElementsAre(true, true, true, true, true, false));
  EXPECT_EQ(c.head_size(0), 256);
  EXPECT_EQ(c.kv_heads(0), 4);
  EXPECT_EQ(c.head_size(5), 512);
  EXPECT_EQ(c.kv_heads(5), 2);
  EXPECT_TRUE(!c.keys_are_values(0) && c.keys_are_values(5));
  EXPECT_EQ(rotated_width(c, 0), 256);
  EXPECT_EQ(rotated_width(c, 5), 128);
  EXPECT_EQ(c.architecture.per_layer.width, 0);
}

TEST(GemmaConfig, of_gemma4_shares_keys_of_the_last_layers_of_each_kind) {
  const TransformerConfig c = config_of(R"({"model_type": "gemma4_text", "num_hidden_layers": 35,
      "num_kv_shared_layers": 20, "use_double_wide_mlp": true, "intermediate_size": 6144})");
  EXPECT_TRUE(c.has_keys(14) && !c.has_keys(15));
  EXPECT_EQ(c.dense_width(14), 6144);
  EXPECT_EQ(c.dense_width(15), 12288);
  EXPECT_EQ(c.architecture.per_layer, (PerLayerInputs{.width = 256, .vocab = 262144}));
}

TEST(GemmaConfig, of_gemma4_reads_the_heads_of_each_layer) {
  const TransformerConfig c = config_of(R"({"model_type": "gemma4_text", "num_hidden_layers": 6,
      "per_layer_config": {"5": {"head_dim": 128, "num_key_value_heads": 1}}})");
  EXPECT_EQ(c.head_size(5), 128);
  EXPECT_EQ(c.kv_heads(5), 1);
}

TEST(GemmaConfig, of_gemma3n_has_streams_and_gates_that_keep_their_largest_values) {
  const Architecture a = config_of(R"({"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text",
      "num_hidden_layers": 30, "num_kv_shared_layers": 10}})")
                             .architecture;
  EXPECT_EQ(a.updates, (AlternatingUpdates{.streams = 4}));
  EXPECT_EQ(a.low_rank, 64);
  EXPECT_EQ(a.layers_without_keys, 10);
  ASSERT_EQ(a.sparsity.size(), 30U);
  EXPECT_EQ(a.sparsity[9], 0.95);
  EXPECT_EQ(a.sparsity[10], 0);
  EXPECT_EQ(a.logit_cap, 30);
}

TEST(GemmaConfig, of_gemma3n_with_fewer_layers_has_the_first_entries_of_longer_lists) {
  const ModelConfig model = parse(R"({"model_type": "gemma3n_text", "num_hidden_layers": 2, "num_kv_shared_layers": 0,
      "intermediate_size": [8, 8, 9], "activation_sparsity_pattern": [0.5, 0, 0.25],
      "final_logit_softcapping": null})");
  EXPECT_EQ(model.config.d_ff, 8);
  EXPECT_THAT(model.config.architecture.sparsity, ElementsAre(0.5, 0));
  EXPECT_EQ(model.config.architecture.logit_cap, 0) << "null is no cap";
  EXPECT_THAT(model.notes, ElementsAre("of the 3 entries of intermediate_size the first 2 count",
                                       "of the 3 entries of activation_sparsity_pattern the first 2 count"));
}

TEST(GemmaConfig, says_that_a_text_model_without_fields_is_the_default_of_its_family) {
  EXPECT_THAT(parse(R"({"model_type": "gemma4", "text_config": {}})").notes,
              ElementsAre(HasSubstr("only the text model is read"), HasSubstr("text_config is empty")));
}

}  // namespace
}  // namespace ridgepoint
