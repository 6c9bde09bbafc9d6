#include "predict/torch/transformers/causal_lm.h"

#include <algorithm>
#include <utility>

namespace ridgepoint::torch {

// The sum of the batch's cosines and sines is one matrix product and a few copies; nothing of it needs a gradient.
void CausalLm::make_positions(const Rotary& rotary, std::int64_t context, Tensor& cosines, Tensor& sines) {
  Kernels& kernels = f_.kernels();
  const auto width = static_cast<std::int64_t>(rotary.share * static_cast<double>(config_.head_size())) / 2 * 2;
  const Tensor positions = kernels.empty({context}, DType::fp32);
  const Tensor frequencies = kernels.product({1, width / 2, context}, DType::fp32);
  const Tensor angles = kernels.empty({1, 1, context, width}, DType::fp32);
  const auto scaled = [&] {
    const Tensor values = kernels.copy(angles);
    return kernels.copy(values);
  };
  cosines = scaled();
  sines = scaled();
}

// Eager attention adds 0 or the least number; sdpa takes a boolean mask where a window makes one necessary.
Tensor CausalLm::make_mask(const Tensor& tokens, bool is_needed) {
  if (!is_needed) return {};
  const std::int64_t rows = tokens.sizes[1];
  Kernels& kernels = f_.kernels();
  const Tensor mask = kernels.empty({1, 1, rows, rows}, DType::boolean);
  const Sizes sizes = {tokens.sizes[0], 1, rows, rows};
  return is_eager() ? kernels.empty(sizes, DType::fp32) : mask.expanded(sizes);
}

CausalLm::Context CausalLm::make_context(const Tensor& tokens) {
  const Architecture& a = config_.architecture;
  const std::int64_t rows = tokens.sizes[1];
  Context context;
  f_.kernels().enter(MemoryCategory::data, Thread::python);
  const bool has_windows = std::ranges::any_of(layers_, &Layer::has_window);
  const bool has_others = !std::ranges::all_of(layers_, &Layer::has_window);
  context.mask = make_mask(tokens, is_eager() && has_others);
  context.window_mask = make_mask(tokens, has_windows && (is_eager() || rows >= a.window));
  if (a.positions == Positions::rotary) make_positions(a.rotary, rows, context.cosines, context.sines);
  if (a.separate_rotary) make_positions(a.window_rotary, rows, context.window_cosines, context.window_sines);
  f_.kernels().enter(MemoryCategory::activation, Thread::python);
  return context;
}

Tensor CausalLm::data(const Sizes& sizes, DType dtype) {
  f_.kernels().enter(MemoryCategory::data, Thread::python);
  Tensor made = f_.kernels().empty(sizes, dtype);
  f_.kernels().enter(MemoryCategory::activation, Thread::python);
  return made;
}

// `locals`: what variables of the model's forward hold until it ends.
Tensor CausalLm::embed(const Tensor& tokens, std::vector<Tensor>& locals) {
  const Tensor embedded = f_.embedding(embeddings_, tokens);
  locals.push_back(embedded);
  if (positions_.is_defined()) {
    locals.push_back(f_.embedding(positions_, data({1, tokens.sizes[1]}, DType::int64)));
    return f_.add(embedded, locals.back());
  }
  return config_.architecture.embedding_scale == 1 ? embedded : f_.mul_number(embedded);
}

Tensor CausalLm::hidden_states(const Tensor& tokens) {
  std::vector<Tensor> locals;
  Tensor x = embed(tokens, locals);
  const Context context = make_context(tokens);
  for (const Layer& layer : layers_) {
    const auto decoded = [this, &layer, context](const Tensor& input) { return decode(input, layer, context); };
    x = checkpoints_ ? f_.checkpoint(decoded, x) : decoded(x);
  }
  return norm(x, final_norm_);
}

Tensor CausalLm::logits(const Tensor& hidden) {
  Tensor logits = f_.linear(hidden, config_.architecture.tied_head ? embeddings_ : head_.weight);
  if (config_.architecture.logit_cap == 0) return logits;
  logits = f_.div_number(logits);
  logits = f_.tanh(logits);
  return f_.mul_number(logits);
}

Tensor CausalLm::forward(const Tensor& tokens) { return logits(hidden_states(tokens)); }

Tensor CausalLm::loss(const Tensor& tokens, const Tensor& /*targets*/, const LossBegins& begin_loss) {
  const Tensor hidden = hidden_states(tokens);
  const Tensor logits = this->logits(hidden);
  begin_loss(logits);
  Tensor wide = f_.to(logits, DType::fp32);
  const Tensor padded = data({tokens.sizes[0], tokens.sizes[1] + 1}, DType::int64);
  const Tensor shifted = data(tokens.sizes, DType::int64);
  const std::int64_t count = tokens.elements();
  wide = f_.view(wide, {count, config_.vocab});
  return f_.cross_entropy(wide, *shifted.viewed_as({count}));
}

// Of the local variables, `hidden` is what the code calls hidden_states.
Tensor CausalLm::decode(const Tensor& x, const Layer& layer, const Context& context) {
  Tensor hidden = layer.first_norm.weight.is_defined() ? norm(x, layer.first_norm) : x;
  Attended attended = attend(hidden, layer, context);
  if (code_.gpt2_blocks) {
    hidden = f_.add(attended.output, x);
  } else {
    hidden = std::move(attended.output);
    if (layer.after_attention_norm.weight.is_defined()) hidden = norm(hidden, layer.after_attention_norm);
    hidden = f_.add(x, hidden);
  }
  const Tensor residual = hidden;
  if (layer.second_norm.weight.is_defined()) hidden = norm(hidden, layer.second_norm);
  const Tensor variable = code_.gpt2_blocks ? hidden : Tensor{};
  hidden = feed_forward(hidden, layer);
  if (layer.after_feed_forward_norm.weight.is_defined()) hidden = norm(hidden, layer.after_feed_forward_norm);
  return f_.add(residual, hidden);
}

Tensor CausalLm::linear(const Tensor& x, const Weights& weights) {
  return names_.is_transposed ? f_.conv1d(x, weights.weight, weights.bias) : f_.linear(x, weights.weight, weights.bias);
}

// Llama: weight * normalised.to(dtype); OLMo 2: (weight * normalised).to(dtype);
// Gemma: (normalised * (1 + weight)).to(dtype).
Tensor CausalLm::norm(const Tensor& x, const Weights& weights) {
  if (config_.architecture.norm == Norm::layer_norm) return f_.layer_norm(x, weights.weight, weights.bias);
  Tensor hidden = f_.to(x, DType::fp32);
  Tensor variance = f_.power(hidden);
  variance = f_.mean(variance);
  Tensor scale = f_.add_number(variance);
  if (config_.architecture.norm_adds_one) variance = {};  // a temporary of an expression
  scale = f_.rsqrt(scale);
  hidden = f_.mul(hidden, scale);
  scale = {};
  if (config_.architecture.norm_adds_one) return f_.to(f_.mul(hidden, f_.add_number(weights.weight)), x.dtype);
  if (code_.scales_norms_wide) return f_.to(f_.mul(weights.weight, hidden), x.dtype);
  return f_.mul(weights.weight, f_.to(hidden, x.dtype));
}

}  // namespace ridgepoint::torch
