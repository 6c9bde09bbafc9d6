// The forward graph of a Transformer, from the description of its layers.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/normal_quantile.h"
#include "ir/stored_tensors.h"
#include "models/transformer/attention_layers.h"
#include "models/transformer/experts.h"
#include "models/transformer/mixers.h"

namespace ridgepoint {
namespace {

class TransformerBuilder : AttentionLayers {
 public:
  TransformerBuilder(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point, KeyCache cache)
      : AttentionLayers(config, batch, cache), stop_point_(stop_point) {
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

  Value inputs_, embedding_;
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
