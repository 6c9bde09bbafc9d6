// Attention of torch/transformers/causal_lm.h.
#include <utility>

#include "predict/torch/transformers/causal_lm.h"

namespace ridgepoint::torch {

// Queries, keys and values by head. Norms of one head stand before the heads and tokens change places in Qwen 3, after
// it in Gemma 3; those of all heads together before the heads are told apart.
CausalLm::Heads CausalLm::project(const Tensor& x, const Layer& layer) {
  const std::int64_t size = config_.head_size();
  const bool is_whole = config_.architecture.projection_norm == ProjectionNorm::whole;
  const bool is_per_head = config_.architecture.projection_norm == ProjectionNorm::per_head;
  const auto by_head = [&](const Tensor& projected, const Weights& norm_weights) {
    const bool is_normed = norm_weights.weight.is_defined();
    Tensor heads = is_whole && is_normed ? norm(projected, norm_weights) : projected;
    heads = f_.view(heads, {x.sizes[0], x.sizes[1], projected.sizes[2] / size, size});
    if (is_per_head && is_normed) heads = norm(heads, norm_weights);
    return f_.transpose(heads, 1, 2);
  };
  if (layer.packed.weight.is_defined()) {
    const std::int64_t q = config_.heads * size;
    const std::int64_t kv = config_.kv_heads() * size;
    const Tensor packed = linear(x, layer.packed);
    std::vector<Tensor> parts = code_.gpt2_blocks
                                    ? f_.split(packed, {q, kv, kv})
                                    : std::vector{f_.slice(packed, q), f_.slice(packed, kv), f_.slice(packed, kv)};
    return {by_head(parts[0], {}), by_head(parts[1], {}), by_head(parts[2], {})};
  }
  Heads heads;
  heads.q = by_head(linear(x, layer.q), layer.q_norm);
  heads.k = by_head(linear(x, layer.k), layer.k_norm);
  heads.v = by_head(linear(x, layer.v), {});
  return heads;
}

// x * cosines + torch.cat((-x2, x1), -1) * sines with the halves x1 and x2 of each row
Tensor CausalLm::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const Tensor left = f_.mul(x, cosines);
  const Tensor right = [&] {
    const std::int64_t half = x.sizes.back() / 2;
    const Tensor halves = [&] {
      const Tensor first = f_.slice(x, half);
      const Tensor second = f_.slice(x, half);
      return f_.cat_last(f_.neg(second), first);
    }();
    return f_.mul(halves, sines);
  }();
  return f_.add(left, right);
}

// Phi-3 joins the elements that are not rotated, even where there are none.
Tensor CausalLm::rotate_part(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const Tensor rotated = f_.slice(x, cosines.sizes.back());
  const Tensor rest = f_.slice(x, x.sizes.back() - cosines.sizes.back());
  return f_.cat_last(rotate(rotated, cosines, sines), rest);
}

void CausalLm::rotate_heads(Heads& heads, const Layer& layer, const Context& context) {
  const bool is_other = layer.has_window && config_.architecture.separate_rotary;
  const Tensor& cosines = is_other ? context.window_cosines : context.cosines;
  const Tensor& sines = is_other ? context.window_sines : context.sines;
  const auto rotated = [&](const Tensor& x) {
    return code_.joins_rotated ? rotate_part(x, cosines, sines) : rotate(x, cosines, sines);
  };
  Tensor q = rotated(heads.q);
  Tensor k = rotated(heads.k);
  if (code_.casts_rotated) {
    q = f_.to(q, heads.q.dtype);
    k = f_.to(k, heads.k.dtype);
  }
  heads.q = std::move(q);
  heads.k = std::move(k);
}

CausalLm::Attended CausalLm::eager_attention(const Heads& heads, const Tensor& mask) {
  const std::int64_t repeats = config_.heads / config_.kv_heads();
  const Tensor keys = f_.repeat_heads(heads.k, repeats);
  const Tensor values = f_.repeat_heads(heads.v, repeats);
  Tensor weights = f_.mul_number(f_.matmul(heads.q, f_.transpose(keys, 2, 3)));
  if (config_.architecture.score_cap > 0) {
    weights = f_.div_number(weights);
    weights = f_.tanh(weights);
    weights = f_.mul_number(weights);
  }
  weights = f_.add(weights, mask);
  weights = f_.softmax(weights);
  weights = f_.to(weights, code_.gpt2_blocks ? heads.v.dtype : heads.q.dtype);
  const Tensor output = f_.transpose(f_.matmul(weights, values), 1, 2);
  return {code_.gpt2_blocks ? output : f_.contiguous(output), weights};
}

// With a mask, keys and values are repeated; soft caps of scores are left out, as in `transformers`.
Tensor CausalLm::sdpa_attention(const Heads& heads, const Tensor& mask) {
  const std::int64_t repeats = mask.is_defined() ? config_.heads / config_.kv_heads() : 1;
  const Tensor keys = f_.repeat_heads(heads.k, repeats);
  const Tensor values = f_.repeat_heads(heads.v, repeats);
  const Tensor output = f_.scaled_dot_product_attention(heads.q, keys, values, mask);
  return f_.contiguous(f_.transpose(output, 1, 2));
}

CausalLm::Attended CausalLm::attend(const Tensor& x, const Layer& layer, const Context& context) {
  Heads heads = project(x, layer);
  if (context.cosines.is_defined()) rotate_heads(heads, layer, context);
  const Tensor& mask = layer.has_window ? context.window_mask : context.mask;
  Attended attended = is_eager() ? eager_attention(heads, mask) : Attended{sdpa_attention(heads, mask), {}};
  attended.output = f_.view(attended.output, {x.sizes[0], x.sizes[1], config_.heads * config_.head_size()});
  attended.output = linear(attended.output, layer.output);
  return attended;
}

// Feed-forward layers and mixtures of experts of torch/transformers/causal_lm.h.

// GPT-2 computes gelu_tanh in plain ops: 0.5 * x * (1.0 + tanh(c * (x + 0.044715 * x.pow(3)))).
Tensor CausalLm::activate(const Tensor& x) {
  switch (config_.architecture.activation) {
    case Activation::silu: return f_.silu(x);
    case Activation::relu: return f_.relu(x);
    case Activation::gelu: return f_.gelu(x);
    case Activation::relu_squared:  // of families that are not modelled
    case Activation::gelu_tanh: break;
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
