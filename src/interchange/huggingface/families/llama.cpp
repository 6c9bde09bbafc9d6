// Llama 1, 2 and 3, and the many models that take its name in config.json.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void llama(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {});
  attention_bias(fields, c.architecture, false);
  fields.flag("mlp_bias", c.architecture.feed_forward_bias, false);
  fields.skip({"pretraining_tp"});  // products in slices, with the same results
}

}  // namespace

extern const Family family_llama{"llama", "LlamaForCausalLM", llama};

}  // namespace ridgepoint
