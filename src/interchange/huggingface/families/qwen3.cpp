// Qwen 3: RMS norms of queries and keys in each head, and heads whose size is a field of its own.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/qwen.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_qwen3(ConfigFields& fields) {
  TransformerConfig c = read_decoder(
      fields, {.vocab = 151936, .intermediate = 22016, .kv_heads = 32, .head_dim = 128, .max_positions = 32768});
  c.architecture.projection_bias = c.architecture.output_bias = fields.flag("attention_bias", false);
  c.architecture.projection_norm = ProjectionNorm::per_head;
  c.architecture.rotary = read_rotary(fields, c, 10000);
  read_qwen_windows(fields, c);
  return c;
}

void write_qwen3(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  fields["attention_bias"] = c.architecture.projection_bias;
  write_rotary(c.architecture.rotary, fields);
  write_qwen_windows(c, fields);
}

}  // namespace ridgepoint
