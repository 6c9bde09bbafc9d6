// Attention of torch/transformers/causal_lm.h.
#include <utility>

#include "predict/torch/transformers/causal_lm.h"

namespace ridgepoint::torch {

// Queries, keys and values by head. Norms of one head come before the transpose of heads and tokens in Qwen 3, after it
// in Gemma 3, with the same allocations. Norms of all heads together come before the heads are split. OPT scales
// queries as they are projected.
CausalLm::Heads CausalLm::project(const Tensor& x, const Layer& layer) {
  const Architecture& a = config_.architecture;
  const std::int64_t size = config_.head_size();
  const bool is_whole = a.projection_norm == ProjectionNorm::whole;
  const bool is_per_head =
      a.projection_norm == ProjectionNorm::per_head || a.projection_norm == ProjectionNorm::each_head;
  const auto by_head = [&](Tensor projected, const Weights& norm_weights) {
    const bool is_normed = norm_weights.weight.is_defined();
    if (is_whole && is_normed) projected = norm(projected, norm_weights);
    if (a.projection_limit > 0) projected = f_.clamp_in_place(projected);
    Tensor heads = f_.view(projected, {x.sizes[0], x.sizes[1], projected.sizes[2] / size, size});
    if (is_per_head && is_normed) heads = norm(heads, norm_weights);
    return f_.transpose(heads, 1, 2);
  };
  if (layer.packed.weight.is_defined()) {
    const std::int64_t q = config_.heads * size;
    const std::int64_t kv = config_.kv_heads() * size;
    const Tensor packed = linear(x, layer.packed);
    if (names_.qkv_by_group && config_.kv_heads() > 1) {
      const Tensor heads = f_.transpose(f_.view(packed, {x.sizes[0], x.sizes[1], config_.heads, 3 * size}), 1, 2);
      const std::vector<Tensor> parts = f_.split(heads, {size, size, size});
      return {parts[0], parts[1], parts[2]};
    }
    std::vector<Tensor> parts = code_.gpt2_blocks || names_.qkv_by_group
                                    ? f_.split(packed, {q, kv, kv})
                                    : std::vector{f_.slice(packed, q), f_.slice(packed, kv), f_.slice(packed, kv)};
    return {by_head(parts[0], {}), by_head(parts[1], {}), by_head(parts[2], {})};
  }
  Heads heads;
  Tensor q = linear(x, layer.q);
  if (code_.scales_queries) q = f_.mul_number(q);
  heads.q = by_head(std::move(q), layer.q_norm);
  heads.k = by_head(linear(x, layer.k), layer.k_norm);
  heads.v = by_head(linear(x, layer.v), {});
  return heads;
}

// Gemma 4 rotates before the transpose of heads and tokens, queries and keys one after the other.
CausalLm::Heads CausalLm::project_and_rotate(const Tensor& x, const Layer& layer, const Context& context) {
  const Tensor cosines = (layer.has_window ? context.window_cosines : context.cosines).transposed(1, 2);
  const Tensor sines = (layer.has_window ? context.window_sines : context.sines).transposed(1, 2);
  const auto by_head = [&](const Tensor& projected) {
    return f_.view(projected, {x.sizes[0], x.sizes[1], projected.sizes[2] / layer.head_size, layer.head_size});
  };
  Heads heads;
  heads.q = by_head(linear(x, layer.q));
  heads.q = norm(heads.q, layer.q_norm);
  heads.q = rotate(heads.q, cosines, sines);
  heads.q = f_.transpose(heads.q, 1, 2);
  Heads& shared = shared_[layer.has_window ? 1 : 0];
  if (!layer.has_keys) return {heads.q, shared.k, shared.v};
  heads.k = by_head(linear(x, layer.k));
  heads.v = layer.keys_are_values ? heads.k : by_head(linear(x, layer.v));
  heads.k = norm(heads.k, layer.k_norm);
  heads.k = rotate(heads.k, cosines, sines);
  heads.k = f_.transpose(heads.k, 1, 2);
  heads.v = norm(heads.v, {});
  heads.v = f_.transpose(heads.v, 1, 2);
  if (config_.architecture.layers_without_keys > 0) shared = {{}, heads.k, heads.v};
  return heads;
}

CausalLm::Heads CausalLm::project_and_rotate_keys_first(const Tensor& x, const Layer& layer, const Context& context) {
  const std::int64_t size = layer.head_size;
  const std::int64_t rotated = context.cosines.sizes.back();
  const auto by_head = [&](const Tensor& projected) {
    return f_.view(projected, {x.sizes[0], x.sizes[1], projected.sizes[2] / size, size});
  };
  const Tensor q = linear(x, layer.q);
  const Tensor k = linear(x, layer.k);
  const Tensor v = linear(x, layer.v);
  const Tensor queries = by_head(q);
  const Tensor keys = by_head(k);
  Heads heads;
  heads.v = f_.transpose(by_head(v), 1, 2);
  const auto rotate_first = [&](const Tensor& part) {
    const Tensor sines = data({1, x.sizes[1], 1, rotated}, part.dtype);
    const Tensor cosines = data({1, x.sizes[1], 1, rotated}, part.dtype);
    return rotate(part, cosines, sines);
  };
  const Tensor first_keys = f_.slice(keys, rotated), other_keys = f_.slice(keys, size - rotated);
  const Tensor first_queries = f_.slice(queries, rotated), other_queries = f_.slice(queries, size - rotated);
  const Tensor rotated_keys = rotate_first(first_keys);
  const Tensor rotated_queries = rotate_first(first_queries);
  heads.k = f_.cat_last(rotated_keys, other_keys);
  heads.q = f_.cat_last(rotated_queries, other_queries);
  heads.k = f_.transpose(heads.k, 1, 2);
  heads.q = f_.transpose(heads.q, 1, 2);
  return heads;
}

// torch.cat((-x2, x1), -1) with the halves x1 and x2 of each row, or torch.stack((-x2, x1), -1).flatten(-2) with its
// elements of even and odd number.
Tensor CausalLm::rotate_half(const Tensor& x) {
  if (names_.adjacent_pairs) {
    const Tensor first = f_.every_other(x);
    const Tensor second = f_.every_other(x);
    return f_.view(f_.stack_last(f_.neg(second), first), x.sizes);
  }
  const std::int64_t half = x.sizes.back() / 2;
  const Tensor first = f_.slice(x, half);
  const Tensor second = f_.slice(x, half);
  return f_.cat_last(f_.neg(second), first);
}

// x * cosines + rotate_half(x) * sines
Tensor CausalLm::rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const auto wide = [&](const Tensor& y) { return code_.rotates_wide ? f_.to(y, DType::fp32) : y; };
  const Tensor left = f_.mul(wide(x), cosines);
  const Tensor right = f_.mul(wide(rotate_half(x)), sines);
  return f_.add(left, right);
}

