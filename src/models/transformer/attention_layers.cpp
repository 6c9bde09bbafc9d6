#include "models/transformer/attention_layers.h"

#include <cmath>
#include <vector>

#include "core/warning.h"
#include "ir/stored_tensors.h"

namespace ridgepoint {
namespace {

void warn_of_chosen_keys() {
  warn_once("attention to chosen keys",
            "no tiled kernel attends to keys that an indexer chooses, or to compressed ones: such layers run the "
            "variant 'composite', with temporaries of size S x S");
}

}  // namespace

void AttentionLayers::declare_tables() {
  if (made_of_.positions == Positions::linear_bias)
    linear_bias_ =
        input(graph_, std::string(kLinearBias), {DType::fp32, {positions(), {config_.heads, 'H'}}}, Role::constant);
  if (made_of_.positions != Positions::rotary) return;
  bool all_have_windows = made_of_.separate_rotary;
  bool any_has_window = false;
  bool all_rotate_nothing = true;
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    if (!made_of_.is_rotated(i)) continue;
    all_rotate_nothing = false;
    all_have_windows = all_have_windows && made_of_.has_window(i);
    any_has_window = any_has_window || made_of_.has_window(i);
  }
  if (all_rotate_nothing) return;
  if (!all_have_windows) rotary_ = tables(kRotary, rotated_width(made_of_.rotary, config_.full_head_size()));
  if (made_of_.separate_rotary && any_has_window)
    window_rotary_ = tables(kWindowRotary, rotated_width(made_of_.window_rotary, config_.head_size()));
}

AttentionLayers::Tables AttentionLayers::tables(std::string_view name, std::int64_t width) {
  const TensorType type{DType::fp32, {positions(), Dim(width / 2)}};
  const std::string prefix(name);
  const Value cosines = input(graph_, prefix + ".cosines", type, Role::constant);
  const Value sines = input(graph_, prefix + ".sines", type, Role::constant);
  return {of_tokens(cosines), of_tokens(sines)};
}

Value AttentionLayers::project(Value x, std::int64_t heads, std::int64_t size, const char* name,
                               const char* norm_name) {
  const bool is_whole = norm_name != nullptr && made_of_.projection_norm == ProjectionNorm::whole;
  const char label = heads == config_.heads ? 'H' : 'N';
  Value projected = linear(x, heads * size, 'D', name, made_of_.projection_bias);
  if (is_whole) projected = norm(projected, norm_name);
  if (const double limit = made_of_.projection_limit; limit > 0) {
    projected = minimum(graph_, projected, constant(graph_, limit, DType::fp32));
    projected = maximum(graph_, projected, constant(graph_, -limit, DType::fp32));
  }
  return reshape(graph_, projected, {batch_, sequence_, {heads, label}, {size, 'd'}});
}

Value AttentionLayers::norm_of_heads(Value x, const char* name) {
  if (made_of_.projection_norm == ProjectionNorm::each_head) return norm_of_each_head(x, name);
  return made_of_.projection_norm == ProjectionNorm::per_head ? norm(x, name) : x;
}

Value AttentionLayers::plain_norm(Value x, const char* name) {
  const ScopeGuard scope(graph_, name);
  return rms_norm(graph_, x, filled(graph_.type(x).shape.dim(-1), 1), made_of_.norm_epsilon).first;
}

Value AttentionLayers::norm_of_each_head(Value x, const char* name) {
  const ScopeGuard scope(graph_, name);
  const Shape shape = graph_.type(x).shape;
  const Dim width = shape.dim(-1);
  const Value bias = filled(width, 0);
  const Value normed = layer_norm(graph_, x, filled(width, 1), bias, made_of_.norm_epsilon)[0];
  return mul(graph_, normed, weight_here({shape.dim(-2), width}));
}

Value AttentionLayers::rotate(Value x, std::int64_t layer) {
  if (!made_of_.is_rotated(layer)) return x;
  const bool separate = made_of_.separate_rotary && made_of_.has_window(layer);
  const Tables& tables = separate ? *window_rotary_ : *rotary_;
  const std::int64_t width = rotated_width(config_, layer);
  const ScopeGuard rotation(graph_, "rope");
  const auto turn = [&](Value v) { return rope(graph_, v, tables.cosines, tables.sines, 1); };
  const std::int64_t whole = graph_.type(x).shape[-1];
  if (width == whole) return turn(x);
  const std::vector<Value> parts = split(graph_, x, -1, {width, whole - width});
  return concat(graph_, {turn(parts[0]), parts[1]}, -1);
}

