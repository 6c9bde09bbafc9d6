// Gemma 1: Llama with norms that multiply by 1 + weight and a scaled embedding that is also the head. Gemma 2 and 3:
// norms before and after attention and feed-forward that multiply by 1 + weight, a scaled embedding that is also the
// head, and windows in some layers. Gemma 2 has caps of scores and logits, and a window in every second layer, the
// first one included. Gemma 3, the text model, has norms of queries and keys in each head, five layers with a window
// for each one without, and a rotary embedding of its own for those with a window.
// Gemma 3n, the text model: several streams of which a layer transforms one, a projection through a low rank beside
// attention, and gates that keep their largest values in some layers; the last layers read keys and values of layers
// before them, and each reads a vector of each token beside the streams. Gemma 4, the text model: layers without a
// window have wider heads, of which a part is rotated and whose values may be their keys. The last layers may read keys
// and values of layers before them. Beside the stream, each layer may read a vector of each token, and layers may have
// experts beside a feed-forward layer.
#include <algorithm>
#include <cmath>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void gemma(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::gemma, .activation = "gelu_pytorch_tanh"});
  Architecture& a = c.architecture;
  a.norm_adds_one = true;
  a.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  attention_bias(fields, a, false);
  fields.skip({"hidden_activation"});  // transformers reads hidden_act
  fields.refuse("use_bidirectional_attention", "attention to later tokens is not supported");
}

// What Gemma 2 and 3 share. `theta` as in DecoderDefaults.
void gemma_fields(FamilyFields& fields, TransformerConfig& c, const DecoderSizes& sizes, double logit_cap,
                  std::optional<double> theta) {
  const DecoderDefaults absent = {
      .sizes = sizes, .activation_key = "hidden_activation", .activation = "gelu_pytorch_tanh", .theta = theta};
  ConfigFields* in = fields.in();
  fields.decoder(c, in != nullptr ? absent : DecoderDefaults());
  Architecture& a = c.architecture;
  a.placement = NormPlacement::both;
  a.norm_adds_one = true;
  a.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  // Files of 2024 have both names; transformers reads hidden_activation.
  fields.skip({"hidden_act"});
  fields.write("hidden_activation", activation_name(a.activation));
  attention_bias(fields, a, false);
  const auto head_size = static_cast<double>(c.head_size());
  double scalar = a.query_scale > 0 ? 1 / (a.query_scale * a.query_scale) : head_size;
  if (in != nullptr) {
    scalar = in->positive("query_pre_attn_scalar", 256);
    if (scalar != head_size) a.query_scale = 1 / std::sqrt(scalar);
  }
  const double whole = std::round(scalar);
  // The square of a root is rarely the number itself; transformers refuses 24.0 where it declares an integer.
  fields.write("query_pre_attn_scalar", whole < 1e15 && std::abs(scalar - whole) < 1e-9 * whole
                                            ? Json(static_cast<std::int64_t>(whole))
                                            : Json(scalar));
  fields.cap("final_logit_softcapping", a.logit_cap, logit_cap);
  fields.refuse("use_bidirectional_attention", "attention to later tokens is not supported");
}

void gemma2(FamilyFields& fields, TransformerConfig& c) {
  gemma_fields(fields, c, usual::gemma2, 30, 10000);
  fields.cap("attn_logit_softcapping", c.architecture.score_cap, 50);
  windows(fields, c, 4096, windows_but_every(2, c.layers));
}

constexpr double kGlobalTheta = 1e6;
constexpr double kWindowTheta = 10000;

void gemma3(FamilyFields& fields, TransformerConfig& c) {
  gemma_fields(fields, c, usual::gemma3, 0, std::nullopt);
  Architecture& a = c.architecture;
  a.projection_norm = ProjectionNorm::per_head;
  fields.refuse("attn_logit_softcapping", "transformers does not apply it to this family");
  fields.write("attn_logit_softcapping", nullptr);
  a.separate_rotary = true;
  std::int64_t period = 6;
  if (ConfigFields* in = fields.in()) {
    const double window_theta = in->positive("rope_local_base_freq", kWindowTheta);
    if (!read_rotaries_by_kind(*in, c, kGlobalTheta, kWindowTheta)) {
      a.rotary = read_rotary(*in, c, {.theta = kGlobalTheta});
      a.window_rotary.theta = window_theta;
    }
    period = in->size("_sliding_window_pattern", in->size("sliding_window_pattern", period));
  }
  windows(fields, c, 4096, windows_but_every(period, c.layers));
  fields.write("rope_local_base_freq", a.window_rotary.theta);
}

