// OLMo 2: norms of the results of attention and feed-forward, and of all queries and all keys together.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_olmo2(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {.vocab = 50304, .epsilon = 1e-5});
  Architecture& a = c.architecture;
  a.placement = NormPlacement::after;
  a.projection_norm = ProjectionNorm::whole;
  a.projection_bias = a.output_bias = fields.flag("attention_bias", false);
  a.rotary = read_rotary(fields, c, 10000);
  return c;
}

void write_olmo2(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  fields["attention_bias"] = c.architecture.projection_bias;
  write_rotary(c.architecture.rotary, fields);
}

}  // namespace ridgepoint
