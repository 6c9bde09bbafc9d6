#include "predict/torch/transformers/causal_lm.h"

#include <algorithm>
#include <utility>

namespace ridgepoint::torch {

// The sum of the batch's cosines and sines is one matrix product and a few copies; nothing of it needs a gradient.
void CausalLm::make_positions(const Rotary& rotary, std::int64_t head_size, std::int64_t context, Tensor& cosines,
                              Tensor& sines) {
  Kernels& kernels = f_.kernels();
  const double share = rotary.scaling == RotaryScaling::proportional ? 1 : rotary.share;  // the others turn by 0
  const auto width = static_cast<std::int64_t>(share * static_cast<double>(head_size)) / 2 * 2;
  const Tensor positions = kernels.empty({context}, DType::fp32);
  const Tensor frequencies = kernels.product({1, width / 2, context}, DType::fp32);
  const Tensor angles = kernels.empty({1, 1, context, code_.rotates_halves ? width / 2 : width}, DType::fp32);
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
  context.mask = make_mask(tokens, is_eager() && has_others && a.is_causal);
  context.window_mask = make_mask(tokens, has_windows && (is_eager() || rows >= a.window));
  if (a.positions == Positions::rotary)
    make_positions(a.rotary, config_.full_head_size(), rows, context.cosines, context.sines);
  if (a.separate_rotary)
    make_positions(a.window_rotary, config_.head_size(), rows, context.window_cosines, context.window_sines);
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
  Tensor embedded = f_.embedding(embeddings_, tokens);
  locals.push_back(embedded);
  if (token_types_.is_defined()) {
    Tensor sum = f_.add(embedded, f_.embedding(token_types_, data(tokens.sizes, DType::int64)));
    sum = f_.add(sum, f_.embedding(positions_, data({1, tokens.sizes[1]}, DType::int64)));
    return norm(sum, embedding_norm_);
  }
  if (positions_.is_defined()) {
    locals.push_back(f_.embedding(positions_, data({1, tokens.sizes[1]}, DType::int64)));
    return f_.add(embedded, locals.back());
  }
  if (config_.architecture.embedding_scale == 1) return embedded;
  Tensor scaled = f_.mul_number(embedded);
  if (code_.rotates_by_token) locals.back() = scaled;  // its embedding returns scaled rows
  return scaled;
}

// [B,S,L,P]: of each layer, its row of the second embedding and a projection of the first one.
Tensor CausalLm::inputs_of_layers(const Tensor& tokens, const Tensor& embedded) {
  const Sizes sizes = {tokens.sizes[0], tokens.sizes[1], config_.layers, config_.architecture.per_layer.width};
  const Tensor rows = f_.view(f_.mul_number(f_.embedding(inputs_of_layers_, tokens)), sizes);
  Tensor projected = f_.mul_number(linear(embedded, projection_of_inputs_));
  projected = f_.view(projected, sizes);
  projected = norm(projected, norm_of_inputs_);
  return f_.mul_number(f_.add(projected, rows));
}

Tensor CausalLm::hidden_states(const Tensor& tokens) {
  std::vector<Tensor> locals;
  Tensor x = embed(tokens, locals);
  const Tensor inputs = inputs_of_layers_.is_defined() ? inputs_of_layers(tokens, x) : Tensor{};
  const Context context = make_context(tokens);
  for (const Layer& layer : layers_) {
    const Tensor own_input = inputs.is_defined() ? f_.select(inputs, 2) : Tensor{};
    const auto decoded = [this, &layer, context, own_input](const Tensor& input) {
      return decode(input, layer, context, own_input);
    };
    x = checkpoints_ ? f_.checkpoint(decoded, x) : decoded(x);
  }
  if (final_norm_.is_defined) x = norm(x, final_norm_);
  for (Heads& heads : shared_) heads = {};
  return x;
}

Tensor CausalLm::logits(const Tensor& hidden) {
  const Architecture& a = config_.architecture;
  Tensor read = hidden;
  if (a.head_transform) {
    read = linear(read, head_transform_);
    read = activate(read);
    read = norm(read, head_norm_);
  }
  Tensor logits = f_.linear(read, a.tied_head ? embeddings_ : head_.weight, head_.bias);
  if (a.logit_scale != 1) logits = f_.mul_number(logits);
  if (a.logit_cap == 0) return logits;
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
  if (!config_.architecture.is_causal)
    return f_.cross_entropy(f_.view(wide, {tokens.elements(), config_.vocab}), *tokens.viewed_as({tokens.elements()}));
  const Tensor padded = data({tokens.sizes[0], tokens.sizes[1] + 1}, DType::int64);
  const Tensor shifted = data(tokens.sizes, DType::int64);
  const std::int64_t count = tokens.elements();
  wide = f_.view(wide, {count, config_.vocab});
  return f_.cross_entropy(wide, *shifted.viewed_as({count}));
}

Tensor CausalLm::scaled(const Tensor& branch) {
  return config_.architecture.residual_scale == 1 ? branch : f_.mul_number(branch);
}

// Of the local variables, `hidden` is what the code calls hidden_states.
Tensor CausalLm::decode(const Tensor& x, const Layer& layer, const Context& context, const Tensor& own_input) {
  if (config_.architecture.block != BlockOrder::in_turn) return decode_side_by_side(x, layer, context);
  Tensor hidden = layer.first_norm.is_defined ? norm(x, layer.first_norm) : x;
  Attended attended = attend(hidden, layer, context);
  const bool are_of_sums = config_.architecture.placement == NormPlacement::of_sums;
  if (code_.gpt2_blocks) {
    hidden = f_.add(attended.output, x);
  } else if (are_of_sums) {
    hidden = norm(f_.add(attended.output, x), layer.after_attention_norm);
    attended = {};
  } else {
    hidden = std::move(attended.output);
    if (layer.after_attention_norm.is_defined) hidden = norm(hidden, layer.after_attention_norm);
    hidden = f_.add(x, scaled(hidden));
  }
  const Tensor residual = hidden;
  if (layer.second_norm.is_defined) hidden = norm(hidden, layer.second_norm);
  const Tensor variable = code_.gpt2_blocks ? hidden : Tensor{};
  hidden = feed_forward(hidden, layer);
  if (are_of_sums) return norm(f_.add(hidden, residual), layer.after_feed_forward_norm);
  if (layer.after_feed_forward_norm.is_defined) hidden = norm(hidden, layer.after_feed_forward_norm);
  hidden = f_.add(residual, scaled(hidden));
  if (own_input.is_defined()) hidden = add_own_input(hidden, layer, own_input);
  return config_.architecture.layer_scalars ? f_.mul_in_place(hidden) : hidden;
}

Tensor CausalLm::add_own_input(const Tensor& x, const Layer& layer, const Tensor& own_input) {
  Tensor hidden = linear(x, layer.input_gate);
  hidden = activate(hidden);
  hidden = f_.mul(hidden, own_input);
  hidden = linear(hidden, layer.input_projection);
  hidden = norm(hidden, layer.input_norm);
  return f_.add(x, hidden);
}

// Attention and feed-forward read the same stream; the code may compute its norm once.
Tensor CausalLm::decode_side_by_side(const Tensor& x, const Layer& layer, const Context& context) {
  Tensor hidden = norm(x, layer.first_norm);
  const Attended attended = attend(hidden, layer, context);
  if (layer.second_norm.is_defined) hidden = norm(x, layer.second_norm);
  const Tensor transformed = feed_forward(hidden, layer);
  if (code_.sums_branches_first) return f_.add(f_.add(attended.output, transformed), x);
  return f_.add(f_.add(x, attended.output), transformed);
}

Tensor CausalLm::linear(const Tensor& x, const Weights& weights) {
  return names_.is_transposed ? f_.conv1d(x, weights.weight, weights.bias) : f_.linear(x, weights.weight, weights.bias);
}

// Llama: weight * normalised.to(dtype); OLMo 2: (weight * normalised).to(dtype);
// Gemma: (normalised * (1 + weight)).to(dtype).
Tensor CausalLm::norm(const Tensor& x, const Weights& weights) {
  if (code_.norms_by_power) return norm_by_power(x, weights);
  if (code_.has_plain_layer_norm) return plain_layer_norm(x, weights);
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

// (x * (mean of squares + epsilon).pow(-0.5) * weight).to(dtype) of Gemma 4; norms of values have no weight.
Tensor CausalLm::norm_by_power(const Tensor& x, const Weights& weights) {
  const Tensor wide = f_.to(x, DType::fp32);
  Tensor hidden = [&] {
    Tensor mean = f_.mean(f_.power(wide));
    mean = f_.add_number(mean);
    return f_.mul(wide, f_.power(mean));
  }();
  if (weights.weight.is_defined()) hidden = f_.mul(hidden, weights.weight);
  return f_.to(hidden, x.dtype);
}

// (weight * ((x - mean) * rsqrt(variance + epsilon))).to(dtype) of Cohere
Tensor CausalLm::plain_layer_norm(const Tensor& x, const Weights& weights) {
  Tensor hidden = f_.to(x, DType::fp32);
  const Tensor mean = f_.mean(hidden);
  const Tensor variance = f_.mean(f_.power(f_.sub(hidden, mean)));
  hidden = [&] {
    const Tensor centred = f_.sub(hidden, mean);
    Tensor scale = f_.add_number(variance);
    scale = f_.rsqrt(scale);
    return f_.mul(centred, scale);
  }();
  hidden = f_.mul(weights.weight, hidden);
  return f_.to(hidden, x.dtype);
}

}  // namespace ridgepoint::torch
