// Llama 1, 2 and 3, and the many models that take its name in config.json. Llama with a few things changed: layers
// without rotary embedding (SmolLM 3), biases (Seed-OSS, ERNIE 4.5), norms of rotated queries and keys (Hunyuan), norms
// after attention and feed-forward with layers that see everything and rotate nothing (EXAONE 4), and multipliers
// (Granite, MiniCPM).
#include <cmath>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void llama(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {});
  attention_bias(fields, c.architecture, false);
  fields.flag("mlp_bias", c.architecture.feed_forward_bias, false);
  fields.skip({"pretraining_tp"});  // products in slices, with the same results
}

// no_rope_layers has a 1 for each layer that rotates.
void layers_that_rotate(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  if (ConfigFields* in = fields.in()) {
    const std::int64_t period = in->size("no_rope_layer_interval", 4);
    std::vector<bool> layers =
        read_layer_flags(*in, "no_rope_layers", c.layers).value_or(windows_but_every(period, c.layers));
    layers.flip();
    a.unrotated_layers = pattern_of(layers, false);
  }
  fields.write_layers("no_rope_layers", c, [&](std::int64_t layer) { return a.is_rotated(layer) ? 1 : 0; });
}

void smollm3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::smollm3, .theta = 2e6});
  Architecture& a = c.architecture;
  attention_bias(fields, a, false);
  fields.flag("mlp_bias", a.feed_forward_bias, false);
  layers_that_rotate(fields, c);
  bool has_windows = a.window > 0;
  fields.flag("use_sliding_window", has_windows, false);
  if (has_windows) {
    const auto is_unrotated = [&](std::int64_t layer) { return !a.is_rotated(layer); };
    return windows(fields, c, std::nullopt, layers_where(c.layers, is_unrotated));
  }
  fields.skip({"sliding_window", "layer_types", "max_window_layers"});
  fields.write("sliding_window", nullptr);
}

void seed_oss(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::seed_oss, .theta = 1e7});
  fields.flag("attention_bias", c.architecture.projection_bias, true);
  fields.flag("attention_out_bias", c.architecture.output_bias, false);
  fields.flag("mlp_bias", c.architecture.feed_forward_bias, false);
  fields.write("residual_dropout", 0.0);
}

constexpr DecoderDefaults kErnie = {.sizes = usual::ernie4_5, .theta = 500000};

void ernie4_5(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, kErnie);
  attention_bias(fields, c.architecture, false, "use_bias");
  c.architecture.feed_forward_bias = c.architecture.projection_bias;
  fields.refuse("compression_ratio", "positions that are compressed are not supported");
}

// The layers with experts are those from a first to a last one whose number, counted from 1, is a multiple.
void ernie_layers(FamilyFields& fields, TransformerConfig& c) {
  std::int64_t first = 1, last = c.layers - 1, step = 1;
  const Architecture& a = c.architecture;
  if (ConfigFields* in = fields.in()) {
    first = static_cast<std::int64_t>(in->not_negative("moe_layer_start_index", 1));
    const Json* end = in->find("moe_layer_end_index");
    if (end != nullptr && *end != -1) last = in->size("moe_layer_end_index", 1);
    step = in->size("moe_layer_interval", 1);
    const std::vector<bool> layers = layers_where(
        c.layers, [&](std::int64_t layer) { return layer >= first && layer <= last && (layer + 1) % step == 0; });
    if (std::ranges::find(layers, true) == layers.end())
      in->fail("moe_layer_start_index", "is {} of {} layers: none would have experts", first, c.layers);
    set_expert_layers(c, layers, in->size("intermediate_size", 12288));
    return;
  }
  std::vector<std::int64_t> numbers;
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    if (a.has_experts(layer)) numbers.push_back(layer);
  }
  fields.write("moe_layer_start_index", numbers.front());
  fields.write("moe_layer_end_index", numbers.back());
  fields.write("moe_layer_interval", numbers.size() > 1 ? numbers[1] - numbers[0] : 1);
  fields.write("intermediate_size", a.experts.dense_width > 0 ? a.experts.dense_width : c.d_ff);
}

void ernie4_5_moe(FamilyFields& fields, TransformerConfig& c) {
  DecoderDefaults defaults = kErnie;
  defaults.sizes = usual::ernie4_5_moe;
  defaults.intermediate_key = "moe_intermediate_size";
  fields.decoder(c, defaults);
  Architecture& a = c.architecture;
  attention_bias(fields, a, false, "use_bias");
  a.head_bias = a.projection_bias;
  if (a.projection_bias) fields.refuse("use_bias", "biases of experts are not supported in this family");
  experts(fields, c, {.count_key = "moe_num_experts", .count = 64, .per_token = 6, .per_token_key = "moe_k"});
  a.experts.normalised = true;
  a.experts.rules.has_correction = true;
  a.experts.shared_gate = false;
  std::int64_t shared = c.d_ff > 0 ? a.experts.shared_width / c.d_ff : 0;
  if (ConfigFields* in = fields.in()) {
    shared = static_cast<std::int64_t>(in->not_negative("moe_num_shared_experts", 2));
    a.experts.shared_width = shared * c.d_ff;
  }
  fields.write("moe_num_shared_experts", shared);
  fields.skip({"moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free"});
  ernie_layers(fields, c);
}

