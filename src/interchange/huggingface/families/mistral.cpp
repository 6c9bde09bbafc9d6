// Mistral: Llama with grouped heads and a sliding window in all layers. Mixtral: Mistral with experts, whose weights
// for a token sum to 1. Ministral 3: Mistral whose queries grow with their position. MiniMax M2: Mixtral with norms of
// all queries and keys together, and experts chosen by sigmoids.
// MiniMax M3, the text model as transformers has it: an indexer chooses blocks of keys in some layers, and SwiGLU has
// limits in experts, in the shared one and in layers without experts.
#include <algorithm>
#include <optional>
#include <vector>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

void mistral(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::mistral});
  window_of_all_layers(fields, c, 4096);
}

void mixtral(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::mixtral, .theta = 1e6});
  window_of_all_layers(fields, c, std::nullopt);
  experts(fields, c, {.count_key = "num_local_experts", .count = 8, .per_token = 2});
  c.architecture.experts.normalised = true;
  fields.refuse("router_jitter_noise", "random noise at the router is not supported");
}

void ministral3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::ministral3, .theta = 1e6});
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
  fields.decoder(c, {.sizes = usual::minimax_m2, .theta = 5e6, .rotary_share = RotaryShare::may_be_partial});
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

constexpr std::string_view kBlockLayer = "minimax_m3_sparse", kPlainLayer = "full_attention";

// Which layers choose blocks: those of `layer_types`, or of a list of 0 and 1 in the object of older files.
std::vector<bool> read_sparse_attention(ConfigFields& in, ConfigFields* object, std::int64_t layers) {
  if (const Json* list = in.find("layer_types")) {
    std::vector<bool> sparse;
    for (const Json& type : entries_of_layers(in, "layer_types", *list, layers)) {
      if (type != kBlockLayer && type != kPlainLayer)
        in.fail("layer_types", "has a layer of kind {}; {} and {} are supported", printable(dump_json(type)),
                kPlainLayer, kBlockLayer);
      sparse.push_back(type == kBlockLayer);
    }
    return sparse;
  }
  const auto flags = object != nullptr ? read_layer_flags(*object, "sparse_attention_freq", layers) : std::nullopt;
  return flags.value_or(std::vector<bool>(static_cast<std::size_t>(layers), false));
}

void read_blocks(ConfigFields& in, TransformerConfig& c) {
  Architecture& a = c.architecture;
  std::optional<ConfigFields> object = in.object("sparse_attention_config");
  const auto size = [&](std::string_view key, std::string_view old, std::int64_t absent) {
    return in.has(key) || !object ? in.size(key, absent) : object->size(old, absent);
  };
  const std::vector<bool> layers = read_sparse_attention(in, object ? &*object : nullptr, c.layers);
  KeySelection s = {.heads = size("index_n_heads", "sparse_num_index_heads", 4),
                    .head_size = size("index_head_dim", "sparse_index_dim", 128),
                    .rotated = rotated_width(c, a.rotary),
                    .kept = size("index_topk_blocks", "sparse_topk_blocks", 16),
                    .block = size("index_block_size", "sparse_block_size", 128),
                    .local = size("index_local_blocks", "sparse_local_block", 1),
                    .layers = pattern_of(layers, true)};
  if (std::ranges::find(layers, true) == layers.end()) return;
  if (s.head_size < s.rotated)
    in.fail("index_head_dim", "is {}, less than the {} elements that are rotated", s.head_size, s.rotated);
  a.selection = std::move(s);
}

void write_blocks(const TransformerConfig& c, FamilyFields& fields) {
  const KeySelection& s = c.architecture.selection;
  fields.write_layers("layer_types", c,
                      [&](std::int64_t layer) { return s.has_indexer(layer) ? kBlockLayer : kPlainLayer; });
  if (s.heads == 0) return;
  fields.write("index_n_heads", s.heads);
  fields.write("index_head_dim", s.head_size);
  fields.write("index_topk_blocks", s.kept);
  fields.write("index_block_size", s.block);
  fields.write("index_local_blocks", s.local);
}

void layers_with_experts(FamilyFields& fields, TransformerConfig& c) {
  const Architecture& a = c.architecture;
  if (ConfigFields* in = fields.in()) {
    auto layers = read_sparse_layers(*in, c);
    if (!layers) layers = read_layer_flags(*in, "moe_layer_freq", c.layers);
    if (layers && std::ranges::find(*layers, true) == layers->end())
      in->fail("moe_layer_freq", "names no layer with experts");
    set_expert_layers(c, layers.value_or(std::vector<bool>(static_cast<std::size_t>(c.layers), true)),
                      in->size("dense_intermediate_size", 12288));
    in->skip("moe_layer_freq");
  }
  fields.write_layers("mlp_layer_types", c,
                      [&](std::int64_t layer) { return a.has_experts(layer) ? "sparse" : "dense"; });
  if (a.experts.dense_width > 0) fields.write("dense_intermediate_size", a.experts.dense_width);
}

void minimax_m3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::minimax_m3_vl_text,
                     .activation_key = {},
                     .theta = 5e6,
                     .rotary_share = RotaryShare::may_be_partial});
  Architecture& a = c.architecture;
  a.norm_adds_one = true;
  a.projection_norm = ProjectionNorm::per_head;
  rotated_part(fields, c, std::min<std::int64_t>(64, c.head_size()));
  experts(fields, c, {.count_key = "num_local_experts", .count = 128, .per_token = 4});
  Experts& experts = a.experts;
  experts.normalised = true;
  experts.shared_gate = false;
  ExpertRules& rules = experts.rules;
  rules.scores = RouterScores::sigmoid;
  rules.has_correction = rules.limits_all = true;
  fields.positive("routed_scaling_factor", rules.scale, 2);
  fields.positive("swiglu_limit", rules.limit, 7);
  fields.positive("swiglu_alpha", rules.slope, 1.702);
  fields.size("shared_intermediate_size", experts.shared_width, 3072);
  layers_with_experts(fields, c);
  ConfigFields* in = fields.in();
  if (in == nullptr) return write_blocks(c, fields);
  read_blocks(*in, c);
  if (const std::string kind = in->text("hidden_act", "silu"); kind != "silu" && kind != "swigluoai")
    in->fail("hidden_act", "is neither silu nor swigluoai; this family has SwiGLU in limits alone");
  in->refuse("router_jitter_noise", "random noise at the router is not supported");
  // Of prediction of several tokens, and of fields that say what the family has always.
  fields.skip({"num_mtp_modules", "use_mtp", "mtp_transformer_layers", "num_nextn_predict_layers", "scoring_func",
               "use_routing_bias", "use_qk_norm", "qk_norm_type", "use_gemma_norm", "head_dim"});
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

extern const Family family_minimax_m3_vl_text{
    "minimax_m3_vl_text",
    "MiniMaxM3VLForCausalLM",
    minimax_m3,
    {.gate_up = "gate_up_proj", .shared_expert = "shared_experts", .stored_experts = StoredExperts::halves},
    kNotModelled};

}  // namespace ridgepoint
