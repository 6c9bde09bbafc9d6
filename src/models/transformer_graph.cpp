// The forward graph of a decoder-only Transformer, from the description of its layers.
#include <cmath>
#include <optional>

#include "models/experts.h"
#include "models/transformer.h"

namespace ridgepoint {
namespace {

struct Tables {
  Value cosines, sines;
};

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point)
      : config_(config),
        made_of_(config.architecture),
        tokens_{batch * config.context, 'T'},
        batch_{batch, 'B'},
        sequence_{config.context, 'S'},
        model_{config.d_model, 'D'},
        stop_point_(stop_point) {
    graph_.name = "transformer." + config.name;
  }

  Graph build() {
    const Value logits = forward();
    graph_.add_output("logits", reshape(graph_, logits, {batch_, sequence_, {config_.vocab, 'V'}}));
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

  Value forward() {
    const Value indices = input(graph_, "inputs", {DType::int64, {batch_, sequence_}}, Role::data);
    declare_tables();
    Value x = embed(indices);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const ScopeGuard scope(graph_, "layers." + std::to_string(i));
      x = layer(x, i);
    }
    return head(norm(x, "ln_final"));
  }

  void declare_tables() {
    if (made_of_.positions != Positions::rotary) return;
    bool all_have_windows = made_of_.separate_rotary;
    bool any_has_window = false;
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      all_have_windows = all_have_windows && made_of_.has_window(i);
      any_has_window = any_has_window || made_of_.has_window(i);
    }
    if (!all_have_windows) rotary_ = tables(kRotary, made_of_.rotary);
    if (made_of_.separate_rotary && any_has_window) window_rotary_ = tables(kWindowRotary, made_of_.window_rotary);
  }

  Tables tables(std::string_view name, const Rotary& rotary) {
    const TensorType type{DType::fp32, {sequence_, Dim(rotated_width(config_, rotary) / 2)}};
    const std::string prefix(name);
    const Value cosines = input(graph_, prefix + ".cosines", type, Role::constant);
    return {cosines, input(graph_, prefix + ".sines", type, Role::constant)};
  }

  Value embed(Value indices) {
    Value x;
    {
      const ScopeGuard scope(graph_, "token_embeddings");
      embedding_ = weight_here({{config_.vocab, 'V'}, model_});
      x = embedding(graph_, embedding_, reshape(graph_, indices, {tokens_}));
      if (made_of_.embedding_scale != 1) x = scale(graph_, x, made_of_.embedding_scale);
    }
    return made_of_.positions == Positions::learned ? add_positions(x) : x;
  }

  Value add_positions(Value x) {
    const ScopeGuard scope(graph_, "position_embeddings");
    const std::int64_t rest = made_of_.max_context - config_.context;
    Value rows = weight_here({Dim(made_of_.max_context), model_});
    if (rest > 0) rows = split(graph_, rows, 0, {config_.context, rest})[0];
    const Value by_sequence = reshape(graph_, x, {batch_, sequence_, model_});
    return reshape(graph_, add(graph_, by_sequence, rows), {tokens_, model_});
  }

  Value layer(Value x, std::int64_t index) {
    if (stop_point_) stop_point_();
    const bool before = made_of_.placement != NormPlacement::after;
    const bool after = made_of_.placement != NormPlacement::before;
    Value attended = attention(before ? norm(x, "ln1") : x, index);
    if (after) attended = norm(attended, "ln1_after");
    x = add(graph_, x, attended);
    Value transformed = feed_forward(before ? norm(x, "ln2") : x);
    if (after) transformed = norm(transformed, "ln2_after");
    return add(graph_, x, transformed);
  }

  Value norm(Value x, const char* name) {
    const ScopeGuard scope(graph_, name);
    const Value weight = weight_here({graph_.type(x).shape.dim(-1)});
    if (made_of_.norm == Norm::layer_norm)
      return layer_norm(graph_, x, weight, bias_here(model_), made_of_.norm_epsilon)[0];
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

  // A projection of x [T,D] as heads [B,S,heads,width], with its norm.
  Value project(Value x, std::int64_t heads, const char* name, const char* norm_name = nullptr) {
    const bool has_norm = norm_name != nullptr && made_of_.projection_norm != ProjectionNorm::none;
    const bool is_whole = made_of_.projection_norm == ProjectionNorm::whole;
    const char label = heads == config_.heads ? 'H' : 'N';
    Value projected = linear(x, heads * config_.head_size(), 'D', name, made_of_.projection_bias);
    if (has_norm && is_whole) projected = norm(projected, norm_name);
    projected = reshape(graph_, projected, {batch_, sequence_, {heads, label}, {config_.head_size(), 'd'}});
    return has_norm && !is_whole ? norm(projected, norm_name) : projected;
  }

  // x [B,S,heads,width], the first elements of each head rotated.
  Value rotate(Value x, std::int64_t layer) {
    if (made_of_.positions != Positions::rotary) return x;
    const bool separate = made_of_.separate_rotary && made_of_.has_window(layer);
    const Tables& tables = separate ? *window_rotary_ : *rotary_;
    const std::int64_t width = rotated_width(config_, separate ? made_of_.window_rotary : made_of_.rotary);
    const ScopeGuard rotation(graph_, "rope");
    const auto turn = [&](Value v) { return rope(graph_, v, tables.cosines, tables.sines, 1); };
    if (width == config_.head_size()) return turn(x);
    const std::vector<Value> parts = split(graph_, x, -1, {width, config_.head_size() - width});
    return concat(graph_, {turn(parts[0]), parts[1]}, -1);
  }

  Value attention(Value x, std::int64_t layer) {
    const ScopeGuard scope(graph_, "attn");
    const auto by_head = [&](Value v) { return transpose(graph_, v, {0, 2, 1, 3}); };
    const Value q = by_head(rotate(project(x, config_.heads, "q_proj", "q_norm"), layer));
    const Value k = by_head(rotate(project(x, config_.kv_heads(), "k_proj", "k_norm"), layer));
    const Value v = by_head(project(x, config_.kv_heads(), "v_proj"));
    const Value mixed = build_attention(graph_, config_.attention, q, k, v, form(layer));
    const Dim width(config_.heads * config_.head_size(), 'D');
    const Value joined = reshape(graph_, transpose(graph_, mixed, {0, 2, 1, 3}), {tokens_, width});
    return linear(joined, config_.d_model, 'D', "output_proj", made_of_.output_bias);
  }

  AttentionForm form(std::int64_t layer) const {
    const double plain = 1.0 / std::sqrt(static_cast<double>(config_.head_size()));
    const bool limits = made_of_.has_window(layer) && made_of_.window < config_.context;
    return {.scale = made_of_.query_scale > 0 ? made_of_.query_scale : plain,
            .causal = true,
            .window = limits ? made_of_.window : 0,
            .soft_cap = made_of_.score_cap};
  }

  Value activate(Value x) {
    switch (made_of_.activation) {
      case Activation::silu: return silu(graph_, x);
      case Activation::gelu:
      case Activation::gelu_tanh: return gelu(graph_, x, made_of_.activation == Activation::gelu_tanh);
      case Activation::relu: break;
    }
    return relu(graph_, x);
  }

  Value feed_forward(Value x) {
    const ScopeGuard scope(graph_, "ffn");
    if (made_of_.experts.count > 0) return experts(x);
    const bool has_bias = made_of_.feed_forward_bias;
    Value inner = activate(linear(x, config_.d_ff, 'F', "w1", has_bias));
    if (made_of_.gated) inner = mul(graph_, inner, linear(x, config_.d_ff, 'F', "w3", has_bias));
    return linear(inner, config_.d_model, 'D', "w2", has_bias);
  }

  Value experts(Value x) {
    const Experts& experts = made_of_.experts;
    return build_experts(graph_, x,
                         {.experts = experts.count,
                          .chosen = experts.per_token,
                          .d_ff = config_.d_ff,
                          .normalise_weights = experts.normalised,
                          .shared_d_ff = experts.shared_width},
                         &routings_);
  }

  Value head(Value x) {
    const ScopeGuard scope(graph_, "lm_head");
    const Value weight = made_of_.tied_head ? embedding_ : weight_here({{config_.vocab, 'V'}, model_});
    const Value logits = matmul(graph_, x, transpose(graph_, weight, {1, 0}));
    return made_of_.logit_cap > 0 ? soft_cap(graph_, logits, made_of_.logit_cap) : logits;
  }

  Value mean_loss(Value logits) {
    graph_.set_phase(Phase::loss);
    const ScopeGuard scope(graph_, "loss");
    const Value targets = input(graph_, "targets", {DType::int64, {batch_, sequence_}}, Role::data);
    const Value losses = cross_entropy(graph_, logits, reshape(graph_, targets, {tokens_})).first;
    Value loss = scale(graph_, reduce_sum(graph_, losses, {0}), 1.0 / static_cast<double>(tokens_.size));
    if (made_of_.experts.count > 0 && made_of_.experts.auxiliary_loss != 0) {
      const Value balance = load_balancing_loss(graph_, routings_);
      loss = add(graph_, loss, scale(graph_, balance, made_of_.experts.auxiliary_loss));
    }
    graph_.set_phase(Phase::forward);
    return loss;
  }

  const TransformerConfig& config_;
  const Architecture& made_of_;
  Dim tokens_, batch_, sequence_, model_;
  Graph graph_;
  Value embedding_;
  std::optional<Tables> rotary_, window_rotary_;
  std::vector<ExpertRouting> routings_;
  const StopPoint& stop_point_;
};

}  // namespace

Graph build_transformer(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point) {
  validate(config, batch);
  return TransformerBuilder(config, batch, stop_point).build();
}

}  // namespace ridgepoint
