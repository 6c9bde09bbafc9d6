// Qwen 3 MoE: Qwen 3 with experts.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_qwen3_moe(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {.vocab = 151936,
                                              .hidden = 2048,
                                              .intermediate = 768,
                                              .layers = 24,
                                              .heads = 32,
                                              .kv_heads = 4,
                                              .max_positions = 32768,
                                              .intermediate_key = "moe_intermediate_size"});
  c.architecture.projection_bias = c.architecture.output_bias = fields.flag("attention_bias", false);
  c.architecture.projection_norm = ProjectionNorm::per_head;
  c.architecture.rotary = read_rotary(fields, c, 10000);
  read_qwen_experts(fields, c, {.count = 128, .per_token = 8});
  return c;
}

void write_qwen3_moe(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  fields["attention_bias"] = c.architecture.projection_bias;
  write_rotary(c.architecture.rotary, fields);
  write_qwen_experts(c, fields);
}

}  // namespace ridgepoint
