// Gemma 4, the text model: layers without a window have wider heads, of which a part is rotated and whose values may be
// their keys. The last layers may read keys and values of layers before them. Beside the stream, each layer may read a
// vector of each token, and layers may have experts beside a feed-forward layer.
#include <fmt/format.h>

#include <cmath>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

// The heads of layers without a window: fields of their own, or in files of transformers 5.10 and later an entry for
// each such layer in per_layer_config.
void read_full_heads(ConfigFields& fields, TransformerConfig& c) {
  FullHeads& heads = c.architecture.full_heads;
  heads.keys_are_values = fields.flag("attention_k_eq_v", false);
  std::optional<std::int64_t> size = fields.optional_size("global_head_dim", 512);
  std::optional<std::int64_t> kv_heads = fields.optional_size("num_global_key_value_heads", std::nullopt);
  if (!heads.keys_are_values) kv_heads = std::nullopt;
  if (std::optional<ConfigFields> layers = fields.object("per_layer_config")) {
    bool is_first = true;
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
      std::optional<ConfigFields> own = layers->object(std::to_string(layer));
      const bool has_window = c.architecture.has_window(layer);
      if (has_window && !own) continue;
      const std::optional<std::int64_t> own_size = own ? own->optional_size("head_dim", c.head_size()) : std::nullopt;
      const std::optional<std::int64_t> own_heads =
          own ? own->optional_size("num_key_value_heads", std::nullopt) : std::nullopt;
      if (has_window || (!is_first && (own_size != size || own_heads != kv_heads)))
        fields.fail(
            "per_layer_config",
            fmt::format("has other heads for layer {} than for the others of its kind; one size of heads for the "
                        "layers without a window is supported",
                        layer));
      size = own_size;
      kv_heads = own_heads;
      is_first = false;
    }
  }
  const std::int64_t usual = c.head_size();
  heads.size = size.value_or(usual) == usual ? 0 : *size;
  heads.kv_heads = kv_heads.value_or(c.kv_heads()) == c.kv_heads() ? 0 : *kv_heads;
  if (c.heads % std::max<std::int64_t>(heads.kv_heads, 1) != 0)
    fields.fail("num_global_key_value_heads",
                fmt::format("is {} and does not divide the {} heads", heads.kv_heads, c.heads));
}

// Of one kind of layers. transformers rotates whole heads unless the kind of scaling is `proportional`.
Rotary read_rotary_of_kind(ConfigFields& object, const TransformerConfig& c, double absent_theta,
                           std::int64_t head_size) {
  if (object.text("rope_type", "default") != "proportional") {
    object.skip("partial_rotary_factor");
    if (head_size % 2 != 0)
      object.fail("rope_type", fmt::format("needs heads of an even size; these have {}", head_size));
    return read_rotary_object(object, c, absent_theta);
  }
  Rotary rotary{.theta = object.positive("rope_theta", absent_theta),
                .share = object.positive("partial_rotary_factor", 1),
                .scaling = RotaryScaling::proportional,
                .factor = object.positive("factor", 1)};
  if (head_size % 2 != 0 || rotary.share > 1 || rotated_width(rotary, head_size) < 2)
    object.fail("partial_rotary_factor",
                fmt::format("is {:g}; it must rotate a part of heads of an even size, and these "
                            "have {}",
                            rotary.share, head_size));
  return rotary;
}

void read_gemma4_rotaries(ConfigFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  a.rotary = {.theta = 1e6, .share = 0.25, .scaling = RotaryScaling::proportional};
  a.window_rotary = {.theta = 10000};
  std::optional<ConfigFields> both = fields.object("rope_parameters");
  if (!both) return;
  if (std::optional<ConfigFields> object = both->object("full_attention"))
    a.rotary = read_rotary_of_kind(*object, c, 1e6, c.full_head_size());
  if (std::optional<ConfigFields> object = both->object("sliding_attention"))
    a.window_rotary = read_rotary_of_kind(*object, c, 10000, c.head_size());
}

Json gemma4_rotary_object(const Rotary& rotary) {
  Json fields = Json::object();
  write_rotary(rotary, fields);
  Json object = fields["rope_scaling"].is_null() ? Json{{"rope_type", "default"}} : fields["rope_scaling"];
  object["rope_theta"] = rotary.theta;
  if (rotary.scaling == RotaryScaling::proportional) object["partial_rotary_factor"] = rotary.share;
  return object;
}

