// Feed-forward layers and mixtures of experts of torch/transformers/causal_lm.h.
#include <utility>

#include "predict/torch/transformers/causal_lm.h"

namespace ridgepoint::torch {

// GPT-2 computes gelu_tanh in plain ops: 0.5 * x * (1.0 + tanh(c * (x + 0.044715 * x.pow(3)))).
Tensor CausalLm::activate(const Tensor& x) {
  switch (config_.architecture.activation) {
    case Activation::silu:
      return f_.silu(x);
    case Activation::relu:
      return f_.relu(x);
    case Activation::gelu:
      return f_.gelu(x);
    case Activation::gelu_tanh:
      break;
  }
  if (!code_.gpt2_blocks) return f_.gelu(x);
  const Tensor half = f_.mul_number(x);
  Tensor factor = f_.power(x);
  factor = f_.mul_number(factor);
  factor = f_.add(x, factor);
  factor = f_.mul_number(factor);
  factor = f_.tanh(factor);
  factor = f_.add_number(factor);
  return f_.mul(half, factor);
}

// down(act(gate(x)) * up(x))
Tensor CausalLm::gated(const Tensor& x, const Weights& gate, const Weights& up, const Weights& down) {
  const Tensor product = [&] {
    const Tensor activated = activate(linear(x, gate));
    return f_.mul(activated, linear(x, up));
  }();
  return linear(product, down);
}

Tensor CausalLm::feed_forward(const Tensor& x, const Layer& layer) {
  if (layer.experts.weight.is_defined()) return mixture(x, layer.experts);
  if (!config_.architecture.gated) {
    Tensor hidden = linear(x, layer.up);
    hidden = activate(hidden);
    return linear(hidden, layer.down);
  }
  if (layer.up.weight.is_defined()) return gated(x, layer.gate, layer.up, layer.down);
  const Tensor packed = linear(x, layer.gate);
  const std::vector<Tensor> halves = f_.split(packed, {config_.d_ff, config_.d_ff});
  const Tensor product = f_.mul(halves[1], activate(halves[0]));
  return linear(product, layer.down);
}

// The weights of the experts of each token, [N,k].
Tensor CausalLm::route(const Tensor& tokens, const Router& router) {
  const Tensor logits = f_.linear(tokens, router.weight);
  const Tensor shares = f_.softmax(f_.to(logits, DType::fp32));
  Tensor weights = f_.top_k(shares, config_.architecture.experts.per_token);
  if (config_.architecture.experts.normalised) weights = f_.div(weights, f_.sum(weights));
  return code_.routes_wide ? weights : f_.to(weights, logits.dtype);
}

// grouped_mm_experts_forward of transformers/integrations/moe.py, the default implementation. Variables hold everything
// until the end.
Tensor CausalLm::run_experts(const Tensor& tokens, const Tensor& weights, const Router& router) {
  const std::int64_t inner = config_.d_ff;
  const std::int64_t pairs = weights.elements();
  Kernels& kernels = f_.kernels();
  const Tensor token_of_pair = kernels.empty({pairs}, DType::int64);
  const Tensor chosen = f_.rows(tokens, token_of_pair);
  const Tensor order = kernels.copy(token_of_pair);
  const Tensor inverse = kernels.copy(token_of_pair);
  const Tensor experts = kernels.copy(token_of_pair);
  const Tensor sorted_weights = f_.rows(f_.view(weights, {pairs, 1}), order);
  const Tensor sorted = f_.rows(chosen, order);
  const Tensor gate_up = f_.grouped_linear(sorted, router.gate_up);
  const Tensor hidden = [&] {
    const std::vector<Tensor> halves = f_.split(gate_up, {inner, inner});
    return f_.mul(activate(halves[0]), halves[1]);
  }();
  Tensor output = f_.grouped_linear(hidden, router.down);
  output = f_.mul(output, sorted_weights);
  const Tensor in_order = f_.rows(output, inverse);
  return f_.to(f_.sum_of_groups(in_order, config_.architecture.experts.per_token), tokens.dtype);
}

Tensor CausalLm::mixture(const Tensor& x, const Router& router) {
  const Tensor tokens = f_.view(x, {x.sizes[0] * x.sizes[1], x.sizes[2]});
  const bool is_shared = router.shared_gate.weight.is_defined();
  Tensor shared = is_shared ? gated(tokens, router.shared_gate, router.shared_up, router.shared_down) : Tensor{};
  const Tensor weights = route(tokens, router);
  Tensor output = run_experts(tokens, weights, router);
  if (is_shared) {
    shared = f_.mul(f_.sigmoid(linear(tokens, router.shared_switch)), shared);
    output = f_.add_in_place(output, shared);
  }
  return f_.view(output, x.sizes);
}

}  // namespace ridgepoint::torch
