// Decoders with layer norms and rotary embedding: StarCoder 2 and StableLM in turns, GPT-NeoX, Phi 1 and 2, GPT-J and
// Cohere with attention and feed-forward side by side, Falcon in both ways. Orion is Llama with layer norms.
#include <algorithm>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void starcoder2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::starcoder2, .activation = "gelu_pytorch_tanh", .epsilon_key = "norm_epsilon"});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.gated = false;
  fields.flag("use_bias", a.projection_bias, true);
  a.output_bias = a.feed_forward_bias = a.projection_bias;
  window_of_all_layers(fields, c, std::nullopt);
  // Of other code: transformers reads hidden_act and norm_epsilon.
  fields.skip({"activation_function", "layer_norm_epsilon", "mlp_type", "norm_type", "attention_softmax_in_fp32",
               "scale_attention_softmax_in_fp32", "scale_attn_weights"});
}

void stablelm(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::stablelm,
                     .rotary_share = RotaryShare::may_be_partial,
                     .share = 0.25,
                     .epsilon_key = "layer_norm_eps"});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  fields.flag("use_qkv_bias", a.projection_bias, false);
  fields.choice("use_parallel_residual", a.block, BlockOrder::side_by_side_one_norm, BlockOrder::in_turn, false);
  fields.choice("qk_layernorm", a.projection_norm, ProjectionNorm::each_head, ProjectionNorm::none, false);
}

void phi(FamilyFields& fields, TransformerConfig& c) {
  DecoderDefaults defaults = {.sizes = usual::phi,
                              .activation = "gelu_new",
                              .rotary_share = RotaryShare::may_be_partial,
                              .share = 0.5,
                              .epsilon_key = "layer_norm_eps"};
  // Files of its first code have the names of GPT-2.
  ConfigFields* in = fields.in();
  if (in != nullptr && in->has("n_embd")) {
    defaults.hidden_key = "n_embd";
    defaults.layers_key = "n_layer";
    defaults.heads_key = "n_head";
    defaults.kv_heads_key = "n_head_kv";
    defaults.positions_key = "n_positions";
    defaults.intermediate_key = "n_inner";
    defaults.activation_key = "activation_function";
    defaults.epsilon_key = "layer_norm_epsilon";
    defaults.wide_by_four = true;
    const std::int64_t head = in->size("n_embd", 2048) / in->size("n_head", 32);
    defaults.share =
        static_cast<double>(in->size("rotary_dim", 32)) / static_cast<double>(std::max<std::int64_t>(head, 1));
    fields.skip({"flash_attn", "flash_rotary", "fused_dense", "img_processor"});
  }
  fields.decoder(c, defaults);
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.block = BlockOrder::side_by_side_one_norm;
  a.gated = false;
  a.projection_bias = a.output_bias = a.feed_forward_bias = a.head_bias = true;
  fields.refuse("qk_layernorm", "layer norms of queries and keys are not supported");
  fields.write("resid_pdrop", 0.0);
}

void gpt_neox(FamilyFields& fields, TransformerConfig& c) {
  DecoderDefaults defaults = {.sizes = usual::gpt_neox,
                              .activation = "gelu",
                              .rotary_share = RotaryShare::may_be_partial,
                              .share = 0.25,
                              .epsilon_key = "layer_norm_eps",
                              .theta_key = "rotary_emb_base"};
  if (ConfigFields* in = fields.in()) defaults.share = in->positive("rotary_pct", defaults.share);
  fields.decoder(c, defaults);
  Architecture& a = c.architecture;
  fields.write("rotary_pct", a.rotary.share);
  a.norm = Norm::layer_norm;
  a.gated = false;
  attention_bias(fields, a, true);
  a.feed_forward_bias = true;
  fields.choice("use_parallel_residual", a.block, BlockOrder::side_by_side, BlockOrder::in_turn, true);
  fields.write("hidden_dropout", 0.0);
}

void gptj(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::gptj,
                     .intermediate_key = "n_inner",
                     .activation_key = "activation_function",
                     .activation = "gelu_new",
                     .theta = std::nullopt,
                     .hidden_key = "n_embd",
                     .layers_key = "n_layer",
                     .heads_key = "n_head",
                     .positions_key = "n_positions",
                     .epsilon_key = "layer_norm_epsilon",
                     .wide_by_four = true});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.block = BlockOrder::side_by_side_one_norm;
  a.gated = false;
  a.feed_forward_bias = a.head_bias = true;
  rotated_part(fields, c, 64);
  fields.skip({"rotary", "scale_attn_weights", "rope_scaling"});
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) fields.write(key, 0.0);
}

void cohere(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::cohere, .epsilon_key = "layer_norm_eps"});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.norm_biases = false;
  a.block = BlockOrder::side_by_side_one_norm;
  fields.positive("logit_scale", a.logit_scale, 0.0625);
  attention_bias(fields, a, false);
  fields.choice("use_qk_norm", a.projection_norm, ProjectionNorm::each_head, ProjectionNorm::none, false);
}

// Layers without a window rotate nothing.
void cohere2(FamilyFields& fields, TransformerConfig& c) {
  cohere(fields, c);
  std::int64_t period = 4;
  if (ConfigFields* in = fields.in())
    period = in->size("_sliding_window_pattern", in->size("sliding_window_pattern", period));
  windows(fields, c, 4096, windows_but_every(period, c.layers));
  rotate_with_window(c);
  fields.skip({"use_gated_activation", "use_parallel_block", "use_parallel_embedding", "rotary_pct",
               "order_of_interleaved_layers", "position_embedding_type", "layer_switch"});
}