constexpr WeightNames kGemmaNames = {.norms = {"input_layernorm", "post_attention_layernorm",
                                               "pre_feedforward_layernorm", "post_feedforward_layernorm"}};

// The heads of layers without a window: fields of their own, or in files of transformers 5.10 and later an entry for
// each such layer in per_layer_config.
void read_full_heads(ConfigFields& fields, TransformerConfig& c) {
  FullHeads& heads = c.architecture.full_heads;
  heads.keys_are_values = fields.flag("attention_k_eq_v", false);
  std::optional<std::int64_t> size = fields.optional_size("global_head_dim", 512);
  // 0: those of the other layers
  std::int64_t kv_heads = fields.optional_size("num_global_key_value_heads", std::nullopt).value_or(0);
  if (!heads.keys_are_values) kv_heads = 0;
  if (std::optional<ConfigFields> layers = fields.object("per_layer_config")) {
    bool is_first = true;
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
      std::optional<ConfigFields> own = layers->object(std::to_string(layer));
      const bool has_window = c.architecture.has_window(layer);
      if (has_window && !own) continue;
      const std::optional<std::int64_t> own_size = own ? own->optional_size("head_dim", c.head_size()) : std::nullopt;
      const std::int64_t own_heads = own ? own->optional_size("num_key_value_heads", std::nullopt).value_or(0) : 0;
      if (has_window || (!is_first && (own_size != size || own_heads != kv_heads)))
        fields.fail("per_layer_config",
                    "has other heads for layer {} than for the others of its kind; one size of heads for the "
                    "layers without a window is supported",
                    layer);
      size = own_size;
      kv_heads = own_heads;
      is_first = false;
    }
  }
  const std::int64_t usual_size = c.head_size();
  heads.size = size.value_or(usual_size) == usual_size ? 0 : *size;
  heads.kv_heads = kv_heads == c.kv_heads() ? 0 : kv_heads;
  if (c.heads % std::max<std::int64_t>(heads.kv_heads, 1) != 0)
    fields.fail("num_global_key_value_heads", "is {} and does not divide the {} heads", heads.kv_heads, c.heads);
}

// Of one kind of layers. transformers rotates whole heads unless the kind of scaling is `proportional`.
Rotary read_rotary_of_kind(ConfigFields& object, const TransformerConfig& c, double absent_theta,
                           std::int64_t head_size) {
  if (object.text("rope_type", "default") != "proportional") {
    object.skip("partial_rotary_factor");
    if (head_size % 2 != 0) object.fail("rope_type", "needs heads of an even size; these have {}", head_size);
    return read_rotary_object(object, c, absent_theta);
  }
  Rotary rotary{.theta = object.positive("rope_theta", absent_theta),
                .share = object.positive("partial_rotary_factor", 1),
                .scaling = RotaryScaling::proportional,
                .factor = object.positive("factor", 1)};
  if (head_size % 2 != 0 || rotary.share > 1 || rotated_width(rotary, head_size) < 2)
    object.fail("partial_rotary_factor",
                "is {:g}; it must rotate a part of heads of an even size, and these "
                "have {}",
                rotary.share, head_size);
  return rotary;
}

void read_gemma4_rotaries(ConfigFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  std::optional<ConfigFields> both = fields.object("rope_parameters");
  if (!both) return;
  if (std::optional<ConfigFields> object = both->object("full_attention"))
    a.rotary = read_rotary_of_kind(*object, c, 1e6, c.full_head_size());
  if (std::optional<ConfigFields> object = both->object("sliding_attention"))
    a.window_rotary = read_rotary_of_kind(*object, c, 10000, c.head_size());
}

