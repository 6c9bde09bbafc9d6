// Mistral: Llama with grouped heads and a sliding window in all layers. Mixtral: Mistral with experts, whose weights
// for a token sum to 1. Ministral 3: Mistral whose queries grow with their position. MiniMax M2: Mixtral with norms of
// all queries and keys together, and experts chosen by sigmoids.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void mistral(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.intermediate = 14336, .kv_heads = 8, .max_positions = 131072});
  window_of_all_layers(fields, c, 4096);
}

void mixtral(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.intermediate = 14336, .kv_heads = 8, .max_positions = 131072, .epsilon = 1e-5, .theta = 1e6});
  window_of_all_layers(fields, c, std::nullopt);
  experts(fields, c, {.count_key = "num_local_experts", .count = 8, .per_token = 2});
  c.architecture.experts.normalised = true;
  fields.refuse("router_jitter_noise", "random noise at the router is not supported");
}

void ministral3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.vocab = 131072,
                     .intermediate = 14336,
                     .layers = 34,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .max_positions = 262144,
                     .epsilon = 1e-5,
                     .theta = 1e6});
  Architecture& a = c.architecture;
  window_of_all_layers(fields, c, std::nullopt);
  if (ConfigFields* in = fields.in()) {
    constexpr std::int64_t kOriginal = 16384;
    std::optional<ConfigFields> object = rotary_object(*in);
    if (!object) a.rotary = {.theta = 1e6, .scaling = RotaryScaling::yarn, .factor = 16, .original_context = kOriginal};
    a.query_growth = {.strength = object ? object->not_negative("llama_4_scaling_beta", 0) : 0.1,
                      .length = object ? object->size("original_max_position_embeddings", a.max_context) : kOriginal};
    if (a.query_growth.strength == 0) a.query_growth = {};
    return;
  }
  // transformers reads the object alone.
  Json rotary;
  write_rotary(a.rotary, rotary);
  Json object = rotary["rope_scaling"].is_object() ? rotary["rope_scaling"] : Json{{"rope_type", "default"}};
  object["rope_theta"] = a.rotary.theta;
  object["original_max_position_embeddings"] = a.query_growth.length > 0 ? a.query_growth.length : a.max_context;
  object["llama_4_scaling_beta"] = a.query_growth.strength;
  fields.write("rope_parameters", std::move(object));
  fields.write("rope_scaling", nullptr);
}

void minimax_m2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.vocab = 200064,
                     .hidden = 3072,
                     .intermediate = 1536,
                     .layers = 62,
                     .heads = 48,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .max_positions = 196608,
                     .theta = 5e6,
                     .rotary_share = RotaryShare::may_be_partial});
  Architecture& a = c.architecture;
  a.projection_norm = ProjectionNorm::whole;
  if (fields.in() == nullptr || fields.in()->has("rotary_dim")) rotated_part(fields, c, c.head_size());
  experts(fields, c, {.count_key = "num_local_experts", .count = 256, .per_token = 8});
  a.experts.normalised = true;
  a.experts.rules.scores = RouterScores::sigmoid;
  a.experts.rules.has_correction = true;
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  in->refuse("router_jitter_noise", "random noise at the router is not supported");
  in->refuse("sparse_attention_config", "attention to chosen blocks is not supported");
  in->refuse("shared_intermediate_size", "a shared expert is not supported in this family");
  if (!in->flag("use_qk_norm", true)) in->fail("use_qk_norm", "is false; transformers has these norms always");
  // Of prediction of several tokens, and of other models of the family.
  fields.skip({"attn_type_list", "layernorm_full_attention_beta", "layernorm_linear_attention_beta",
               "layernorm_mlp_beta", "mlp_intermediate_size", "mtp_transformer_layers", "num_mtp_modules", "use_mtp",
               "qk_norm_type", "scoring_func", "shared_moe_mode", "use_routing_bias", "sliding_window"});
}

}  // namespace

extern const Family family_mistral{"mistral", "MistralForCausalLM", mistral};
extern const Family family_mixtral{
    "mixtral",
    "MixtralForCausalLM",
    mixtral,
    {.experts = "block_sparse_moe", .expert_gate = "w1", .expert_up = "w3", .expert_down = "w2"},
    {.routes_wide = true}};
extern const Family family_ministral3{"ministral3", "Ministral3ForCausalLM", ministral3};
extern const Family family_minimax_m2{"minimax_m2",
                                      "MiniMaxM2ForCausalLM",
                                      minimax_m2,
                                      {.experts = "block_sparse_moe",
                                       .expert_gate = "w1",
                                       .expert_up = "w3",
                                       .expert_down = "w2",
                                       .correction = "e_score_correction_bias"},
                                      {.joins = Joins::both_at_the_end, .routes_wide = true}};

}  // namespace ridgepoint
