// The forward graph of a Transformer, from the description of its layers.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/normal_quantile.h"
#include "core/warning.h"
#include "ir/stored_tensors.h"
#include "models/experts.h"
#include "models/mixers.h"
#include "models/transformer.h"

namespace ridgepoint {
namespace {

struct Tables {
  Value cosines, sines;
};

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point, KeyCache cache)
      : config_(config),
        made_of_(config.architecture),
        cache_(cache),
        sequence_{cache == KeyCache::keep ? 1 : config.context, 'S'},
        tokens_{batch * sequence_.size, 'T'},
        batch_{batch, 'B'},
        model_{config.d_model, 'D'},
        stop_point_(stop_point) {
    graph_.name = "transformer." + config.name;
  }

  Graph build() {
    const Value logits = forward();
    const Dim vocab{config_.vocab, 'V'};
    const Shape by_batch = has_images() ? Shape{batch_, vocab} : Shape{batch_, sequence_, vocab};
    graph_.add_output("logits", reshape(graph_, logits, by_batch));
    graph_.add_output("loss", mean_loss(logits), OutputRole::loss);
    return std::move(graph_);
  }

 private:
  Value parameter(const std::string& name, Shape shape) {
    return input(graph_, name, {DType::fp32, shape}, Role::parameter);
  }

  // The parameters `weight` and `bias` of the current scope.
  Value weight_here(Shape shape) { return parameter(graph_.scope() + ".weight", shape); }
  Value bias_here(Dim width) { return parameter(graph_.scope() + ".bias", {width}); }

  bool has_images() const { return made_of_.images.size > 0; }

