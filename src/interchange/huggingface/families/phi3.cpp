// Phi-3 and Phi-4: Llama whose projections of q, k and v, and of gate and up, are stored as one weight each.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_phi3(ConfigFields& fields) {
  TransformerConfig c = read_decoder(
      fields, {.vocab = 32064, .hidden = 3072, .intermediate = 8192, .max_positions = 4096, .epsilon = 1e-5});
  c.architecture.rotary = read_rotary(fields, c, 10000, RotaryShare::may_be_partial);
  read_windows(fields, c, fields.optional_size("sliding_window", std::nullopt),
               std::vector<bool>(static_cast<std::size_t>(c.layers), true));
  fields.refuse("attention_bias", "biases of this family are not supported");
  fields.skip("original_max_position_embeddings");  // for kinds of scaling that are refused
  return c;
}

void write_phi3(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  write_rotary(c.architecture.rotary, fields);
  const std::int64_t window = c.architecture.window;
  fields["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  fields["pad_token_id"] = nullptr;  // its default lies outside small vocabularies
}

}  // namespace ridgepoint
