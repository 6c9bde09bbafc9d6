// Qwen 2 and 2.5: Llama with biases of q, k and v.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/qwen.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_qwen2(ConfigFields& fields) {
  TransformerConfig c =
      read_decoder(fields, {.vocab = 151936, .intermediate = 22016, .kv_heads = 32, .max_positions = 32768});
  c.architecture.projection_bias = true;
  c.architecture.rotary = read_rotary(fields, c, 10000);
  read_qwen_windows(fields, c);
  return c;
}

void write_qwen2(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  write_rotary(c.architecture.rotary, fields);
  write_qwen_windows(c, fields);
}

}  // namespace ridgepoint
