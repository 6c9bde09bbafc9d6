// Feed-forward layers and mixtures of experts of torch/transformers/causal_lm.h.
#include "predict/torch/transformers/causal_lm.h"

namespace ridgepoint::torch {

// "gelu_new" is in plain ops: 0.5 * x * (1.0 + tanh(c * (x + 0.044715 * x.pow(3)))).
Tensor CausalLm::activate(const Tensor& x) {
  switch (config_.architecture.activation) {
    case Activation::silu: return f_.silu(x);
    case Activation::relu: return f_.relu(x);
    case Activation::gelu: return f_.gelu(x);
    case Activation::relu_squared:  // of families that are not modelled
    case Activation::gelu_tanh: break;
  }
  if (!code_.has_plain_gelu) return f_.gelu(x);
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
  const std::int64_t inner = packed.sizes.back() / 2;
  const std::vector<Tensor> halves = f_.split(packed, {inner, inner});
  const Tensor product = f_.mul(halves[1], activate(halves[0]));
  return linear(product, layer.down);
}

// The weights of the experts of each token, [N,k]. Only the scores have a gradient.
Tensor CausalLm::route(const Tensor& tokens, const Router& router) {
  const Experts& experts = config_.architecture.experts;
  const Tensor logits = code_.routes_without_autocast ? f_.wide_linear(tokens, router.weight)
                                                      : f_.linear(tokens, router.weight, router.bias);
  if (experts.rules.has_router_bias) return f_.softmax(f_.top_k(logits, experts.per_token));
  if (experts.rules.scores == RouterScores::softmax_of_chosen)
    return f_.to(f_.softmax(f_.top_k(f_.to(logits, DType::fp32), experts.per_token)), tokens.dtype);
  const bool is_sigmoid = experts.rules.scores == RouterScores::sigmoid;
  const Tensor read = is_sigmoid && !code_.routes_wide ? logits : f_.to(logits, DType::fp32);
  const Tensor shares = is_sigmoid ? f_.sigmoid(read) : f_.softmax(read);
  Tensor weights = f_.top_k(shares, experts.per_token);
  if (experts.normalised) weights = f_.div(weights, f_.sum(weights));
  if (experts.rules.scale != 1) weights = f_.mul_number(weights);
  return code_.routes_wide ? weights : f_.to(weights, logits.dtype);
}

// gpt-oss: (up + 1) * gate * sigmoid(number * gate), with both in limits.
Tensor CausalLm::gate_of_experts(const Tensor& gate_up) {
  if (config_.architecture.experts.rules.limit == 0) {
    const std::int64_t inner = gate_up.sizes.back() / 2;
    const std::vector<Tensor> halves = f_.split(gate_up, {inner, inner});
    return f_.mul(activate(halves[0]), halves[1]);
  }
  Tensor gate = f_.every_other(gate_up);
  Tensor up = f_.every_other(gate_up);
  gate = f_.clamp(gate);
  up = f_.clamp(up);
  const Tensor glu = f_.mul(gate, f_.sigmoid(f_.mul_number(gate)));
  return f_.mul(f_.add_number(up), glu);
}

// grouped_mm_experts_forward of transformers/integrations/moe.py, the default implementation. Variables hold everything
// until the end, and rows of experts on other ranks would be set to 0 before and after the products.
Tensor CausalLm::run_experts(const Tensor& tokens, const Tensor& weights, const Router& router) {
  const bool is_transposed = names_.stored_experts == StoredExperts::alternating;
  const std::int64_t pairs = weights.elements();
  Kernels& kernels = f_.kernels();
  const Tensor experts = kernels.empty({pairs}, DType::int64);
  const Tensor order = kernels.copy(experts);
  const Tensor token_of_pair = kernels.copy(experts);
  Tensor sorted = f_.rows(tokens, token_of_pair);
  const Tensor sorted_weights = f_.view(f_.rows(f_.view(weights, {pairs}), order), {pairs, 1});
  const Tensor is_elsewhere = kernels.empty({pairs, 1}, DType::boolean);
  sorted = f_.mask_in_place(sorted, is_elsewhere);
  const auto product = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor made = f_.grouped_linear(x, weight, is_transposed);
    return bias.is_defined() ? f_.add_in_place(made, f_.rows(bias, experts)) : made;
  };
  const Tensor hidden = gate_of_experts(product(sorted, router.gate_up, router.gate_up_bias));
  Tensor output = product(hidden, router.down, router.down_bias);
  output = f_.mask_in_place(f_.mul(output, sorted_weights), is_elsewhere);
  const Tensor inverse = kernels.copy(order);
  output = f_.rows(output, inverse);
  return f_.to(f_.sum_of_groups(output, config_.architecture.experts.per_token), tokens.dtype);
}

// Qwen 2 MoE multiplies the shared expert's result by a gate.
Tensor CausalLm::mixture(const Tensor& x, const Router& router) {
  const Tensor tokens = f_.view(x, {x.sizes[0] * x.sizes[1], x.sizes[2]});
  Tensor shared;
  if (router.shared_gate.weight.is_defined())
    shared = gated(tokens, router.shared_gate, router.shared_up, router.shared_down);
  const Tensor weights = route(tokens, router);
  Tensor output = run_experts(tokens, weights, router);
  if (router.shared_switch.weight.is_defined())
    shared = f_.mul(f_.sigmoid(linear(tokens, router.shared_switch)), shared);
  if (shared.is_defined()) output = f_.add(output, shared);
  return f_.view(output, x.sizes);
}

}  // namespace ridgepoint::torch
