// Qwen 1.5 and 2 MoE: Qwen 2 with experts, one of which every token runs.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_qwen2_moe(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {.vocab = 151936,
                                              .hidden = 2048,
                                              .intermediate = 1408,
                                              .layers = 24,
                                              .heads = 16,
                                              .kv_heads = 16,
                                              .max_positions = 32768,
                                              .intermediate_key = "moe_intermediate_size"});
  c.architecture.projection_bias = fields.flag("qkv_bias", true);
  c.architecture.rotary = read_rotary(fields, c, 10000);
  read_qwen_experts(fields, c, {.count = 60, .per_token = 4});
  c.architecture.experts.shared_width = fields.size("shared_expert_intermediate_size", 5632);
  return c;
}

void write_qwen2_moe(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  fields["qkv_bias"] = c.architecture.projection_bias;
  write_rotary(c.architecture.rotary, fields);
  write_qwen_experts(c, fields);
  fields["shared_expert_intermediate_size"] = c.architecture.experts.shared_width;
}

}  // namespace ridgepoint
