// Mixtral: Mistral with experts, whose weights for a token sum to 1.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/huggingface/families/rotary.h"

namespace ridgepoint {

TransformerConfig read_mixtral(ConfigFields& fields) {
  TransformerConfig c =
      read_decoder(fields, {.intermediate = 14336, .kv_heads = 8, .max_positions = 131072, .epsilon = 1e-5});
  c.architecture.rotary = read_rotary(fields, c, 1e6);
  read_windows(fields, c, fields.optional_size("sliding_window", std::nullopt),
               std::vector<bool>(static_cast<std::size_t>(c.layers), true));
  read_experts(fields, c, {.count_key = "num_local_experts", .count = 8, .per_token = 2});
  c.architecture.experts.normalised = true;
  fields.refuse("router_jitter_noise", "random noise at the router is not supported");
  return c;
}

void write_mixtral(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  write_rotary(c.architecture.rotary, fields);
  const std::int64_t window = c.architecture.window;
  fields["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  write_experts(c, "num_local_experts", fields);
}

}  // namespace ridgepoint