  Value forward() {
    inputs_ =
        has_images()
            ? input(graph_, "inputs",
                    {DType::fp32, {batch_, Dim(made_of_.images.patches()), Dim(made_of_.images.values())}}, Role::data)
            : input(graph_, "inputs", {DType::int64, {batch_, sequence_}}, Role::data);
    if (cache_ == KeyCache::keep) position_ = input(graph_, "position", {DType::int64, Shape{1}}, Role::data);
    declare_tables();
    Value x = with_positions(has_images() ? embed_patches(inputs_) : embed(inputs_));
    if (made_of_.per_layer.width > 0) per_layer_inputs_ = per_layer_inputs(x, inputs_);
    const bool has_streams = made_of_.updates.streams > 0;
    if (has_streams) x = updates_.begin(x);
    const std::int64_t connected = made_of_.connections.streams;
    const bool has_connections = connected > 0;
    if (has_connections)
      x = broadcast(graph_, reshape(graph_, x, {tokens_, Dim(1), model_}), {tokens_, Dim(connected), model_});
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const ScopeGuard scope(graph_, "layers." + std::to_string(i));
      x = has_streams ? layer_of_streams(x, i) : has_connections ? layer_of_connections(x, i) : layer(x, i);
    }
    if (has_streams) x = updates_.end(x);
    if (has_connections) {
      const ScopeGuard scope(graph_, "head_streams");
      x = last_sum(graph_, x, made_of_.connections, made_of_.norm_epsilon);
    }
    if (has_images()) x = class_states(x);
    return head(made_of_.final_norm ? stream_norm(x, "ln_final") : x);
  }

  void declare_tables() {
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

  Tables tables(std::string_view name, std::int64_t width) {
    const TensorType type{DType::fp32, {positions(), Dim(width / 2)}};
    const std::string prefix(name);
    const Value cosines = input(graph_, prefix + ".cosines", type, Role::constant);
    const Value sines = input(graph_, prefix + ".sines", type, Role::constant);
    return {of_tokens(cosines), of_tokens(sines)};
  }

  Dim positions() const { return {config_.context, 'S'}; }

  // The rows of a table of positions that belong to the tokens of the graph.
  Value of_tokens(Value table) { return position_.valid() ? embedding(graph_, table, position_) : table; }

  // The states of the class tokens, [B,D].
  Value class_states(Value x) {
    const Value by_image = reshape(graph_, x, {batch_, sequence_, model_});
    const Value first = split(graph_, by_image, 1, {1, made_of_.images.patches()})[0];
    return reshape(graph_, first, {batch_, model_});
  }

  Value embed_patches(Value images) {
    const std::int64_t patches = made_of_.images.patches();
    const Value rows = reshape(graph_, images, {Dim(batch_.size * patches), Dim(made_of_.images.values())});
    const Value projected = linear(rows, config_.d_model, 'D', "patch_embeddings", true);
    Value first;
    {
      const ScopeGuard scope(graph_, "class_token");
      first = broadcast(graph_, weight_here({Dim(1), model_}), {batch_, Dim(1), model_});
    }
    const Value by_image = reshape(graph_, projected, {batch_, Dim(patches), model_});
    return reshape(graph_, concat(graph_, {first, by_image}, 1), {tokens_, model_});
  }

  Value embed(Value indices) {
    Value x;
    {
      const ScopeGuard scope(graph_, "token_embeddings");
      embedding_ = weight_here({{config_.vocab + made_of_.unpredicted_tokens, 'V'}, model_});
      x = embedding(graph_, embedding_, reshape(graph_, indices, {tokens_}));
      if (made_of_.embedding_scale != 1) x = scale(graph_, x, made_of_.embedding_scale);
    }
    return x;
  }

  Value with_positions(Value x) {
    if (made_of_.token_types > 0) x = add(graph_, x, first_token_type());
    if (made_of_.positions == Positions::learned) x = add_positions(x);
    return made_of_.embedding_norm ? stream_norm(x, "ln_embeddings") : x;
  }

  // [1,D]
  Value first_token_type() {
    const ScopeGuard scope(graph_, "token_type_embeddings");
    const std::int64_t others = made_of_.token_types - 1;
    const Value rows = weight_here({Dim(made_of_.token_types), model_});
    return others == 0 ? rows : split(graph_, rows, 0, {1, others})[0];
  }

  Value add_positions(Value x) {
    const ScopeGuard scope(graph_, "position_embeddings");
    const std::int64_t unused = made_of_.unused_positions;
    const std::int64_t rest = made_of_.max_context - config_.context;
    Value rows = weight_here({Dim(unused + made_of_.max_context), model_});
    if (unused > 0) rows = split(graph_, rows, 0, {unused, made_of_.max_context})[1];
    if (rest > 0) rows = split(graph_, rows, 0, {config_.context, rest})[0];
    const Value by_sequence = reshape(graph_, x, {batch_, sequence_, model_});
    return reshape(graph_, add(graph_, by_sequence, of_tokens(rows)), {tokens_, model_});
  }

  Value layer(Value x, std::int64_t index) {
    if (stop_point_) stop_point_();
    const NormPlacement placement = made_of_.placement;
    const bool before = placement == NormPlacement::before || placement == NormPlacement::both;
    const bool after = placement == NormPlacement::after || placement == NormPlacement::both;
    const bool of_sums = placement == NormPlacement::of_sums;
    Value read, joined = x;
    if (made_of_.mixer(index) != Mixer::none) {
      read = before ? stream_norm(x, "ln1") : x;
      Value mixed = mix(read, index);
      if (after) mixed = stream_norm(mixed, "ln1_after");
      joined = add(graph_, x, scaled(mixed, made_of_.residual_scale));
      if (of_sums) joined = stream_norm(joined, "ln1");
    }
    if (!made_of_.has_feed_forward(index)) return joined;
    Value transformed;
    if (made_of_.block == BlockOrder::side_by_side_one_norm) {
      transformed = feed_forward(read, index);
    } else {
      const Value stream = made_of_.block == BlockOrder::in_turn ? joined : x;
      transformed = feed_forward(before ? stream_norm(stream, "ln2") : stream, index);
      if (made_of_.experts.beside_dense && made_of_.has_experts(index)) {
        const Value beside = experts_beside(stream);
        transformed = add(graph_, stream_norm(transformed, "ln2_dense_after"), beside);
      }
    }
    if (after) transformed = stream_norm(transformed, "ln2_after");
    Value result = add(graph_, joined, scaled(transformed, made_of_.residual_scale));
    if (of_sums) result = stream_norm(result, "ln2");
    if (made_of_.experts.before_dense && made_of_.has_experts(index))
      result = add(graph_, result, dense_network(stream_norm(result, "ln2_dense"), index));
    if (made_of_.per_layer.width > 0) result = add(graph_, result, from_per_layer_input(result, index));
    if (!made_of_.layer_scalars) return result;
    return mul(graph_, result,
               input(graph_, graph_.scope() + std::string(kLayerScalar), {DType::fp32, Shape{1}}, Role::constant));
  }

  // Of Gemma 3n: streams [T,n,D], of which one passes through the layer.
  Value layer_of_streams(Value streams, std::int64_t index) {
    if (stop_point_) stop_point_();
    const double half = 1 / std::sqrt(2.0);
    const Value predicted = updates_.predicted(streams);
    const Value x = updates_.active(predicted);
    const Value read = stream_norm(x, "ln1");
    const Value side = add(graph_, read, through_low_rank(read));
    const Value attended = add(graph_, x, stream_norm(attention(read, index), "ln1_after"));
    const Value joined = scale(graph_, add(graph_, attended, side), half);
    const Value transformed = feed_forward(stream_norm(joined, "ln2"), index);
    const Value made = add(graph_, joined, stream_norm(transformed, "ln2_after"));
    const Value corrected = updates_.corrected(predicted, made);
    return updates_.with_term(corrected, from_per_layer_input(updates_.scaled_active(corrected), index));
  }

  // Streams [T,n,D], of which attention and the feed-forward network read sums.
  Value layer_of_connections(Value streams, std::int64_t index) {
    if (stop_point_) stop_point_();
    const auto through = [&](const char* name, const auto& part) {
      Connection connection;
      {
        const ScopeGuard scope(graph_, name);
        connection = connect(graph_, streams, made_of_.connections, made_of_.norm_epsilon);
      }
      const Value made = part(connection.read);
      const ScopeGuard scope(graph_, name);
      streams = with_made(graph_, streams, connection, made);
    };
    through("attn_streams", [&](Value x) { return attention(stream_norm(x, "ln1"), index); });
    through("ffn_streams", [&](Value x) { return feed_forward(stream_norm(x, "ln2"), index); });
    return streams;
  }

  // LAuReL (Menghani et al. 2024, arXiv:2411.07501).
  Value through_low_rank(Value x) {
    const ScopeGuard scope(graph_, "low_rank");
    return stream_norm(linear(linear(x, made_of_.low_rank, 'R', "left"), config_.d_model, 'D', "right"), "ln");
  }

  // x [T,F] above the quantile of the normal distribution with its mean and deviation; 0 below.
  Value above_quantile(Value x, double share) {
    const auto mean = [&](Value v) {
      return scale(graph_, reduce_sum(graph_, v, {-1}, true), 1 / static_cast<double>(graph_.type(x).shape[-1]));
    };
    const Value centred = sub(graph_, x, mean(x));
    const Value deviation = sqrt(graph_, mean(mul(graph_, centred, centred)));
    return relu(graph_, sub(graph_, centred, scale(graph_, deviation, normal_quantile(share))));
  }

  // A vector of each token for each layer, [T,width]: its row of an embedding of their own and a projection of its
  // usual one, at half the variance each.
  std::vector<Value> per_layer_inputs(Value x, Value indices) {
    const std::int64_t width = made_of_.per_layer.width;
    const std::int64_t all = config_.layers * width;
    const Shape by_layer{tokens_, Dim(config_.layers), Dim(width)};
    Value own;
    {
      const ScopeGuard scope(graph_, "per_layer_embeddings");
      const Value flat = reshape(graph_, indices, {tokens_});
      const Value rows = embedding(graph_, weight_here({{made_of_.per_layer.vocab, 'V'}, Dim(all)}), flat);
      own = reshape(graph_, scale(graph_, rows, std::sqrt(static_cast<double>(width))), by_layer);
    }
    const Value projected =
        scale(graph_, linear(x, all, 'P', "per_layer_projection"), 1 / std::sqrt(static_cast<double>(config_.d_model)));
    const Value normed = norm(reshape(graph_, projected, by_layer), "per_layer_norm");
    const Value both = scale(graph_, add(graph_, normed, own), 1 / std::sqrt(2.0));
    return split(graph_, reshape(graph_, both, {tokens_, Dim(all)}), -1,
                 std::vector<std::int64_t>(static_cast<std::size_t>(config_.layers), width));
  }

  Value from_per_layer_input(Value x, std::int64_t layer) {
    const Value gate = activate(linear(x, made_of_.per_layer.width, 'P', "per_layer_gate"));
    const Value chosen = mul(graph_, gate, per_layer_inputs_[static_cast<std::size_t>(layer)]);
    return stream_norm(linear(chosen, config_.d_model, 'D', "per_layer_output"), "ln_per_layer");
  }

  Value mix(Value x, std::int64_t layer) {
    const Mixer mixer = made_of_.mixer(layer);
    Value attended;
    if (attends(mixer)) {
      const PartScales& scales = made_of_.part_scales;
      attended = scaled(attention(scaled(x, scales.attention_input), layer), scales.attention_output);
    }
    if (!has_state(mixer)) return attended;
    const ScopeGuard scope(graph_, "mixer");
    const Value mixed = build_mixer(graph_, state_mixer_of(mixer), x, made_of_.state, batch_.size);
    return attended.valid() ? add(graph_, attended, mixed) : mixed;
  }

  Value scaled(Value x, double factor) { return factor == 1 ? x : scale(graph_, x, factor); }

  // A vector of one number, where there is no parameter.
  Value filled(Dim width, double value) { return broadcast(graph_, constant(graph_, value, DType::fp32), {width}); }

  Value stream_norm(Value x, const char* name) { return norm(x, name, made_of_.norm_weights); }

  Value norm(Value x, const char* name, bool has_weight = true) {
    const ScopeGuard scope(graph_, name);
    const Dim width = graph_.type(x).shape.dim(-1);
    const Value weight = has_weight ? weight_here({width}) : filled(width, 1);
    if (made_of_.norm == Norm::layer_norm) {
      const Value bias = has_weight && made_of_.norm_biases ? bias_here(model_) : filled(width, 0);
      return layer_norm(graph_, x, weight, bias, made_of_.norm_epsilon)[0];
    }
    return rms_norm(graph_, x, made_of_.norm_adds_one ? shift(graph_, weight, 1.0) : weight, made_of_.norm_epsilon)
        .first;
  }

  // x [T,in] times the transpose of the weight [out,in] -> [T,out].
  Value linear(Value x, std::int64_t out, char label, const char* name, bool has_bias = false) {
    const ScopeGuard scope(graph_, name);
    const Value weight = weight_here({{out, label}, graph_.type(x).shape.dim(-1)});
    const Value product = matmul(graph_, x, transpose(graph_, weight, {1, 0}));
    return has_bias ? add(graph_, product, bias_here({out, label})) : product;
  }

  // A projection of x [T,D] as heads [B,S,heads,size], before a norm of each head.
  Value project(Value x, std::int64_t heads, std::int64_t size, const char* name, const char* norm_name = nullptr) {
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

  Value norm_of_heads(Value x, const char* name) {
    if (made_of_.projection_norm == ProjectionNorm::each_head) return norm_of_each_head(x, name);
    return made_of_.projection_norm == ProjectionNorm::per_head ? norm(x, name) : x;
  }

  // The RMS norm without weight.
  Value plain_norm(Value x, const char* name) {
    const ScopeGuard scope(graph_, name);
    return rms_norm(graph_, x, filled(graph_.type(x).shape.dim(-1), 1), made_of_.norm_epsilon).first;
  }

  // x [B,S,heads,width]
  Value norm_of_each_head(Value x, const char* name) {
    const ScopeGuard scope(graph_, name);
    const Shape shape = graph_.type(x).shape;
    const Dim width = shape.dim(-1);
    const Value bias = filled(width, 0);
    const Value normed = layer_norm(graph_, x, filled(width, 1), bias, made_of_.norm_epsilon)[0];
    return mul(graph_, normed, weight_here({shape.dim(-2), width}));
  }

  // x [B,S,heads,width], the first elements of each head rotated.
  Value rotate(Value x, std::int64_t layer) {
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

  // Projected queries or keys [B,S,heads,width] as attention reads them.
  Value rotated_heads(Value projected, const char* norm_name, std::int64_t layer) {
    const Value turned = rotate(norm_of_heads(projected, norm_name), layer);
    if (made_of_.projection_norm == ProjectionNorm::rotated) return norm(turned, norm_name);
    const bool is_normed = made_of_.projection_norm == ProjectionNorm::unweighted && made_of_.is_rotated(layer);
    return is_normed ? plain_norm(turned, norm_name) : turned;
  }

  // Queries [B,S,H,d] times the factors of their positions.
  Value grown(Value q, std::int64_t layer) {
    if (!grows_queries(config_) || (made_of_.query_growth.unrotated_layers && made_of_.is_rotated(layer))) return q;
    if (!query_growth_) {
      const TensorType type{DType::fp32, {sequence_, Dim(1), Dim(1)}};
      query_growth_ = input(graph_, std::string(kQueryGrowth), type, Role::constant);
    }
    return mul(graph_, q, *query_growth_);
  }

  struct Heads {
    Value q, k, v;   // [B,S,heads,width]
    Value low = {};  // what queries are projected from, in latent attention
  };

  Heads heads_of(Value x, std::int64_t layer) {
    if (made_of_.latent.kv_rank > 0) return latent_heads(x, layer);
    const std::int64_t size = config_.head_size(layer);
    const Value q = grown(rotated_heads(project(x, config_.heads, size, "q_proj", "q_norm"), "q_norm", layer), layer);
    std::optional<Heads>& kept = made_of_.has_window(layer) ? window_keys_ : full_keys_;
    if (config_.has_keys(layer)) kept = with_earlier_keys(keys_of(x, layer));
    return {q, kept->k, kept->v};
  }

  // The keys and values of the sequence so far, where a graph has those of one token.
  Heads with_earlier_keys(Heads made) {
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

  // 1 at the keys [1,1,1,K] that the token at `position_` sees, 0 at others.
  Value seen_keys(std::int64_t layer) {
    const Value key = iota(graph_, {Dim(1), Dim(1), Dim(1), positions()}, 3, DType::fp32);
    const Value last = cast(graph_, position_, DType::fp32);
    const Value seen = cast(graph_, less_equal(graph_, key, last), DType::fp32);
    const std::int64_t window = window_of(layer);
    if (window == 0) return seen;
    const Value hidden = shift(graph_, last, -static_cast<double>(window));  // and those before it
    return mul(graph_, seen, cast(graph_, less(graph_, hidden, key), DType::fp32));
  }

  // Without queries.
  Heads keys_of(Value x, std::int64_t layer) {
    const std::int64_t heads = config_.kv_heads(layer);
    const std::int64_t size = config_.head_size(layer);
    const Value projected = project(x, heads, size, "k_proj", "k_norm");
    const Value k = rotated_heads(projected, "k_norm", layer);
    const Value v = config_.keys_are_values(layer) ? projected : project(x, heads, size, "v_proj");
    return {{}, k, made_of_.value_norm ? plain_norm(v, "v_norm") : v};
  }

  // [T,rank] -> its RMS norm.
  Value latent_norm(Value x, const char* name) {
    const ScopeGuard scope(graph_, name);
    return rms_norm(graph_, x, weight_here({graph_.type(x).shape.dim(-1)}), made_of_.latent.norm_epsilon).first;
  }

  // Of the heads of queries and keys the last part is rotated, which the heads of keys share.
  Heads latent_heads(Value x, std::int64_t layer) {
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

  // x [B,S,heads,width], with zeros up to the width.
  Value padded(Value x, std::int64_t width) {
    const TensorType type = graph_.type(x);
    if (type.shape[-1] == width) return x;
    const Shape rest{type.shape.dim(0), type.shape.dim(1), type.shape.dim(2), Dim(width - type.shape[-1])};
    return concat(graph_, {x, broadcast(graph_, constant(graph_, 0, type.dtype), rest)}, -1);
  }

  // The heads [B,S,H,value size] of attention. The op attention has one size for all heads: those of values get zeros,
  // which come out again.
  Value attend(Heads heads, std::int64_t layer, Value kept = {}) {
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
    const AttentionForm form_here = form(layer);
    const Value mixed = by_head(build_attention(graph_, variant, q, k, v, form_here, sinks(), bias, kept));
    const std::int64_t wide = graph_.type(mixed).shape[-1];
    return wide == values ? mixed : split(graph_, mixed, -1, {values, wide - values})[0];
  }

  // One score a head, or none.
  Value sinks() { return made_of_.sinks ? parameter(graph_.scope() + ".sinks", {{config_.heads, 'H'}}) : Value(); }

  Value attention(Value x, std::int64_t layer) {
    const ScopeGuard scope(graph_, "attn");
    if (made_of_.compressed.q_rank > 0) return compressed_attention(x, layer);
    const Heads heads = heads_of(x, layer);
    const Value kept =
        cache_ == KeyCache::keep ? seen_keys(layer) : kept_keys(x, heads.low.valid() ? heads.low : x, layer);
    const Value mixed = has_chunks(layer) ? attend_in_chunks(heads, layer) : attend(heads, layer, kept);
    const Dim width(config_.heads * config_.value_size(layer), 'D');
    Value joined = reshape(graph_, mixed, {tokens_, width});
    if (made_of_.output_gate) {
      const Value gate = linear(x, width.size, 'D', "gate_proj", made_of_.projection_bias);
      joined = mul(graph_, joined, sigmoid(graph_, gate));
    }
    return linear(joined, config_.d_model, 'D', "output_proj", made_of_.output_bias);
  }

  Value compressed_attention(Value x, std::int64_t layer) {
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

  // 1 at the keys that an indexer keeps, for the layer's queries; no value where these are all.
  Value kept_keys(Value x, Value low, std::int64_t layer) {
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

  void warn_of_chosen_keys() const {
    warn_once("attention to chosen keys",
              "no tiled kernel attends to keys that an indexer chooses, or to compressed ones: such layers run the "
              "variant 'composite', with temporaries of size S x S");
  }

  bool has_chunks(std::int64_t layer) const {
    return made_of_.chunks && made_of_.has_window(layer) && made_of_.window < config_.context;
  }

  // Each whole chunk of the sequence is a sequence of the batch; what is left at the end is attended apart.
  Value attend_in_chunks(const Heads& heads, std::int64_t layer) {
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

  AttentionForm form(std::int64_t layer) const {
    const double stretch = 1 + 0.1 * made_of_.latent.stretch * std::log(made_of_.rotary.factor);
    const double plain = stretch * stretch / std::sqrt(static_cast<double>(config_.head_size(layer)));
    const double factor = made_of_.query_scale > 0 ? made_of_.query_scale : plain;
    const bool is_last = cache_ == KeyCache::keep;  // seen_keys() says which keys the one token sees
    return {.scale = factor * made_of_.part_scales.keys,
            .causal = made_of_.is_causal && !is_last,
            .window = is_last ? 0 : window_of(layer),
            .soft_cap = made_of_.score_cap};
  }

  // 0: a token sees all before it.
  std::int64_t window_of(std::int64_t layer) const {
    const bool limits = made_of_.has_window(layer) && !made_of_.chunks && made_of_.window < config_.context;
    return limits ? made_of_.window : 0;
  }

  Value activate(Value x) { return activated(graph_, made_of_.activation, x); }

  Value feed_forward(Value x, std::int64_t layer) {
    if (!made_of_.has_experts(layer) || made_of_.experts.beside_dense) return dense_network(x, layer);
    const ScopeGuard scope(graph_, "ffn");
    return experts(x, {}, layer < made_of_.experts.hashed_layers ? choices_of_table() : Value());
  }

  Value dense_network(Value x, std::int64_t layer) {
    const ScopeGuard scope(graph_, "ffn");
    const bool has_bias = made_of_.feed_forward_bias;
    const std::int64_t width = config_.dense_width(layer);
    Value gate = scaled(linear(x, width, 'F', "w1", has_bias), made_of_.part_scales.gate);
    if (!made_of_.sparsity.empty() && made_of_.sparsity[static_cast<std::size_t>(layer)] > 0)
      gate = above_quantile(gate, made_of_.sparsity[static_cast<std::size_t>(layer)]);
    if (const ExpertRules& rules = made_of_.experts.rules; rules.limits_all) {
      const Value joined = limited_swiglu(graph_, gate, linear(x, width, 'F', "w3", has_bias), rules);
      return linear(joined, config_.d_model, 'D', "w2", has_bias);
    }
    Value inner = activate(gate);
    if (made_of_.gated) inner = mul(graph_, inner, linear(x, width, 'F', "w3", has_bias));
    if (made_of_.third_factor) inner = mul(graph_, inner, linear(x, width, 'F', "w4", has_bias));
    return scaled(linear(inner, config_.d_model, 'D', "w2", has_bias), made_of_.part_scales.feed_forward);
  }

  // The experts [T,k] of each token, from the layer's table.
  Value choices_of_table() {
    const std::int64_t chosen = made_of_.experts.per_token;
    const TensorType type{DType::fp32, {{config_.vocab, 'V'}, Dim(chosen)}};
    const Value table = input(graph_, graph_.scope() + "." + std::string(kExpertTable), type, Role::constant);
    return cast(graph_, embedding(graph_, table, reshape(graph_, inputs_, {tokens_})), DType::int64);
  }

  // The router reads `routed_by`, or x.
  Value experts(Value x, Value routed_by = {}, Value choices = {}) {
    const Experts& experts = made_of_.experts;
    return build_experts(graph_, x,
                         {.experts = experts.count,
                          .chosen = experts.per_token,
                          .d_ff = config_.d_ff,
                          .normalise_weights = experts.normalised,
                          .shared_d_ff = experts.shared_width,
                          .shared_gate = experts.shared_gate,
                          .activation = made_of_.activation,
                          .third_factor = made_of_.third_factor,
                          .rules = experts.rules},
                         &routings_, routed_by, choices);
  }

  Value experts_beside(Value stream) {
    const Value read = stream_norm(stream, "ln2_experts");
    Value made;
    {
      const ScopeGuard scope(graph_, "ffn");
      made = experts(read, stream);
    }
    return stream_norm(made, "ln2_experts_after");
  }

  Value head(Value x) {
    if (made_of_.head_transform)
      x = stream_norm(activate(linear(x, config_.d_model, 'D', "head_transform", true)), "ln_head");
    const ScopeGuard scope(graph_, "lm_head");
    const Value weight = made_of_.tied_head ? embedding_ : weight_here({{config_.vocab, 'V'}, model_});
    Value logits = matmul(graph_, x, transpose(graph_, weight, {1, 0}));
    if (made_of_.head_bias) logits = add(graph_, logits, bias_here({config_.vocab, 'V'}));
    logits = scaled(logits, made_of_.logit_scale);
    return made_of_.logit_cap > 0 ? soft_cap(graph_, logits, made_of_.logit_cap) : logits;
  }

  Value mean_loss(Value logits) {
    graph_.set_phase(Phase::loss);
    const ScopeGuard scope(graph_, "loss");
    const Shape shape = has_images() ? Shape{batch_} : Shape{batch_, sequence_};
    const Value targets = input(graph_, "targets", {DType::int64, shape}, Role::data);
    const Value rows = reshape(graph_, targets, {graph_.type(logits).shape.dim(0)});
    Value loss;
    if (config_.ignores_targets) {
      Attributes& attributes = graph_.node(graph_.producer(targets)).attributes;
      attributes.set(kIndexedRows, config_.vocab);
      attributes.set(kIgnoredIndex, kIgnoredTarget);
    }
    if (made_of_.is_masked() || config_.ignores_targets) {
      loss = mean_of_asked(logits, rows);
    } else {
      const Value losses = cross_entropy(graph_, logits, rows).first;
      loss = scale(graph_, reduce_sum(graph_, losses, {0}), 1.0 / static_cast<double>(graph_.type(rows).shape[0]));
    }
    if (made_of_.experts.auxiliary_loss != 0 && !routings_.empty()) {
      const Value balance = load_balancing_loss(graph_, routings_);
      loss = add(graph_, loss, scale(graph_, balance, made_of_.experts.auxiliary_loss));
    }
    graph_.set_phase(Phase::forward);
    return loss;
  }

  // Of the tokens whose targets are not negative.
  Value mean_of_asked(Value logits, Value targets) {
    const auto integer = [&](std::int64_t value) { return integer_constant(graph_, value, DType::int64); };
    const Value is_asked = cast(graph_, less_equal(graph_, integer(0), targets), DType::fp32);
    const Value last = integer(config_.vocab - 1);
    const Value first = integer(0);
    const Value not_negative = where(graph_, less(graph_, targets, integer(0)), first, targets);
    const Value rows = where(graph_, less(graph_, last, not_negative), last, not_negative);
    const Value losses = cross_entropy(graph_, logits, rows).first;
    const Value one = constant(graph_, 1, DType::fp32);
    const Value count = maximum(graph_, reduce_sum(graph_, is_asked, {0}), one);
    return div(graph_, reduce_sum(graph_, mul(graph_, losses, is_asked), {0}), count);
  }

  const TransformerConfig& config_;
  const Architecture& made_of_;
  const KeyCache cache_;
  Dim sequence_, tokens_, batch_, model_;
  Graph graph_;
  Value inputs_, embedding_, linear_bias_;
  Value position_;  // of the one token, beside kept keys
  std::optional<Tables> rotary_, window_rotary_;
  std::optional<Value> query_growth_;
  Value kept_;                                    // of the last layer with an indexer
  std::optional<Heads> full_keys_, window_keys_;  // of the last layer of the kind that has its own
  std::vector<Value> per_layer_inputs_;
  StreamUpdates updates_{graph_, made_of_.updates, made_of_.norm_epsilon};
  std::vector<ExpertRouting> routings_;
  const StopPoint& stop_point_;
};

}  // namespace

Value activated(Graph& graph, Activation activation, Value x) {
  switch (activation) {
    case Activation::silu: return silu(graph, x);
    case Activation::gelu:
    case Activation::gelu_tanh: return gelu(graph, x, activation == Activation::gelu_tanh);
    case Activation::relu:
    case Activation::relu_squared: break;
  }
  const Value positive = relu(graph, x);
  return activation == Activation::relu ? positive : mul(graph, positive, positive);
}

Graph build_transformer(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point,
                        KeyCache cache) {
  validate(config, batch);
  return TransformerBuilder(config, batch, stop_point, cache).build();
}

}  // namespace ridgepoint