// transformers gives the last layer no window, whatever the list says.
void layers_of_both_kinds(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  windows(fields, c, 512, windows_but_every(6, c.layers));
  if (ConfigFields* in = fields.in()) {
    if (a.has_window(c.layers - 1)) {
      std::vector<bool> layers;
      for (std::int64_t layer = 0; layer < c.layers; ++layer)
        layers.push_back(a.has_window(layer) && layer + 1 < c.layers);
      a.window_layers = pattern_of(layers, true);
      in->note("the last layer has no window, as in transformers");
    }
    read_full_heads(*in, c);
    read_gemma4_rotaries(*in, c);
  }
  fields.write("attention_k_eq_v", a.full_heads.keys_are_values);
  fields.write("global_head_dim", c.full_head_size());
  fields.write("num_global_key_value_heads",
               c.architecture.full_heads.kv_heads > 0 ? Json(a.full_heads.kv_heads) : Json(c.kv_heads()));
  fields.write("rope_parameters", Json{{"full_attention", gemma4_rotary_object(a.rotary)},
                                       {"sliding_attention", gemma4_rotary_object(a.window_rotary)}});
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
  if (experts.per_token > experts.count)
    fields.in()->fail("top_k_experts",
                      fmt::format("is {}, but a layer has {} experts", experts.per_token, experts.count));
  experts.beside_dense = experts.normalised = true;
  experts.rules.router_epsilon = c.architecture.norm_epsilon;
  experts.rules.has_expert_scales = true;
}

void gemma4(FamilyFields& fields, TransformerConfig& c) {
  bool has_experts = c.architecture.experts.count > 0;
  fields.flag("enable_moe_block", has_experts, false);
  fields.decoder(c, {.vocab = 262144,
                     .hidden = 2304,
                     .intermediate = 9216,
                     .layers = 30,
                     .heads = 8,
                     .kv_heads = 4,
                     .head_dim = 256,
                     .max_positions = 131072,
                     .tied = true,
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
  fields.flag("use_double_wide_mlp", a.wide_without_keys, false);
  if (ConfigFields* in = fields.in()) {
    a.logit_cap = in->has("final_logit_softcapping") ? in->positive("final_logit_softcapping", 1) : 0;
    in->skip("final_logit_softcapping");
    a.layers_without_keys = static_cast<std::int64_t>(in->not_negative("num_kv_shared_layers", 0));
    if (a.layers_without_keys >= c.layers)
      in->fail("num_kv_shared_layers",
               fmt::format("is {}, but there are {} layers: the first ones need keys of their own",
                           a.layers_without_keys, c.layers));
    a.per_layer.width = in->contains("hidden_size_per_layer_input") && !in->has("hidden_size_per_layer_input")
                            ? 0
                            : static_cast<std::int64_t>(in->not_negative("hidden_size_per_layer_input", 256));
    in->skip("hidden_size_per_layer_input");
    const std::int64_t vocab = in->size("vocab_size_per_layer_input", 262144);
    if (a.per_layer.width > 0) a.per_layer.vocab = vocab;
    if (in->text("use_bidirectional_attention", "vision") != "vision")
      in->fail("use_bidirectional_attention", "is not 'vision'; attention to later tokens of text is not supported");
    if (!has_experts) {
      for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) in->skip(key);
    }
  }
  fields.write("final_logit_softcapping", a.logit_cap > 0 ? Json(a.logit_cap) : Json(nullptr));
  fields.write("num_kv_shared_layers", a.layers_without_keys);
  fields.write("hidden_size_per_layer_input", a.per_layer.width);
  if (a.per_layer.width > 0) fields.write("vocab_size_per_layer_input", a.per_layer.vocab);
}

constexpr WeightNames kGemma4Names = {.experts = "",
                                      .router = "router.proj",
                                      .stored_experts = StoredExperts::halves,
                                      .norms = {"input_layernorm", "post_attention_layernorm",
                                                "pre_feedforward_layernorm", "post_feedforward_layernorm"}};

}  // namespace

extern const Family family_gemma4{"gemma4_text",    "Gemma4ForCausalLM", read_by<gemma4>,
                                  write_by<gemma4>, kGemma4Names,        kNotModelled};

}  // namespace ridgepoint