Value AttentionLayers::rotated_heads(Value projected, const char* norm_name, std::int64_t layer) {
  const Value turned = rotate(norm_of_heads(projected, norm_name), layer);
  if (made_of_.projection_norm == ProjectionNorm::rotated) return norm(turned, norm_name);
  const bool is_normed = made_of_.projection_norm == ProjectionNorm::unweighted && made_of_.is_rotated(layer);
  return is_normed ? plain_norm(turned, norm_name) : turned;
}

Value AttentionLayers::grown(Value q, std::int64_t layer) {
  if (!grows_queries(config_) || (made_of_.query_growth.unrotated_layers && made_of_.is_rotated(layer))) return q;
  if (!query_growth_) {
    const TensorType type{DType::fp32, {sequence_, Dim(1), Dim(1)}};
    query_growth_ = input(graph_, std::string(kQueryGrowth), type, Role::constant);
  }
  return mul(graph_, q, *query_growth_);
}

AttentionLayers::Heads AttentionLayers::heads_of(Value x, std::int64_t layer) {
  if (made_of_.latent.kv_rank > 0) return latent_heads(x, layer);
  const std::int64_t size = config_.head_size(layer);
  const Value q = grown(rotated_heads(project(x, config_.heads, size, "q_proj", "q_norm"), "q_norm", layer), layer);
  std::optional<Heads>& kept = made_of_.has_window(layer) ? window_keys_ : full_keys_;
  if (config_.has_keys(layer)) kept = with_earlier_keys(keys_of(x, layer));
  return {q, kept->k, kept->v};
}

AttentionLayers::Heads AttentionLayers::with_earlier_keys(Heads made) {
  const auto with_earlier = [&](Value own, std::string_view name) {
    const std::string full = graph_.scope() + std::string(name);
    if (cache_ == KeyCache::give) graph_.add_output(full, own);
    if (cache_ != KeyCache::keep) return own;
    const Shape& shape = graph_.type(own).shape;
    const Shape whole{batch_, positions(), shape.dim(2), shape.dim(3)};
    const Value earlier = input(graph_, full, {DType::fp32, whole}, Role::state);
    graph_.node(graph_.producer(earlier)).attributes.set("initial", 0.0);
    const Value place = iota(graph_, {positions(), Dim(1), Dim(1)}, 0, DType::int64);
    const Value is_own = equal(graph_, place, position_);
    const Value row = broadcast(graph_, own, whole);
    const Value joined = where(graph_, is_own, row, earlier);
    graph_.add_update(earlier, joined);
    return joined;
  };
  if (cache_ == KeyCache::none) return made;
  const Value k = with_earlier(made.k, kCachedKeys);
  return {made.q, k, with_earlier(made.v, kCachedValues), made.low};
}

Value AttentionLayers::seen_keys(std::int64_t layer) {
  const Value key = iota(graph_, {Dim(1), Dim(1), Dim(1), positions()}, 3, DType::fp32);
  const Value last = cast(graph_, position_, DType::fp32);
  const Value seen = cast(graph_, less_equal(graph_, key, last), DType::fp32);
  const std::int64_t window = window_of(layer);
  if (window == 0) return seen;
  const Value hidden = shift(graph_, last, -static_cast<double>(window));  // and those before it
  return mul(graph_, seen, cast(graph_, less(graph_, hidden, key), DType::fp32));
}

AttentionLayers::Heads AttentionLayers::keys_of(Value x, std::int64_t layer) {
  const std::int64_t heads = config_.kv_heads(layer);
  const std::int64_t size = config_.head_size(layer);
  const Value projected = project(x, heads, size, "k_proj", "k_norm");
  const Value k = rotated_heads(projected, "k_norm", layer);
  const Value v = config_.keys_are_values(layer) ? projected : project(x, heads, size, "v_proj");
  return {{}, k, made_of_.value_norm ? plain_norm(v, "v_norm") : v};
}

Value AttentionLayers::latent_norm(Value x, const char* name) {
  const ScopeGuard scope(graph_, name);
  return rms_norm(graph_, x, weight_here({graph_.type(x).shape.dim(-1)}), made_of_.latent.norm_epsilon).first;
}

