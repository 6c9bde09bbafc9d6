// Gemma 1: Llama with norms that multiply by 1 + weight and a scaled embedding that is also the head. Gemma 2 and 3:
// norms before and after attention and feed-forward that multiply by 1 + weight, a scaled embedding that is also the
// head, and windows in some layers. Gemma 2 has caps of scores and logits, and a window in every second layer, the
// first one included. Gemma 3, the text model, has norms of queries and keys in each head, five layers with a window
// for each one without, and a rotary embedding of its own for those with a window.
#include <fmt/format.h>

#include <cmath>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void gemma(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.vocab = 256000,
                     .hidden = 3072,
                     .intermediate = 24576,
                     .layers = 28,
                     .heads = 16,
                     .kv_heads = 16,
                     .head_dim = 256,
                     .max_positions = 8192,
                     .tied = true,
                     .activation = "gelu_pytorch_tanh"});
  Architecture& a = c.architecture;
  a.norm_adds_one = true;
  a.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  attention_bias(fields, a, false);
  fields.skip({"hidden_activation"});  // transformers reads hidden_act
  fields.refuse("use_bidirectional_attention", "attention to later tokens is not supported");
}

// `theta` as in DecoderDefaults.
TransformerConfig read_gemma(ConfigFields& fields, std::int64_t vocab, std::int64_t max_positions, double logit_cap,
                             std::optional<double> theta) {
  TransformerConfig c = read_decoder(fields, {.vocab = vocab,
                                              .hidden = 2304,
                                              .intermediate = 9216,
                                              .layers = 26,
                                              .heads = 8,
                                              .kv_heads = 4,
                                              .head_dim = 256,
                                              .max_positions = max_positions,
                                              .tied = true,
                                              .activation_key = "hidden_activation",
                                              .activation = "gelu_pytorch_tanh",
                                              .theta = theta});
  Architecture& a = c.architecture;
  a.placement = NormPlacement::both;
  a.norm_adds_one = true;
  a.projection_bias = a.output_bias = fields.flag("attention_bias", false);
  a.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  const double scalar = fields.positive("query_pre_attn_scalar", 256);
  if (scalar != static_cast<double>(c.head_size())) a.query_scale = 1 / std::sqrt(scalar);
  a.logit_cap = read_cap(fields, "final_logit_softcapping", logit_cap);
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
      whole < 1e15 && std::abs(scalar - whole) < 1e-9 * whole ? Json(static_cast<std::int64_t>(whole)) : Json(scalar);
  fields["final_logit_softcapping"] = a.logit_cap > 0 ? Json(a.logit_cap) : Json(nullptr);
  fields["attn_logit_softcapping"] = a.score_cap > 0 ? Json(a.score_cap) : Json(nullptr);
  write_window(c, fields);
  write_layer_types(c, fields);
}

TransformerConfig read_gemma2(ConfigFields& fields) {
  TransformerConfig c = read_gemma(fields, 256000, 8192, 30, 10000);
  c.architecture.score_cap = read_cap(fields, "attn_logit_softcapping", 50);
  read_windows(fields, c, fields.optional_size("sliding_window", 4096), windows_but_every(2, c.layers));
  return c;
}

constexpr double kGlobalTheta = 1e6;
constexpr double kWindowTheta = 10000;

TransformerConfig read_gemma3(ConfigFields& fields) {
  TransformerConfig c = read_gemma(fields, 262208, 131072, 0, std::nullopt);
  Architecture& a = c.architecture;
  a.projection_norm = ProjectionNorm::per_head;
  fields.refuse("attn_logit_softcapping", "transformers does not apply it to this family");
  a.separate_rotary = true;
  const double window_theta = fields.positive("rope_local_base_freq", kWindowTheta);
  if (!read_rotaries_by_kind(fields, c, kGlobalTheta, kWindowTheta)) {
    a.rotary = read_rotary(fields, c, {.theta = kGlobalTheta});
    a.window_rotary.theta = window_theta;
  }
  const std::int64_t period = fields.size("_sliding_window_pattern", fields.size("sliding_window_pattern", 6));
  read_windows(fields, c, fields.optional_size("sliding_window", 4096), windows_but_every(period, c.layers));
  return c;
}

void write_gemma3(const TransformerConfig& c, Json& fields) {
  write_gemma(c, fields);
  fields["rope_local_base_freq"] = c.architecture.window_rotary.theta;
}

constexpr WeightNames kGemmaNames = {.norms = {"input_layernorm", "post_attention_layernorm",
                                               "pre_feedforward_layernorm", "post_feedforward_layernorm"}};

}  // namespace

extern const Family family_gemma{"gemma", "GemmaForCausalLM", read_by<gemma>, write_by<gemma>};
extern const Family family_gemma2{"gemma2", "Gemma2ForCausalLM", read_gemma2, write_gemma, kGemmaNames};
extern const Family family_gemma3{"gemma3_text", "Gemma3ForCausalLM", read_gemma3, write_gemma3, kGemmaNames};

}  // namespace ridgepoint