// torch.cat((x1 * cosines - x2 * sines, x2 * cosines + x1 * sines), -1) of gpt-oss, whose tables are half as wide.
Tensor CausalLm::rotate_halves(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const std::int64_t half = x.sizes.back() / 2;
  const std::vector<Tensor> halves = f_.split(x, {half, half});
  const Tensor first = [&] {
    const Tensor left = f_.mul(halves[0], cosines);
    return f_.sub(left, f_.mul(halves[1], sines));
  }();
  const Tensor second = [&] {
    const Tensor left = f_.mul(halves[1], cosines);
    return f_.add(left, f_.mul(halves[0], sines));
  }();
  return f_.cat_last(first, second);
}

void CausalLm::rotate_heads(Heads& heads, const Layer& layer, const Context& context) {
  const bool is_other = layer.has_window && config_.architecture.separate_rotary;
  Tensor cosines = is_other ? context.window_cosines : context.cosines;
  Tensor sines = is_other ? context.window_sines : context.sines;
  if (code_.repeats_tables) {  // cos[..., : width // 2].repeat_interleave(2, -1)
    cosines = data(cosines.sizes, cosines.dtype);
    sines = data(sines.sizes, sines.dtype);
  }
  const DType dtype = heads.q.dtype;
  // The elements that are not rotated are joined with the others, even where there are none.
  struct Parts {
    Tensor rotated, rest;
  };
  const auto parts_of = [&](const Tensor& x) {
    const Tensor read = code_.casts_before_rotation ? f_.to(x, DType::fp32) : x;
    if (code_.joins == Joins::none) return Parts{read, {}};
    const std::int64_t width = cosines.sizes.back();
    const Tensor first = f_.slice(read, width);
    return Parts{first, f_.slice(read, x.sizes.back() - width)};
  };
  const auto rotated = [&](Parts& parts) {
    parts.rotated =
        code_.rotates_halves ? rotate_halves(parts.rotated, cosines, sines) : rotate(parts.rotated, cosines, sines);
  };
  const auto joined = [&](const Parts& parts) {
    return parts.rest.is_defined() ? f_.cat_last(parts.rotated, parts.rest) : parts.rotated;
  };
  Parts of_q = parts_of(heads.q);
  Parts of_k = parts_of(heads.k);
  rotated(of_q);
  if (code_.joins == Joins::both_at_the_end) rotated(of_k);
  Tensor q = joined(of_q);
  if (code_.joins != Joins::both_at_the_end) rotated(of_k);
  Tensor k = joined(of_k);
  if (code_.casts_rotated) {
    q = f_.to(q, dtype);
    k = f_.to(k, dtype);
  }
  heads.q = std::move(q);
  heads.k = std::move(k);
}

