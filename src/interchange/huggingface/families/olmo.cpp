// OLMo 2: norms of the results of attention and feed-forward, and of all queries and all keys together.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

TransformerConfig read_olmo2(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {.vocab = 50304, .epsilon = 1e-5});
  Architecture& a = c.architecture;
  a.placement = NormPlacement::after;
  a.projection_norm = ProjectionNorm::whole;
  a.projection_bias = a.output_bias = fields.flag("attention_bias", false);
  return c;
}

void write_olmo2(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  fields["attention_bias"] = c.architecture.projection_bias;
}

}  // namespace

extern const Family family_olmo2{"olmo2",
                                 "Olmo2ForCausalLM",
                                 read_olmo2,
                                 write_olmo2,
                                 {.norms = {"", "post_attention_layernorm", "", "post_feedforward_layernorm"}},
                                 {.casts_rotated = true, .scales_norms_wide = true}};

}  // namespace ridgepoint
