// Llama 1, 2 and 3, and the many models that take its name in config.json.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

TransformerConfig read_llama(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {});
  Architecture& a = c.architecture;
  a.projection_bias = a.output_bias = fields.flag("attention_bias", false);
  a.feed_forward_bias = fields.flag("mlp_bias", false);
  fields.skip("pretraining_tp");  // products in slices, with the same results
  return c;
}

void write_llama(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  fields["attention_bias"] = c.architecture.projection_bias;
  fields["mlp_bias"] = c.architecture.feed_forward_bias;
}

}  // namespace

extern const Family family_llama{"llama", "LlamaForCausalLM", read_llama, write_llama};

}  // namespace ridgepoint