// After the rotation: norms of Hunyuan, and the factors of Ministral's queries.
void CausalLm::finish_heads(Heads& heads, const Layer& layer) {
  if (config_.architecture.projection_norm == ProjectionNorm::rotated) {
    heads.q = norm(heads.q, layer.q_norm);
    heads.k = norm(heads.k, layer.k_norm);
  }
  if (config_.architecture.query_growth.strength > 0)
    heads.q = f_.mul(heads.q, data({1, 1, heads.q.sizes[2], 1}, DType::fp32));
}

// Softmax of the scores and each head's sink, without the share of the sink. `combined` is a variable of the code.
Tensor CausalLm::shares_beside(const Tensor& scores, const Tensor& sinks, Tensor& combined) {
  combined = f_.cat_last(scores, f_.column_of_heads(sinks, scores.sizes[0], scores.sizes[2]));
  combined = f_.sub(combined, f_.max(combined));
  return f_.slice(f_.softmax(combined), scores.sizes.back());
}

Tensor CausalLm::scores(const Heads& heads, const Tensor& keys, const Layer& layer) {
  if (code_.scores == ScoresCode::multiplied) return f_.mul_number(f_.matmul(heads.q, f_.transpose(keys, 2, 3)));
  const Tensor wide_q = f_.to(heads.q, DType::fp32);
  const Tensor wide_k = f_.to(keys, DType::fp32);
  const Tensor products = f_.matmul(wide_q, f_.transpose(wide_k, 2, 3));
  return code_.scores == ScoresCode::wide_divided ? f_.div_number(products) : f_.where(layer.own_mask, products);
}

CausalLm::Attended CausalLm::eager_attention(const Heads& heads, const Layer& layer, const Tensor& mask) {
  const std::int64_t repeats = config_.heads / heads.k.sizes[1];
  const Tensor keys = f_.repeat_heads(heads.k, repeats);
  const Tensor values = f_.repeat_heads(heads.v, repeats);
  Tensor weights = scores(heads, keys, layer);
  if (config_.architecture.score_cap > 0) {
    weights = f_.div_number(weights);
    weights = f_.tanh(weights);
    weights = f_.mul_number(weights);
  }
  if (mask.is_defined()) weights = f_.add(weights, mask);
  Tensor combined;
  weights = layer.sinks.is_defined() ? shares_beside(weights, layer.sinks, combined) : f_.softmax(weights);
  weights = f_.to(weights, code_.gpt2_blocks || layer.sinks.is_defined() ? heads.v.dtype : heads.q.dtype);
  const Tensor output = f_.transpose(f_.matmul(weights, values), 1, 2);
  return {code_.gpt2_blocks ? output : f_.contiguous(output), weights};
}

// With a mask or wide heads, keys and values are repeated; soft caps of scores are left out, as in `transformers`.
Tensor CausalLm::sdpa_attention(const Heads& heads, const Tensor& mask) {
  const bool is_repeated = mask.is_defined() || heads.k.sizes[3] > Functions::kWidestFlash;
  const std::int64_t repeats = is_repeated ? config_.heads / heads.k.sizes[1] : 1;
  const Tensor keys = f_.repeat_heads(heads.k, repeats);
  const Tensor values = f_.repeat_heads(heads.v, repeats);
  const Tensor output = f_.scaled_dot_product_attention(heads.q, keys, values, mask);
  return f_.contiguous(f_.transpose(output, 1, 2));
}

CausalLm::Attended CausalLm::attend(const Tensor& x, const Layer& layer, const Context& context) {
  Heads heads = code_.rotates_by_token     ? project_and_rotate(x, layer, context)
                : code_.rotates_keys_first ? project_and_rotate_keys_first(x, layer, context)
                                           : project(x, layer);
  if (layer.rotates && !code_.rotates_by_token && !code_.rotates_keys_first) rotate_heads(heads, layer, context);
  finish_heads(heads, layer);
  const Tensor& mask = layer.has_window ? context.window_mask : context.mask;
  Attended attended = is_eager() ? eager_attention(heads, layer, mask) : Attended{sdpa_attention(heads, mask), {}};
  attended.output = f_.view(attended.output, {x.sizes[0], x.sizes[1], config_.heads * layer.head_size});
  attended.output = linear(attended.output, layer.output);
  return attended;
}

}  // namespace ridgepoint::torch
