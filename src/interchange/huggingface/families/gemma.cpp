#include "interchange/huggingface/families/gemma.h"

#include <cmath>
#include <cstdint>

namespace ridgepoint {

double read_cap(ConfigFields& fields, std::string_view key, double absent) {
  if (!fields.contains(key)) {
    fields.skip(key);
    return absent;
  }
  return fields.positive(key, 0);
}

TransformerConfig read_gemma(ConfigFields& fields, const GemmaDefaults& defaults) {
  TransformerConfig c = read_decoder(fields, {.vocab = defaults.vocab,
                                              .hidden = 2304,
                                              .intermediate = 9216,
                                              .layers = 26,
                                              .heads = 8,
                                              .kv_heads = 4,
                                              .head_dim = 256,
                                              .max_positions = defaults.max_positions,
                                              .tied = true,
                                              .activation_key = "hidden_activation",
                                              .activation = "gelu_pytorch_tanh"});
  Architecture& a = c.architecture;
  a.placement = NormPlacement::both;
  a.norm_adds_one = true;
  a.projection_bias = a.output_bias = fields.flag("attention_bias", false);
  a.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  const double scalar = fields.positive("query_pre_attn_scalar", 256);
  if (scalar != static_cast<double>(c.head_size())) a.query_scale = 1 / std::sqrt(scalar);
  a.logit_cap = read_cap(fields, "final_logit_softcapping", defaults.logit_cap);
  fields.skip("hidden_act");  // files of 2024 have both names; transformers reads hidden_activation
  fields.refuse("use_bidirectional_attention", "attention to later tokens is not supported");
  return c;
}

void write_gemma(const TransformerConfig& c, Json& fields) {
  const Architecture& a = c.architecture;
  write_decoder(c, fields);
  fields["hidden_activation"] = fields["hidden_act"];
  fields["attention_bias"] = a.projection_bias;
  const double scalar = a.query_scale > 0 ? 1 / (a.query_scale * a.query_scale) : static_cast<double>(c.head_size());
  const double whole = std::round(scalar);
  // The square of a root is rarely the number itself; transformers refuses 24.0 where it declares an integer.
  fields["query_pre_attn_scalar"] =
      std::abs(scalar - whole) < 1e-9 * whole ? Json(static_cast<std::int64_t>(whole)) : Json(scalar);
  fields["final_logit_softcapping"] = a.logit_cap > 0 ? Json(a.logit_cap) : Json(nullptr);
  fields["attn_logit_softcapping"] = a.score_cap > 0 ? Json(a.score_cap) : Json(nullptr);
  fields["sliding_window"] = a.window > 0 ? Json(a.window) : Json(nullptr);
  write_layer_types(c, fields);
}

std::vector<bool> windows_but_every(std::int64_t period, std::int64_t layers) {
  std::vector<bool> windows;
  for (std::int64_t layer = 0; layer < layers; ++layer) windows.push_back((layer + 1) % period != 0);
  return windows;
}

}  // namespace ridgepoint
