// The fields of models with experts (Mixtral, Qwen MoE).
#pragma once

#include <string_view>

#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer.h"

namespace ridgepoint {

struct ExpertDefaults {
  std::string_view count_key = "num_experts";
  std::int64_t count = 0;
  std::int64_t per_token = 0;
};

// The number of experts, of those that a token runs, and the auxiliary loss, which transformers adds only with
// output_router_logits. Throws Error for a token with more experts than there are.
void read_experts(ConfigFields& fields, TransformerConfig& config, const ExpertDefaults& defaults);
void write_experts(const TransformerConfig& config, std::string_view count_key, Json& fields);

}  // namespace ridgepoint
