// DBRX: layer norms without bias, limits of queries, keys and values in one weight, and experts whose matrices stand
// one below the other. Its fields of attention and of feed-forward are objects.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

ConfigFields object_or_empty(ConfigFields& fields, std::string_view key) {
  std::optional<ConfigFields> object = fields.object(key);
  return object ? std::move(*object) : ConfigFields(Json::object(), std::string(key) + ".");
}

void read_dbrx_attention(ConfigFields& fields, TransformerConfig& c) {
  ConfigFields attention = object_or_empty(fields, "attn_config");
  Architecture& a = c.architecture;
  const std::int64_t kv_heads = attention.size("kv_n_heads", 1);
  if (c.d_model % c.heads != 0 || c.d_model / c.heads % 2 != 0)
    fields.fail("n_heads", "is {}; heads must divide the width {} and have an even size", c.heads, c.d_model);
  if (c.heads % kv_heads != 0)
    attention.fail("kv_n_heads", "is {} and does not divide the {} heads", kv_heads, c.heads);
  a.kv_heads = kv_heads == c.heads ? 0 : kv_heads;
  a.projection_limit = attention.has("clip_qkv") ? attention.positive("clip_qkv", 1) : 0;
  const double theta = attention.positive("rope_theta", 10000);
  a.rotary = fields.has("rope_parameters") ? read_rotary(fields, c, {.theta = theta}) : Rotary{.theta = theta};
  if (attention.not_negative("attn_pdrop", 0) > 0) fields.note("dropout is off: attn_config.attn_pdrop");
}

void read_dbrx_mixture(ConfigFields& fields, TransformerConfig& c) {
  ConfigFields network = object_or_empty(fields, "ffn_config");
  Architecture& a = c.architecture;
  c.d_ff = network.size("ffn_hidden_size", 3584);
  a.experts.count = network.size("moe_num_experts", 4);
  a.experts.per_token = network.size("moe_top_k", 1);
  if (a.experts.per_token > a.experts.count)
    network.fail("moe_top_k", "is {}, but a layer has {} experts", a.experts.per_token, a.experts.count);
  const bool is_null = network.contains("moe_normalize_expert_weights") && !network.has("moe_normalize_expert_weights");
  a.experts.normalised = !is_null;
  if (!is_null && network.positive("moe_normalize_expert_weights", 1) != 1)
    network.fail("moe_normalize_expert_weights", "is not 1; weights of experts over another norm are not supported");
  ConfigFields activation = object_or_empty(network, "ffn_act_fn");
  a.activation = read_activation(activation, "name", "silu");
  const double loss = network.not_negative("moe_loss_weight", 0.01);
  if (fields.flag("output_router_logits", false)) {
    a.experts.auxiliary_loss = loss;
  } else if (loss > 0) {
    fields.note("the loss has no load-balancing part: transformers adds it only with output_router_logits=true");
  }
  if (network.not_negative("moe_jitter_eps", 0) > 0)
    fields.note("random noise before the router is off: ffn_config.moe_jitter_eps");
}

void dbrx(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  const Experts& experts = a.experts;
  a.norm = Norm::layer_norm;
  a.norm_biases = false;
  fields.size("vocab_size", c.vocab, 32000);
  fields.size("d_model", c.d_model, 2048);
  fields.size("n_layers", c.layers, 24, kMostLayers);
  fields.size("n_heads", c.heads, 16);
  fields.positions("max_seq_len", c, 2048);
  if (ConfigFields* in = fields.in()) {
    read_dbrx_attention(*in, c);
    read_dbrx_mixture(*in, c);
    note_dropout(*in, {"resid_pdrop", "emb_pdrop"});
    in->refuse("tie_word_embeddings", "a head that is the embedding is not supported in this family");
    return fields.skip({"move_model_to_device", "pretraining_tp"});
  }
  fields.write("attn_config", {{"kv_n_heads", c.kv_heads()}, {"rope_theta", a.rotary.theta}, {"attn_pdrop", 0.0}});
  if (a.projection_limit > 0) fields.write_into("attn_config", "clip_qkv", a.projection_limit);
  fields.write("rope_parameters", rotary_parameters(a.rotary));  // transformers 5 reads the object alone
  fields.write("ffn_config", {{"ffn_hidden_size", c.d_ff},
                              {"hidden_size", c.d_model},
                              {"moe_num_experts", experts.count},
                              {"moe_top_k", experts.per_token},
                              {"moe_normalize_expert_weights", experts.normalised ? Json(1.0) : Json(nullptr)},
                              {"moe_loss_weight", experts.auxiliary_loss},
                              {"ffn_act_fn", {{"name", activation_name(a.activation)}}}});
  fields.write("output_router_logits", experts.auxiliary_loss > 0);
}

}  // namespace

extern const Family family_dbrx{"dbrx",
                                "DbrxForCausalLM",
                                dbrx,
                                {.model = "transformer.",
                                 .embedding = "wte",
                                 .layers = "blocks",
                                 .final_norm = "norm_f",
                                 .attention = "norm_attn_norm.attn",
                                 .qkv = "Wqkv",
                                 .output = "out_proj",
                                 .experts = "ffn",
                                 .expert_gate = "experts.mlp.w1",
                                 .expert_up = "experts.mlp.v1",
                                 .expert_down = "experts.mlp.w2",
                                 .router = "router.layer",
                                 .stored_experts = StoredExperts::stacked,
                                 .norms = {"norm_attn_norm.norm_1", "", "norm_attn_norm.norm_2", ""}},
                                kNotModelled};

}  // namespace ridgepoint
