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
  if (a.positions == Positions::learned) positions_ = parameter({a.max_context + a.unused_positions, config.d_model});
  if (a.per_layer.width > 0) {
    const std::int64_t width = config.layers * a.per_layer.width;
    inputs_of_layers_ = parameter({a.per_layer.vocab, width});
    projection_of_inputs_ = make_linear(config.d_model, width, false);
    norm_of_inputs_ = make_norm(a.per_layer.width);
  }
  if (a.token_types > 0) token_types_ = parameter({a.token_types, config.d_model});
  if (a.embedding_norm) embedding_norm_ = make_norm(config.d_model);
  for (std::int64_t i = 0; i < config.layers; ++i) layers_.push_back(make_layer(i));
  if (a.final_norm) final_norm_ = make_norm(config.d_model);
  if (a.head_transform) {
    head_transform_ = make_linear(config.d_model, config.d_model, true);
    head_norm_ = make_norm(config.d_model);
  }
  if (!a.tied_head) {
    head_ = make_linear(config.d_model, config.vocab, a.head_bias);
  } else if (a.head_bias) {
    head_.bias = parameter({config.vocab});
  }
  kernels.enter(MemoryCategory::data, Thread::python);
  const int tables = a.positions == Positions::learned ? 0 : a.separate_rotary ? 4 : 2;  // inv_freq, and as it was made
  if (code_.keeps_mask) buffers_.push_back(kernels.empty({a.max_context, a.max_context}, DType::boolean));
  for (int i = 0; i < tables; ++i) buffers_.push_back(kernels.empty({config.head_size() / 2}, DType::fp32));
}

// Of the stream.
CausalLm::Weights CausalLm::make_norm(std::int64_t width) {
  const Architecture& a = config_.architecture;
  return make_norm({width}, a.norm_weights, a.norm == Norm::layer_norm && a.norm_weights && a.norm_biases);
}

CausalLm::Weights CausalLm::make_norm(const Sizes& sizes, bool has_weight, bool has_bias) {
  Weights made;
  if (has_weight) made.weight = parameter(sizes);
  if (has_bias) made.bias = parameter(sizes);
  made.is_defined = true;
  return made;
}

CausalLm::Weights CausalLm::make_linear(std::int64_t in, std::int64_t out, bool has_bias) {
  const Tensor weight = parameter(names_.is_transposed ? Sizes{in, out} : Sizes{out, in});
  return {weight, has_bias ? parameter({out}) : Tensor{}};
}

void CausalLm::make_attention(std::int64_t index, Layer& layer) {
  const Architecture& a = config_.architecture;
  const std::int64_t width = config_.d_model;
  const std::int64_t size = layer.head_size;
  const std::int64_t kv_heads = config_.kv_heads(index);
  const std::int64_t q = config_.heads * size;
  const std::int64_t kv = kv_heads * size;
  if (!names_.qkv.empty()) {
    layer.packed = make_linear(width, q + 2 * kv, a.projection_bias);
  } else {
    layer.q = make_linear(width, q, a.projection_bias);
    if (layer.has_keys) layer.k = make_linear(width, kv, a.projection_bias);
    if (layer.has_keys && !layer.keys_are_values) layer.v = make_linear(width, kv, a.projection_bias);
  }
  layer.output = make_linear(q, width, a.output_bias);
  if (a.sinks) layer.sinks = parameter({config_.heads});
  if (code_.scores == ScoresCode::wide_masked) {
    f_.kernels().enter(MemoryCategory::data, Thread::python);
    layer.own_mask = f_.kernels().empty({1, 1, a.max_context, a.max_context}, DType::boolean);
    f_.kernels().enter(MemoryCategory::parameter, Thread::python);
  }
  if (a.projection_norm == ProjectionNorm::none) return;
  const auto make = [&](std::int64_t heads) {
    switch (a.projection_norm) {
      case ProjectionNorm::whole: return make_norm({heads * size}, true, false);
      case ProjectionNorm::each_head: return make_norm({heads, size}, true, false);
      default: return make_norm({size}, true, false);
    }
  };
  layer.q_norm = make(config_.heads);
  if (layer.has_keys) layer.k_norm = make(kv_heads);
}

void CausalLm::make_experts(Router& router) {
  const Experts& experts = config_.architecture.experts;
  const std::int64_t width = config_.d_model;
  const std::int64_t inner = config_.d_ff;
  router.weight = parameter({experts.count, width});
  if (experts.rules.has_router_bias) router.bias = parameter({experts.count});
  const bool is_transposed = names_.stored_experts == StoredExperts::alternating;
  router.gate_up =
      parameter(is_transposed ? Sizes{experts.count, width, 2 * inner} : Sizes{experts.count, 2 * inner, width});
  if (experts.rules.has_biases) router.gate_up_bias = parameter({experts.count, 2 * inner});
  router.down = parameter(is_transposed ? Sizes{experts.count, inner, width} : Sizes{experts.count, width, inner});
  if (experts.rules.has_biases) router.down_bias = parameter({experts.count, width});
  if (experts.shared_width == 0) return;
  router.shared_gate = make_linear(width, experts.shared_width, false);
  router.shared_up = make_linear(width, experts.shared_width, false);
  router.shared_down = make_linear(experts.shared_width, width, false);
  if (experts.shared_gate) router.shared_switch = make_linear(width, 1, false);
}

void CausalLm::make_feed_forward(std::int64_t index, Layer& layer) {
  const Architecture& a = config_.architecture;
  if (a.has_experts(index)) return make_experts(layer.experts);
  const std::int64_t width = config_.d_model;
  const std::int64_t inner = config_.dense_width(index);
  const bool is_packed = !names_.gate_up.empty();
  if (a.gated) layer.gate = make_linear(width, is_packed ? 2 * inner : inner, a.feed_forward_bias);
  if (!is_packed) layer.up = make_linear(width, inner, a.feed_forward_bias);
  layer.down = make_linear(inner, width, a.feed_forward_bias);
}

void CausalLm::make_norms(Layer& layer) {
  const NormPlacement placement = config_.architecture.placement;
  const std::int64_t width = config_.d_model;
  const bool are_before = placement == NormPlacement::before || placement == NormPlacement::both;
  if (are_before) layer.first_norm = make_norm(width);
  if (placement != NormPlacement::before) layer.after_attention_norm = make_norm(width);
  if (are_before && config_.architecture.block != BlockOrder::side_by_side_one_norm)
    layer.second_norm = make_norm(width);
  if (placement != NormPlacement::before) layer.after_feed_forward_norm = make_norm(width);
}

CausalLm::Layer CausalLm::make_layer(std::int64_t index) {
  Layer layer;
  layer.has_window = config_.architecture.has_window(index);
  layer.rotates = config_.architecture.is_rotated(index);
  layer.head_size = config_.head_size(index);
  layer.has_keys = config_.has_keys(index);
  layer.keys_are_values = config_.keys_are_values(index);
  make_attention(index, layer);
  make_feed_forward(index, layer);
  make_norms(layer);
  if (const std::int64_t inputs = config_.architecture.per_layer.width; inputs > 0) {
    layer.input_gate = make_linear(config_.d_model, inputs, false);
    layer.input_projection = make_linear(inputs, config_.d_model, false);
    layer.input_norm = make_norm(config_.d_model);
  }
  return layer;
}

}  // namespace ridgepoint::torch
