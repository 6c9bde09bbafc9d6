// GLM: a part of each head is rotated, in GLM 4 with norms before and after; GLM 4.5, with experts routed as
// DeepSeek-V3 routes them, and with attention as usual. ChatGLM is GLM in its own code.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

constexpr DecoderDefaults kGlm = {.sizes = usual::glm, .rotary_share = RotaryShare::may_be_partial, .share = 0.5};

void glm(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, kGlm);
  fields.flag("attention_bias", c.architecture.projection_bias, true);
}

void glm4(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, kGlm);
  fields.flag("attention_bias", c.architecture.projection_bias, false);
  c.architecture.placement = NormPlacement::both;
}

void glm4_moe(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::glm4_moe,
                     .intermediate_key = "moe_intermediate_size",
                     .rotary_share = RotaryShare::may_be_partial,
                     .share = 0.5});
  Architecture& a = c.architecture;
  fields.flag("attention_bias", a.projection_bias, false);
  fields.choice("use_qk_norm", a.projection_norm, ProjectionNorm::per_head, ProjectionNorm::none, false);
  deepseek_experts(fields, c, {.count = 128, .per_token = 8});
  a.experts.rules.scores = RouterScores::sigmoid;
  a.experts.rules.has_correction = true;
  fields.skip({"scoring_func", "topk_method"});
}

// The half of a head is rotated, in elements side by side; rope_ratio is a factor of the base.
void chatglm(FamilyFields& fields, TransformerConfig& c) {
  constexpr double kBase = 10000;
  DecoderDefaults defaults = {.sizes = usual::chatglm,
                              .intermediate_key = "ffn_hidden_size",
                              .theta = std::nullopt,
                              .layers_key = "num_layers",
                              .kv_heads_key = "multi_query_group_num",
                              .positions_key = "seq_length",
                              .epsilon_key = "layernorm_epsilon",
                              .vocab_key = "padded_vocab_size"};
  if (ConfigFields* in = fields.in()) {
    if (!in->flag("multi_query_attention", false)) defaults.kv_heads_key = "num_key_value_heads";
    in->skip("multi_query_group_num");
  }
  fields.decoder(c, defaults);
  Architecture& a = c.architecture;
  fields.write("multi_query_attention", true);
  double ratio = a.rotary.theta / kBase;
  fields.positive("rope_ratio", ratio, 1);
  a.rotary = {.theta = ratio * kBase, .share = 0.5};
  fields.flag("add_qkv_bias", a.projection_bias, false);
  fields.flag("add_bias_linear", a.output_bias, false);
  a.feed_forward_bias = a.output_bias;
  if (ConfigFields* in = fields.in()) {
    if (!in->flag("rmsnorm", true)) in->fail("rmsnorm", "is false; layer norms are not supported in this family");
    in->refuse("apply_residual_connection_post_layernorm", "a stream that leaves out norms is not supported");
    if (!in->flag("post_layer_norm", true)) in->fail("post_layer_norm", "is false; the last norm is missing");
    if (in->size("kv_channels", c.head_size()) != c.head_size())
      in->fail("kv_channels", "is not the width divided by the heads");
    in->refuse("pre_seq_len", "trained prefixes are not supported");
  }
  fields.skip({"apply_query_key_layer_scaling", "attention_softmax_in_fp32", "bias_dropout_fusion",
               "fp32_residual_connection", "original_rope", "prefix_projection", "vocab_size", "num_hidden_layers"});
}

}  // namespace

extern const Family family_glm{"glm",
                               "GlmForCausalLM",
                               glm,
                               {.gate_up = "gate_up_proj", .adjacent_pairs = true},
                               {.joins = Joins::both_at_the_end, .repeats_tables = true}};
extern const Family family_glm4{
    "glm4",
    "Glm4ForCausalLM",
    glm4,
    {.gate_up = "gate_up_proj",
     .norms = {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"},
     .adjacent_pairs = true},
    {.joins = Joins::both_at_the_end, .repeats_tables = true}};
extern const Family family_glm4_moe{
    "glm4_moe", "Glm4MoeForCausalLM", glm4_moe, {.shared_expert = "shared_experts"}, {.joins = Joins::both_at_the_end}};
extern const Family family_chatglm{"chatglm",
                                   "ChatGLMModel",
                                   chatglm,
                                   {.model = "transformer.",
                                    .embedding = "embedding.word_embeddings",
                                    .layers = "encoder.layers",
                                    .final_norm = "encoder.final_layernorm",
                                    .head = "transformer.output_layer",
                                    .attention = "self_attention",
                                    .qkv = "query_key_value",
                                    .output = "dense",
                                    .gate_up = "dense_h_to_4h",
                                    .down = "dense_4h_to_h",
                                    .adjacent_pairs = true},
                                   kNotModelled};

}  // namespace ridgepoint
