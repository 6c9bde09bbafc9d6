// Qwen 2 and 2.5: Llama with biases of q, k and v. Qwen 3: RMS norms of queries and keys in each head, and heads whose
// size is a field of its own. Each with experts: Qwen 1.5 and 2 MoE, of whose experts every token runs one, and Qwen 3
// MoE.

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/experts.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

void write_qwen_windows(FamilyFields& fields, const TransformerConfig& c) {
  const std::int64_t window = c.architecture.window;
  fields.write("use_sliding_window", window > 0);
  fields.write_or_null("sliding_window", window);
  // transformers reads layer_types if it is there.
  fields.write("max_window_layers", window > 0 ? 0 : c.layers);
  write_layer_types(fields, c);
}

// With use_sliding_window the layers from max_window_layers on have the window.
void qwen_windows(FamilyFields& fields, TransformerConfig& c) {
  if (fields.in() == nullptr) return write_qwen_windows(fields, c);
  ConfigFields& in = *fields.in();
  const bool has_window = in.flag("use_sliding_window", false);
  const std::optional<std::int64_t> window = in.optional_size("sliding_window", 4096);
  // 0 gives every layer the window.
  const auto first = static_cast<std::int64_t>(in.not_negative("max_window_layers", 28));
  read_windows(in, c, has_window ? window : std::nullopt,
               layers_where(c.layers, [&](std::int64_t layer) { return has_window && layer >= first; }));
}

// With use_sliding_window, Qwen 3 MoE has the window in every layer, Qwen 2 MoE in every second one before
// max_window_layers, the first included, or in those of layer_types.
void windows_beside_experts(FamilyFields& fields, TransformerConfig& c, bool in_every_layer) {
  if (fields.in() == nullptr) return write_qwen_windows(fields, c);
  ConfigFields& in = *fields.in();
  const bool has_window = in.flag("use_sliding_window", false);
  const std::optional<std::int64_t> window = in.optional_size("sliding_window", 4096);
  const auto end = static_cast<std::int64_t>(in.not_negative("max_window_layers", 28));
  if (!has_window || in_every_layer) in.skip("layer_types");
  if (!has_window || !window) return;
  if (in_every_layer) {
    c.architecture.window = *window;
    return;
  }
  read_windows(in, c, window,
               layers_where(c.layers, [&](std::int64_t layer) { return layer % 2 == 0 && layer < end; }));
}

void qwen2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::qwen2});
  c.architecture.projection_bias = true;
  qwen_windows(fields, c);
}

void qwen3(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::qwen3});
  attention_bias(fields, c.architecture, false);
  c.architecture.projection_norm = ProjectionNorm::per_head;
  qwen_windows(fields, c);
}

void qwen2_moe(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::qwen2_moe, .intermediate_key = "moe_intermediate_size"});
  fields.flag("qkv_bias", c.architecture.projection_bias, true);
  qwen_experts(fields, c, {.count = 60, .per_token = 4}, {.dense_width = 5632});
  fields.size("shared_expert_intermediate_size", c.architecture.experts.shared_width, 5632);
  windows_beside_experts(fields, c, false);
}

void qwen3_moe(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::qwen3_moe, .intermediate_key = "moe_intermediate_size"});
  attention_bias(fields, c.architecture, false);
  c.architecture.projection_norm = ProjectionNorm::per_head;
  qwen_experts(fields, c, {.count = 128, .per_token = 8}, {.dense_width = 6144});
  windows_beside_experts(fields, c, true);
}

}  // namespace

extern const Family family_qwen2{"qwen2", "Qwen2ForCausalLM", qwen2};
extern const Family family_qwen3{"qwen3", "Qwen3ForCausalLM", qwen3};
extern const Family family_qwen2_moe{"qwen2_moe", "Qwen2MoeForCausalLM", qwen2_moe};
extern const Family family_qwen3_moe{"qwen3_moe", "Qwen3MoeForCausalLM", qwen3_moe};

}  // namespace ridgepoint