AttentionLayers::Heads AttentionLayers::latent_heads(Value x, std::int64_t layer) {
  const LatentAttention& latent = made_of_.latent;
  const std::int64_t size = config_.head_size();
  const std::int64_t kept = size - latent.rotated;
  const Dim heads{config_.heads, 'H'};
  const auto by_head = [&](Value v, Dim count, std::int64_t width) {
    return reshape(graph_, v, {batch_, sequence_, count, {width, 'd'}});
  };
  Value low = x;
  if (latent.q_rank > 0)
    low = latent_norm(linear(x, latent.q_rank, 'R', "q_a_proj", made_of_.projection_bias), "q_norm");
  const char* name = latent.q_rank > 0 ? "q_b_proj" : "q_proj";
  const Value q = by_head(linear(low, config_.heads * size, 'D', name), heads, size);
  const std::vector<Value> q_parts = split(graph_, q, -1, {kept, latent.rotated});
  const Value joint = linear(x, latent.kv_rank + latent.rotated, 'R', "kv_a_proj", made_of_.projection_bias);
  const std::vector<Value> low_parts = split(graph_, joint, -1, {latent.kv_rank, latent.rotated});
  const Value kv =
      linear(latent_norm(low_parts[0], "kv_norm"), config_.heads * (kept + latent.value_size), 'D', "kv_b_proj");
  const std::vector<Value> kv_parts =
      split(graph_, by_head(kv, heads, kept + latent.value_size), -1, {kept, latent.value_size});
  const Value turned_q = rotate(q_parts[1], layer);
  const Value turned_k = rotate(by_head(low_parts[1], Dim(1), latent.rotated), layer);
  const Value for_all = broadcast(graph_, turned_k, {batch_, sequence_, heads, {latent.rotated, 'd'}});
  const Value whole_q = grown(concat(graph_, {q_parts[0], turned_q}, -1), layer);
  return with_earlier_keys({whole_q, concat(graph_, {kv_parts[0], for_all}, -1), kv_parts[1], low});
}

Value AttentionLayers::padded(Value x, std::int64_t width) {
  const TensorType type = graph_.type(x);
  if (type.shape[-1] == width) return x;
  const Shape rest{type.shape.dim(0), type.shape.dim(1), type.shape.dim(2), Dim(width - type.shape[-1])};
  return concat(graph_, {x, broadcast(graph_, constant(graph_, 0, type.dtype), rest)}, -1);
}

Value AttentionLayers::attend(Heads heads, std::int64_t layer, Value kept) {
  const auto by_head = [&](Value v) { return transpose(graph_, v, {0, 2, 1, 3}); };
  bool is_op = config_.attention == AttentionVariant::flash || config_.attention == AttentionVariant::recompute;
  const AttentionVariant variant = is_op && kept.valid() ? AttentionVariant::composite : config_.attention;
  if (variant != config_.attention) warn_of_chosen_keys();
  is_op = variant == config_.attention && is_op;
  const std::int64_t values = config_.value_size(layer);
  if (is_op && linear_bias_.valid()) {
    const BiasedHeads biased = with_bias_columns(graph_, heads.q, heads.k, linear_bias_, form(layer).scale);
    heads.q = biased.q;
    heads.k = biased.k;
  }
  if (is_op) heads.v = padded(heads.v, graph_.type(heads.k).shape[-1]);
  const Value q = by_head(heads.q);
  const Value k = by_head(heads.k);
  const Value v = by_head(heads.v);
  const Value bias = linear_bias_.valid() && !is_op ? transpose(graph_, linear_bias_, {1, 0}) : Value();
  // One score a head, or none.
  const Value sinks = made_of_.sinks ? parameter(graph_.scope() + ".sinks", {{config_.heads, 'H'}}) : Value();
  const AttentionForm form_here = form(layer);
  const Value mixed = by_head(build_attention(graph_, variant, q, k, v, form_here, sinks, bias, kept));
  const std::int64_t wide = graph_.type(mixed).shape[-1];
  return wide == values ? mixed : split(graph_, mixed, -1, {values, wide - values})[0];
}

