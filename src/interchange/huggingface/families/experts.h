// The fields of models with experts (Mixtral, Qwen MoE).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "interchange/huggingface/config/config_fields.h"
#include "interchange/huggingface/families/decoder.h"
#include "models/transformer/transformer.h"

namespace ridgepoint {

// Throws Error, when reading, for a token with more experts than a layer has.
void check_experts_per_token(FamilyFields& fields, const Experts& experts,
                             std::string_view key = "num_experts_per_tok");

struct ExpertDefaults {
  std::string_view count_key = "num_experts";
  std::int64_t count = 0;
  std::int64_t per_token = 0;
  std::string_view per_token_key = "num_experts_per_tok";
};

// Which layers have experts, and the width of the others, which is the field "intermediate_size".
void set_expert_layers(TransformerConfig& config, const std::vector<bool>& layers, std::int64_t dense_width);
// Layers from the field `key` on have experts, unless the list "mlp_layer_types" says which: "sparse" or "dense".
void expert_layers_from(FamilyFields& fields, TransformerConfig& config, std::int64_t absent_first,
                        std::int64_t absent_width, std::string_view key = "first_k_dense_replace");
// Which layers have experts, from that list; empty where the file has none.
std::optional<std::vector<bool>> read_sparse_layers(ConfigFields& fields, const TransformerConfig& config);
// The fields of mixtures after DeepSeek's: moe_intermediate_size, n_routed_experts, n_shared_experts, n_group,
// topk_group, routed_scaling_factor and norm_topk_prob.
struct DeepSeekExperts {
  std::int64_t width = 1408, dense_width = 10944, count = 64, per_token = 6, shared = 1, groups = 1, of_groups = 1;
  std::int64_t first = 1;
  double scale = 1;
  bool normalised = true;
};
void deepseek_experts(FamilyFields& fields, TransformerConfig& config, const DeepSeekExperts& absent);
// Says that the loss that balances the experts is off: transformers has none for the family.
void skip_auxiliary_loss(FamilyFields& fields);

// The number of experts, of those that a token runs, and the auxiliary loss, which transformers adds only with
// output_router_logits. Throws Error for a token with more experts than there are.
void experts(FamilyFields& fields, TransformerConfig& config, const ExpertDefaults& defaults);
// Those, and which layers have experts: of the Qwen families.
struct QwenExperts {
  std::int64_t dense_width = 0;  // of layers without experts
  bool normalised = false;
};
void qwen_experts(FamilyFields& fields, TransformerConfig& config, const ExpertDefaults& defaults,
                  const QwenExperts& absent);

}  // namespace ridgepoint
