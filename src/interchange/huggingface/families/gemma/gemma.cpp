// Gemma 1: Llama with norms that multiply by 1 + weight and a scaled embedding that is also the head. Gemma 2 and 3:
// norms before and after attention and feed-forward that multiply by 1 + weight, a scaled embedding that is also the
// head, and windows in some layers. Gemma 2 has caps of scores and logits, and a window in every second layer, the
// first one included. Gemma 3, the text model, has norms of queries and keys in each head, five layers with a window
// for each one without, and a rotary embedding of its own for those with a window.

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

// What Gemma 2 and 3 share. `theta` as in DecoderDefaults.
void gemma_fields(FamilyFields& fields, TransformerConfig& c, std::int64_t vocab, std::int64_t max_positions,
                  double logit_cap, std::optional<double> theta) {
  const DecoderDefaults absent = {.vocab = vocab,
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
                                  .theta = theta};
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
  const auto usual = static_cast<double>(c.head_size());
  double scalar = a.query_scale > 0 ? 1 / (a.query_scale * a.query_scale) : usual;
  if (in != nullptr) {
    scalar = in->positive("query_pre_attn_scalar", 256);
    if (scalar != usual) a.query_scale = 1 / std::sqrt(scalar);
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
  gemma_fields(fields, c, 256000, 8192, 30, 10000);
  fields.cap("attn_logit_softcapping", c.architecture.score_cap, 50);
  windows(fields, c, 4096, windows_but_every(2, c.layers));
}

constexpr double kGlobalTheta = 1e6;
constexpr double kWindowTheta = 10000;

void gemma3(FamilyFields& fields, TransformerConfig& c) {
  gemma_fields(fields, c, 262208, 131072, 0, std::nullopt);
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

}  // namespace

extern const Family family_gemma{"gemma", "GemmaForCausalLM", gemma};
extern const Family family_gemma2{"gemma2", "Gemma2ForCausalLM", gemma2, kGemmaNames};
extern const Family family_gemma3{"gemma3_text", "Gemma3ForCausalLM", gemma3, kGemmaNames};

}  // namespace ridgepoint
