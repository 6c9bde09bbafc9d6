// Mistral: Llama with grouped heads and a sliding window in all layers.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_mistral(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {.intermediate = 14336, .kv_heads = 8, .max_positions = 131072});
  c.architecture.rotary = read_rotary(fields, c, 10000);
  read_windows(fields, c, fields.optional_size("sliding_window", 4096),
               std::vector<bool>(static_cast<std::size_t>(c.layers), true));
  return c;
}

void write_mistral(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  write_rotary(c.architecture.rotary, fields);
  const std::int64_t window = c.architecture.window;
  fields["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
}

}  // namespace ridgepoint
