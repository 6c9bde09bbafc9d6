// Mistral: Llama with grouped heads and a sliding window in all layers. Mixtral: Mistral with experts, whose weights
// for a token sum to 1.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

TransformerConfig read_mistral(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {.intermediate = 14336, .kv_heads = 8, .max_positions = 131072});
  read_window_of_all_layers(fields, c, 4096);
  return c;
}

void write_mistral(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  write_window(c, fields);
}

TransformerConfig read_mixtral(ConfigFields& fields) {
  TransformerConfig c = read_decoder(
      fields, {.intermediate = 14336, .kv_heads = 8, .max_positions = 131072, .epsilon = 1e-5, .theta = 1e6});
  read_window_of_all_layers(fields, c, std::nullopt);
  read_experts(fields, c, {.count_key = "num_local_experts", .count = 8, .per_token = 2});
  c.architecture.experts.normalised = true;
  fields.refuse("router_jitter_noise", "random noise at the router is not supported");
  return c;
}

void write_mixtral(const TransformerConfig& c, Json& fields) {
  write_mistral(c, fields);
  write_experts(c, "num_local_experts", fields);
}

}  // namespace

extern const Family family_mistral{"mistral", "MistralForCausalLM", read_mistral, write_mistral};
extern const Family family_mixtral{
    "mixtral",
    "MixtralForCausalLM",
    read_mixtral,
    write_mixtral,
    {.experts = "block_sparse_moe", .expert_gate = "w1", .expert_up = "w3", .expert_down = "w2"},
    {.routes_wide = true}};

}  // namespace ridgepoint
