// A tiny configuration of every family, with features that change its weights.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "interchange/huggingface/config/config_fields.h"
#include "interchange/huggingface/model_config.h"
#include "support/graphs/golden_families.h"

namespace ridgepoint::testing {

inline std::vector<TransformerConfig> tiny_models() {
  const std::string sizes =
      R"("vocab_size": 11, "hidden_size": 16, "intermediate_size": 10, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 32, "sliding_window": 4, )";
  const std::string experts =
      R"("moe_intermediate_size": 6, "shared_expert_intermediate_size": 7, "num_experts": 3, "num_local_experts": 3,
         "num_experts_per_tok": 2, )";
  const std::vector<std::string> texts = {
      R"({"model_type": "gpt2", "vocab_size": 11, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 9})",
      "{" + sizes + R"("model_type": "llama", "attention_bias": true, "mlp_bias": true})",
      "{" + sizes + R"("model_type": "mistral"})",
      "{" + sizes + experts + R"("model_type": "mixtral"})",
      "{" + sizes + R"("model_type": "qwen2", "tie_word_embeddings": true})",
      "{" + sizes + R"("model_type": "qwen3", "head_dim": 6})",
      "{" + sizes + experts + R"("model_type": "qwen2_moe"})",
      "{" + sizes + experts + R"("model_type": "qwen3_moe", "head_dim": 6})",
      "{" + sizes + R"("model_type": "gemma2", "head_dim": 6})",
      "{" + sizes + R"("model_type": "gemma3_text", "head_dim": 6})",
      "{" + sizes + R"("model_type": "phi3", "head_dim": 8, "partial_rotary_factor": 0.75})",
      "{" + sizes + R"("model_type": "olmo2"})"};
  std::vector<TransformerConfig> configs;
  for (const std::string& text : texts)
    configs.push_back(parse_model_config(parse_json_object(text, "tiny"), "tiny", {}, "tiny").config);
  // The other families as in their golden files.
  std::set<std::string> found;
  for (const TransformerConfig& config : configs) found.insert(config.architecture.family);
  for (const std::string_view model : golden_families()) {
    TransformerConfig config = read_model_config(golden_families_folder() / model).config;
    if (found.insert(config.architecture.family).second) configs.push_back(std::move(config));
  }
  for (TransformerConfig& config : configs)
    config.context = config.architecture.images.size > 0 ? config.architecture.max_context : 8;
  return configs;
}

}  // namespace ridgepoint::testing