void falcon(FamilyFields& fields, TransformerConfig& c) {
  bool has_bias = c.architecture.positions == Positions::linear_bias;
  fields.flag("alibi", has_bias, false);
  fields.decoder(c, {.sizes = usual::falcon,
                     .intermediate_key = "ffn_hidden_size",
                     .activation_key = "activation",
                     .activation = "gelu",
                     .theta = has_bias ? std::nullopt : std::optional<double>(10000),
                     .kv_heads_key = "num_kv_heads",
                     .epsilon_key = "layer_norm_epsilon",
                     .wide_by_four = true});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.gated = false;
  fields.flag("bias", a.projection_bias, false);
  a.output_bias = a.feed_forward_bias = a.projection_bias;
  if (has_bias) a.positions = Positions::linear_bias;
  a.low_bias = has_bias;
  bool is_new = a.block == BlockOrder::side_by_side || (c.kv_heads() != 1 && c.kv_heads() != c.heads);
  bool is_parallel = a.block != BlockOrder::in_turn;
  bool has_one_key = c.kv_heads() == 1;
  fields.flag("new_decoder_architecture", is_new, false);
  fields.flag("parallel_attn", is_parallel, true);
  fields.flag("multi_query", has_one_key, true);
  if (ConfigFields* in = fields.in()) {
    if (!is_new) a.kv_heads = has_one_key && c.heads > 1 ? 1 : 0;
    const bool has_two_norms = is_new && in->optional_size("num_ln_in_parallel_attn", 2).value_or(2) == 2;
    a.block = has_two_norms           ? BlockOrder::side_by_side
              : is_new || is_parallel ? BlockOrder::side_by_side_one_norm
                                      : BlockOrder::in_turn;
  }
  if (ConfigFields* in = fields.in(); in != nullptr && has_bias && c.kv_heads() != c.heads)
    in->fail("alibi", "needs a head of keys for each head of queries; multi_query is not supported with it");
  fields.skip({"num_ln_in_parallel_attn"});
  fields.refuse("apply_residual_connection_post_layernorm", "residuals after the norm are not supported");
  if (Json* out = fields.out()) out->erase("head_dim");  // transformers computes it, and fails where a file has it
  if (is_new) fields.write("num_ln_in_parallel_attn", a.block == BlockOrder::side_by_side ? 2 : 1);
  fields.write("hidden_dropout", 0.0);
}

// Its own code.
void orion(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::orion});
  c.architecture.norm = Norm::layer_norm;
  fields.skip({"pretraining_tp", "max_sequence_length"});
}

constexpr WeightNames kGptJNames = {.model = "transformer.",
                                    .embedding = "wte",
                                    .layers = "h",
                                    .final_norm = "ln_f",
                                    .attention = "attn",
                                    .output = "out_proj",
                                    .up = "fc_in",
                                    .down = "fc_out",
                                    .norms = {"ln_1", "", "ln_2", ""},
                                    .adjacent_pairs = true};

constexpr TransformersCode kCohereCode = {
    .has_plain_layer_norm = true, .casts_rotated = true, .casts_before_rotation = true};

}  // namespace

extern const Family family_starcoder2{
    "starcoder2", "Starcoder2ForCausalLM", starcoder2, {.up = "c_fc", .down = "c_proj"}};
extern const Family family_stablelm{"stablelm",
                                    "StableLmForCausalLM",
                                    stablelm,
                                    {.q_norm = "q_layernorm", .k_norm = "k_layernorm", .head_norms_apart = true},
                                    {.joins = Joins::both_at_the_end}};
extern const Family family_phi{"phi",
                               "PhiForCausalLM",
                               phi,
                               {.final_norm = "final_layernorm", .output = "dense", .up = "fc1", .down = "fc2"},
                               {.has_plain_gelu = true, .joins = Joins::both_at_the_end, .sums_branches_first = true}};
extern const Family family_gpt_neox{"gpt_neox",
                                    "GPTNeoXForCausalLM",
                                    gpt_neox,
                                    {.model = "gpt_neox.",
                                     .embedding = "embed_in",
                                     .final_norm = "final_layer_norm",
                                     .head = "embed_out",
                                     .attention = "attention",
                                     .qkv = "query_key_value",
                                     .output = "dense",
                                     .up = "dense_h_to_4h",
                                     .down = "dense_4h_to_h",
                                     .qkv_by_group = true},
                                    {.joins = Joins::both_at_the_end, .sums_branches_first = true},
                                    {".attention.bias", ".attention.masked_bias"}};  // masks
extern const Family family_gptj{"gptj",
                                "GPTJForCausalLM",
                                gptj,
                                kGptJNames,
                                {.has_plain_gelu = true,
                                 .scores = ScoresCode::wide_divided,
                                 .rotates_keys_first = true,
                                 .sums_branches_first = true,
                                 .lacks_sdpa = true},
                                {".attn.bias", ".attn.masked_bias"}};
extern const Family family_cohere{"cohere", "CohereForCausalLM", cohere, {.adjacent_pairs = true}, kCohereCode};
extern const Family family_cohere2{"cohere2", "Cohere2ForCausalLM", cohere2, {.adjacent_pairs = true}, kCohereCode};
extern const Family family_falcon{"falcon",
                                  "FalconForCausalLM",
                                  falcon,
                                  {.model = "transformer.",
                                   .embedding = "word_embeddings",
                                   .layers = "h",
                                   .final_norm = "ln_f",
                                   .attention = "self_attention",
                                   .qkv = "query_key_value",
                                   .output = "dense",
                                   .up = "dense_h_to_4h",
                                   .down = "dense_4h_to_h",
                                   .side_by_side_norms = {"ln_attn", "", "ln_mlp", ""},
                                   .qkv_by_group = true},
                                  kNotModelled};
extern const Family family_orion{"orion", "OrionForCausalLM", orion, {}, kNotModelled};

}  // namespace ridgepoint