void hunyuan(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::hunyuan_v1_dense});
  Architecture& a = c.architecture;
  attention_bias(fields, a, false);
  a.projection_norm = ProjectionNorm::rotated;
  fields.skip({"pretraining_tp"});
  ConfigFields* in = fields.in();
  if (in == nullptr || a.rotary.scaling != RotaryScaling::dynamic) return;
  // With alpha the base is larger at every length.
  std::optional<ConfigFields> object = rotary_object(*in);
  const double alpha = object->positive("alpha", 0.5);
  if (alpha == 0.5) return;
  const auto width = static_cast<double>(c.head_size());
  a.rotary = {.theta = a.rotary.theta * std::pow(alpha, width / (width - 2))};
}

// "LLLG" or 4: the layers of a period, of which the last sees everything; the last layer of all does so, too.
std::vector<bool> exaone_windows(ConfigFields& fields, std::int64_t layers) {
  constexpr const char* kKey = "sliding_window_pattern";
  const Json* pattern = fields.find(kKey);
  if (pattern == nullptr || !pattern->is_string()) return windows_but_every(fields.size(kKey, 4), layers);
  const std::string letters = pattern->get<std::string>();
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
    fields.fail(kKey, "must be a number or a word of the letters L and G");
  return layers_where(layers, [&](std::int64_t layer) {
    return letters[static_cast<std::size_t>(layer) % letters.size()] == 'L' && layer + 1 < layers;
  });
}

void exaone4(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::exaone4});
  Architecture& a = c.architecture;
  a.placement = NormPlacement::after;
  a.projection_norm = ProjectionNorm::per_head;
  std::vector<bool> absent(static_cast<std::size_t>(c.layers), false);
  if (ConfigFields* in = fields.in()) {
    if (in->has("sliding_window") || !in->contains("sliding_window")) absent = exaone_windows(*in, c.layers);
    in->skip("sliding_window_pattern");
  }
  windows(fields, c, 4096, absent);
  if (a.window > 0) rotate_with_window(c);
}

void granite(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {});
  attention_bias(fields, c.architecture, false);
  fields.flag("mlp_bias", c.architecture.feed_forward_bias, false);
  granite_multipliers(fields, c.architecture);
}

void granitemoe(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {});
  attention_bias(fields, c.architecture, false);
  granite_multipliers(fields, c.architecture);
  experts(fields, c, {.count_key = "num_local_experts", .count = 8, .per_token = 2});
  c.architecture.experts.rules.scores = RouterScores::softmax_of_chosen;
}

// Its own code, which transformers downloads.
void minicpm(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::minicpm});
  attention_bias(fields, c.architecture, false);
  minicpm_multipliers(fields, c);
}

}  // namespace

extern const Family family_llama{"llama", "LlamaForCausalLM", llama};

void granite_multipliers(FamilyFields& fields, Architecture& a) {
  double divisor = a.logit_scale == 0 ? 1 : 1 / a.logit_scale;
  fields.positive("embedding_multiplier", a.embedding_scale, 1);
  fields.positive("residual_multiplier", a.residual_scale, 1);
  fields.positive("attention_multiplier", a.query_scale, 1);
  fields.positive("logits_scaling", divisor, 1);
  a.logit_scale = 1 / divisor;
}

void minicpm_multipliers(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  const double root = std::sqrt(static_cast<double>(c.layers));
  const auto width = static_cast<double>(c.d_model);
  double depth = a.residual_scale * root, base = a.logit_scale * width;
  fields.positive("scale_emb", a.embedding_scale, 1);
  fields.positive("scale_depth", depth, 1);
  fields.positive("dim_model_base", base, 1);
  a.residual_scale = depth / root;
  a.logit_scale = base / width;
  fields.refuse("num_experts", "MiniCPM with experts is not supported");
  fields.skip({"pretraining_tp", "mup_denominator"});
}

extern const Family family_smollm3{"smollm3", "SmolLM3ForCausalLM", smollm3};
extern const Family family_seed_oss{"seed_oss", "SeedOssForCausalLM", seed_oss};
extern const Family family_ernie4_5{"ernie4_5",
                                    "Ernie4_5ForCausalLM",
                                    ernie4_5,
                                    {.adjacent_pairs = true},
                                    {.casts_rotated = true, .rotates_wide = true, .repeats_tables = true}};
extern const Family family_ernie4_5_moe{
    "ernie4_5_moe",
    "Ernie4_5_MoeForCausalLM",
    ernie4_5_moe,
    {.shared_expert = "shared_experts",
     .correction = "moe_statics.e_score_correction_bias",
     .correction_is_row = true,
     .adjacent_pairs = true},
    {.casts_rotated = true, .rotates_wide = true, .repeats_tables = true, .routes_without_autocast = true}};
extern const Family family_hunyuan_v1_dense{
    "hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", hunyuan, {.q_norm = "query_layernorm", .k_norm = "key_layernorm"}};
extern const Family family_exaone4{"exaone4",
                                   "Exaone4ForCausalLM",
                                   exaone4,
                                   {.norms = {"", "post_attention_layernorm", "", "post_feedforward_layernorm"}}};
extern const Family family_granite{"granite", "GraniteForCausalLM", granite};
extern const Family family_granitemoe{"granitemoe",
                                      "GraniteMoeForCausalLM",
                                      granitemoe,
                                      {.experts = "block_sparse_moe",
                                       .router = "router.layer",
                                       .stored_experts = StoredExperts::halves,
                                       .expert_gate_up = "input_linear.weight",
                                       .experts_down = "output_linear.weight"}};
extern const Family family_minicpm{"minicpm", "MiniCPMForCausalLM", minicpm, {}, kNotModelled};

}  // namespace ridgepoint