// transformers gives the last layer no window, whatever the list says.
void layers_of_both_kinds(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  windows(fields, c, 512, windows_but_every(6, c.layers));
  if (ConfigFields* in = fields.in()) {
    if (a.has_window(c.layers - 1)) {
      const auto has_window = [&](std::int64_t layer) { return a.has_window(layer) && layer + 1 < c.layers; };
      a.window_layers = pattern_of(layers_where(c.layers, has_window), true);
      in->note("the last layer has no window, as in transformers");
    }
    read_full_heads(*in, c);
    a.rotary = {.theta = 1e6, .share = 0.25, .scaling = RotaryScaling::proportional};
    a.window_rotary = {.theta = 10000};
    read_gemma4_rotaries(*in, c);
  }
  fields.write("attention_k_eq_v", a.full_heads.keys_are_values);
  fields.write("global_head_dim", c.full_head_size());
  fields.write("num_global_key_value_heads", a.full_heads.kv_heads > 0 ? a.full_heads.kv_heads : c.kv_heads());
  write_rotaries_by_kind(fields, a);
}

void experts_beside(FamilyFields& fields, TransformerConfig& c, bool has_experts) {
  if (!has_experts) return;
  Experts& experts = c.architecture.experts;
  if (ConfigFields* in = fields.in()) {
    for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
      if (!in->has(key)) in->fail(key, "is missing; enable_moe_block needs it");
    }
  }
  fields.size("num_experts", experts.count, 1);
  fields.size("top_k_experts", experts.per_token, 1);
  fields.size("intermediate_size", experts.dense_width, 9216);
  check_experts_per_token(fields, experts, "top_k_experts");
  experts.beside_dense = experts.normalised = true;
  experts.rules.router_epsilon = c.architecture.norm_epsilon;
  experts.rules.has_expert_scales = true;
}

// The vectors that each layer reads, and the last layers, which project no keys. Absent: as the family has them.
void per_layer_inputs(FamilyFields& fields, TransformerConfig& c, double absent_layers) {
  Architecture& a = c.architecture;
  if (ConfigFields* in = fields.in()) {
    a.layers_without_keys = static_cast<std::int64_t>(in->not_negative("num_kv_shared_layers", absent_layers));
    if (a.layers_without_keys >= c.layers)
      in->fail("num_kv_shared_layers", "is {}, but there are {} layers: the first ones need keys of their own",
               a.layers_without_keys, c.layers);
    constexpr std::string_view kWidth = "hidden_size_per_layer_input";
    const bool is_null = in->contains(kWidth) && !in->has(kWidth);
    a.per_layer.width = is_null ? 0 : static_cast<std::int64_t>(in->not_negative(kWidth, 256));
    in->skip(kWidth);
    const std::int64_t vocab = in->size("vocab_size_per_layer_input", 262144);
    if (a.per_layer.width > 0) a.per_layer.vocab = vocab;
  }
  fields.write("num_kv_shared_layers", a.layers_without_keys);
  fields.write("hidden_size_per_layer_input", a.per_layer.width);
  if (a.per_layer.width > 0) fields.write("vocab_size_per_layer_input", a.per_layer.vocab);
}

// One share a layer; without the list, 0.95 in the first 10 layers of more than 10.
std::vector<double> read_sparsity(ConfigFields& fields, std::int64_t layers) {
  constexpr std::string_view kKey = "activation_sparsity_pattern";
  const Json* list = fields.find(kKey);
  std::vector<double> shares;
  if (list == nullptr) {
    constexpr std::int64_t kSparse = 10;
    for (std::int64_t layer = 0; layer < layers; ++layer)
      shares.push_back(layers > kSparse && layer < kSparse ? 0.95 : 0.0);
  } else {
    for (const Json& share : entries_of_layers(fields, kKey, *list, layers)) {
      if (!share.is_number() || share.get<double>() < 0 || share.get<double>() >= 1)
        fields.fail(kKey, "has an entry that is no share from 0 to below 1");
      shares.push_back(share.get<double>());
    }
  }
  return std::ranges::all_of(shares, [](double share) { return share == 0; }) ? std::vector<double>() : shares;
}

// intermediate_size may be a list of equal numbers.
void use_one_width(ConfigFields& fields, TransformerConfig& c) {
  const Json* list = fields.find("intermediate_size");
  if (list == nullptr || !list->is_array()) {
    c.d_ff = fields.size("intermediate_size", 16384);
    return;
  }
  const std::vector<Json> widths = entries_of_layers(fields, "intermediate_size", *list, c.layers);
  const bool are_equal = std::ranges::all_of(widths, [&](const Json& one) { return one == widths[0]; });
  if (!are_equal || !widths[0].is_number_unsigned())
    fields.fail("intermediate_size", "must be one number, or a list of {} equal ones", c.layers);
  c.d_ff = widths[0].get<std::int64_t>();
}