Value AttentionLayers::attention(Value x, std::int64_t layer) {
  const ScopeGuard scope(graph_, "attn");
  if (made_of_.compressed.q_rank > 0) return compressed_attention(x, layer);
  const Heads heads = heads_of(x, layer);
  const Value kept =
      cache_ == KeyCache::keep ? seen_keys(layer) : kept_keys(x, heads.low.valid() ? heads.low : x, layer);
  const bool has_chunks = made_of_.chunks && made_of_.has_window(layer) && made_of_.window < config_.context;
  const Value mixed = has_chunks ? attend_in_chunks(heads, layer) : attend(heads, layer, kept);
  const Dim width(config_.heads * config_.value_size(layer), 'D');
  Value joined = reshape(graph_, mixed, {tokens_, width});
  if (made_of_.output_gate) {
    const Value gate = linear(x, width.size, 'D', "gate_proj", made_of_.projection_bias);
    joined = mul(graph_, joined, sigmoid(graph_, gate));
  }
  return linear(joined, config_.d_model, 'D', "output_proj", made_of_.output_bias);
}

Value AttentionLayers::compressed_attention(Value x, std::int64_t layer) {
  const Compression kind = made_of_.compressed.compression(layer);
  const Tables& tables = made_of_.has_window(layer) ? *window_rotary_ : *rotary_;
  const bool is_op = config_.attention == AttentionVariant::flash || config_.attention == AttentionVariant::recompute;
  if (is_op && kind != Compression::none) warn_of_chosen_keys();
  return build_compressed_attention(graph_, made_of_.compressed, kind,
                                    {.x = x,
                                     .cosines = tables.cosines,
                                     .sines = tables.sines,
                                     .batch = batch_,
                                     .sequence = sequence_,
                                     .heads = config_.heads,
                                     .size = config_.head_size(),
                                     .window = made_of_.window,
                                     .norm_epsilon = made_of_.norm_epsilon,
                                     .variant = config_.attention});
}

Value AttentionLayers::kept_keys(Value x, Value low, std::int64_t layer) {
  const KeySelection& selection = made_of_.selection;
  if (!selection.has_indexer(layer)) return selection.others_share ? kept_ : Value();
  const ScopeGuard scope(graph_, "indexer");
  kept_ = build_key_selection(graph_, selection,
                              {.x = x,
                               .low = low,
                               .cosines = rotary_->cosines,
                               .sines = rotary_->sines,
                               .batch = batch_,
                               .sequence = sequence_,
                               .norm_epsilon = made_of_.norm_epsilon,
                               .norm_adds_one = made_of_.norm_adds_one});
  return kept_;
}

Value AttentionLayers::attend_in_chunks(const Heads& heads, std::int64_t layer) {
  const std::int64_t chunk = made_of_.window;
  const std::int64_t rest = config_.context % chunk;
  const auto part = [&](Value x, bool is_rest) {
    if (rest > 0) x = split(graph_, x, 1, {config_.context - rest, rest})[is_rest ? 1 : 0];
    if (is_rest) return x;
    const Shape& shape = graph_.type(x).shape;
    return reshape(graph_, x, {Dim(batch_.size * (config_.context / chunk)), Dim(chunk), shape.dim(2), shape.dim(3)});
  };
  const auto attended = [&](bool is_rest) {
    return attend({part(heads.q, is_rest), part(heads.k, is_rest), part(heads.v, is_rest)}, layer);
  };
  const Value chunks = attended(false);
  const Shape shape = graph_.type(chunks).shape;
  const Value joined = reshape(graph_, chunks, {batch_, Dim(config_.context - rest), shape.dim(2), shape.dim(3)});
  return rest == 0 ? joined : concat(graph_, {joined, attended(true)}, 1);
}

AttentionForm AttentionLayers::form(std::int64_t layer) const {
  const double stretch = 1 + 0.1 * made_of_.latent.stretch * std::log(made_of_.rotary.factor);
  const double plain = stretch * stretch / std::sqrt(static_cast<double>(config_.head_size(layer)));
  const double factor = made_of_.query_scale > 0 ? made_of_.query_scale : plain;
  const bool is_last = cache_ == KeyCache::keep;  // seen_keys() says which keys the one token sees
  return {.scale = factor * made_of_.part_scales.keys,
          .causal = made_of_.is_causal && !is_last,
          .window = is_last ? 0 : window_of(layer),
          .soft_cap = made_of_.score_cap};
}

std::int64_t AttentionLayers::window_of(std::int64_t layer) const {
  const bool limits = made_of_.has_window(layer) && !made_of_.chunks && made_of_.window < config_.context;
  return limits ? made_of_.window : 0;
}

}  // namespace ridgepoint
