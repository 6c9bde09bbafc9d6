// The parameters and buffers of torch/transformers/causal_lm.h.
#include "predict/torch/transformers/causal_lm.h"

namespace ridgepoint::torch {

CausalLm::CausalLm(const TransformerConfig& config, bool checkpoints, Functions& functions)
    : config_(config),
      names_(family_of(config).names),
      code_(family_of(config).code),
      checkpoints_(checkpoints),
      f_(functions) {
  Kernels& kernels = f_.kernels();
  const Architecture& a = config.architecture;
  kernels.enter(MemoryCategory::parameter, Thread::python);
  embeddings_ = parameter({config.vocab, config.d_model});
  if (a.positions == Positions::learned) positions_ = parameter({a.max_context, config.d_model});
  for (std::int64_t i = 0; i < config.layers; ++i) layers_.push_back(make_layer(i));
  final_norm_ = make_norm(config.d_model);
  if (!a.tied_head) head_ = make_linear(config.d_model, config.vocab, false);
  kernels.enter(MemoryCategory::data, Thread::python);
  const int tables = a.positions == Positions::learned ? 0 : a.separate_rotary ? 4 : 2;  // inv_freq, and as it was made
  for (int i = 0; i < tables; ++i) buffers_.push_back(kernels.empty({config.head_size() / 2}, DType::fp32));
}

CausalLm::Weights CausalLm::make_norm(std::int64_t width) {
  const Tensor weight = parameter({width});
  return {weight, config_.architecture.norm == Norm::layer_norm ? parameter({width}) : Tensor{}};
}

CausalLm::Weights CausalLm::make_linear(std::int64_t in, std::int64_t out, bool has_bias) {
  const Tensor weight = parameter(names_.is_transposed ? Sizes{in, out} : Sizes{out, in});
  return {weight, has_bias ? parameter({out}) : Tensor{}};
}

void CausalLm::make_attention(Layer& layer) {
  const Architecture& a = config_.architecture;
  const std::int64_t width = config_.d_model;
  const std::int64_t q = config_.heads * config_.head_size();
  const std::int64_t kv = config_.kv_heads() * config_.head_size();
  if (!names_.qkv.empty()) {
    layer.packed = make_linear(width, q + 2 * kv, a.projection_bias);
  } else {
    layer.q = make_linear(width, q, a.projection_bias);
    layer.k = make_linear(width, kv, a.projection_bias);
    layer.v = make_linear(width, kv, a.projection_bias);
  }
  layer.output = make_linear(q, width, a.output_bias);
  if (a.projection_norm == ProjectionNorm::none) return;
  const bool is_whole = a.projection_norm == ProjectionNorm::whole;
  layer.q_norm = make_norm(is_whole ? q : config_.head_size());
  layer.k_norm = make_norm(is_whole ? kv : config_.head_size());
}

void CausalLm::make_feed_forward(Layer& layer) {
  const Architecture& a = config_.architecture;
  const std::int64_t width = config_.d_model;
  const std::int64_t inner = config_.d_ff;
  if (a.experts.count > 0) {
    Router& router = layer.experts;
    router.weight = parameter({a.experts.count, width});
    router.gate_up = parameter({a.experts.count, 2 * inner, width});
    router.down = parameter({a.experts.count, width, inner});
    if (a.experts.shared_width == 0) return;
    router.shared_gate = make_linear(width, a.experts.shared_width, false);
    router.shared_up = make_linear(width, a.experts.shared_width, false);
    router.shared_down = make_linear(a.experts.shared_width, width, false);
    router.shared_switch = make_linear(width, 1, false);
    return;
  }
  const bool is_packed = !names_.gate_up.empty();
  if (a.gated) layer.gate = make_linear(width, is_packed ? 2 * inner : inner, a.feed_forward_bias);
  if (!is_packed) layer.up = make_linear(width, inner, a.feed_forward_bias);
  layer.down = make_linear(inner, width, a.feed_forward_bias);
}

void CausalLm::make_norms(Layer& layer) {
  const NormPlacement placement = config_.architecture.placement;
  const std::int64_t width = config_.d_model;
  if (placement != NormPlacement::after) layer.first_norm = make_norm(width);
  if (placement != NormPlacement::before) layer.after_attention_norm = make_norm(width);
  if (placement != NormPlacement::after) layer.second_norm = make_norm(width);
  if (placement != NormPlacement::before) layer.after_feed_forward_norm = make_norm(width);
}

CausalLm::Layer CausalLm::make_layer(std::int64_t index) {
  Layer layer;
  layer.has_window = config_.architecture.has_window(index);
  make_attention(layer);
  make_feed_forward(layer);
  make_norms(layer);
  return layer;
}

}  // namespace ridgepoint::torch