void gemma3n(FamilyFields& fields, TransformerConfig& c) {
  const std::int64_t width = c.d_ff;
  fields.decoder(c, {.sizes = usual::gemma3n,
                     .intermediate_key = "_width",
                     .activation_key = "hidden_activation",
                     .activation = "gelu_pytorch_tanh",
                     .theta = std::nullopt});
  fields.write("intermediate_size", width);
  Architecture& a = c.architecture;
  a.placement = NormPlacement::both;
  a.projection_norm = ProjectionNorm::per_head;
  a.value_norm = a.separate_rotary = true;
  a.query_scale = 1;
  a.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  attention_bias(fields, a, false);
  windows(fields, c, 512, windows_but_every(5, c.layers));
  per_layer_inputs(fields, c, 15);
  fields.size("altup_num_inputs", a.updates.streams, 4);
  fields.flag("altup_correct_scale", a.updates.has_scale, true);
  fields.size("laurel_rank", a.low_rank, 64);
  if (ConfigFields* in = fields.in()) {
    use_one_width(*in, c);
    a.updates.active = static_cast<std::int64_t>(in->not_negative("altup_active_idx", 0));
    a.sparsity = read_sparsity(*in, c.layers);
    a.rotary.theta = in->positive("rope_theta", 1e6);
    a.window_rotary.theta = in->positive("rope_local_base_freq", 10000);
    in->refuse("rope_scaling", "rotary embedding of this family is scaled by rope_parameters alone");
    read_gemma4_rotaries(*in, c);
    for (const char* key : {"altup_coef_clip", "hidden_act"}) in->skip(key);
  }
  fields.write("altup_active_idx", a.updates.active);
  fields.cap("final_logit_softcapping", a.logit_cap, 30);
  Json shares =
      a.sparsity.empty() ? Json(std::vector<double>(static_cast<std::size_t>(c.layers), 0.0)) : Json(a.sparsity);
  fields.write("activation_sparsity_pattern", std::move(shares));
  write_rotaries_by_kind(fields, a);
}

void gemma4(FamilyFields& fields, TransformerConfig& c) {
  bool has_experts = c.architecture.experts.count > 0;
  fields.flag("enable_moe_block", has_experts, false);
  fields.decoder(c, {.sizes = usual::gemma4,
                     .intermediate_key = has_experts ? "moe_intermediate_size" : "intermediate_size",
                     .activation_key = "hidden_activation",
                     .activation = "gelu_pytorch_tanh",
                     .theta = std::nullopt});
  Architecture& a = c.architecture;
  a.placement = NormPlacement::both;
  a.projection_norm = ProjectionNorm::per_head;
  a.value_norm = a.separate_rotary = a.layer_scalars = true;
  a.query_scale = 1;
  a.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  attention_bias(fields, a, false);
  experts_beside(fields, c, has_experts);
  layers_of_both_kinds(fields, c);
  per_layer_inputs(fields, c, 0);
  fields.flag("use_double_wide_mlp", a.wide_without_keys, false);
  if (ConfigFields* in = fields.in()) {
    if (in->text("use_bidirectional_attention", "vision") != "vision")
      in->fail("use_bidirectional_attention", "is not 'vision'; attention to later tokens of text is not supported");
    if (!has_experts) {
      for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) in->skip(key);
    }
  }
  fields.cap("final_logit_softcapping", a.logit_cap, 0);
}

constexpr WeightNames kGemma4Names = {.experts = "",
                                      .router = "router.proj",
                                      .stored_experts = StoredExperts::halves,
                                      .norms = {"input_layernorm", "post_attention_layernorm",
                                                "pre_feedforward_layernorm", "post_feedforward_layernorm"}};

}  // namespace

extern const Family family_gemma{"gemma", "GemmaForCausalLM", gemma};
extern const Family family_gemma2{"gemma2", "Gemma2ForCausalLM", gemma2, kGemmaNames};
extern const Family family_gemma3{"gemma3_text", "Gemma3ForCausalLM", gemma3, kGemmaNames};

extern const Family family_gemma3n{
    "gemma3n_text", "Gemma3nForCausalLM", gemma3n, {.norms = kGemma4Names.norms}, kNotModelled};
extern const Family family_gemma4{
    "gemma4_text", "Gemma4ForCausalLM", gemma4, kGemma4Names, {.rotates_by_token = true, .norms_by_power = true}};

}  // namespace ridgepoint
