#include "models/transformer.h"

#include <cmath>

namespace ridgepoint {
namespace {

constexpr double kNormEpsilon = 1e-5;

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point)
      : config_(config),
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

  // The parameter `weight` of the current scope.
  Value parameter_here(Shape shape) { return parameter(graph_.scope() + ".weight", shape); }

  Value forward() {
    const Value indices = input(graph_, "inputs", {DType::int64, {batch_, sequence_}}, Role::data);
    const Shape table{sequence_, Dim(config_.d_model / config_.heads / 2)};
    cosines_ = input(graph_, "rope.cosines", {DType::fp32, table}, Role::constant);
    sines_ = input(graph_, "rope.sines", {DType::fp32, table}, Role::constant);
    Value x;
    {
      const ScopeGuard scope(graph_, "token_embeddings");
      x = embedding(graph_, parameter_here({{config_.vocab, 'V'}, model_}), reshape(graph_, indices, {tokens_}));
    }
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const ScopeGuard scope(graph_, "layers." + std::to_string(i));
      x = layer(x);
    }
    x = norm(x, "ln_final");
    return linear(x, config_.vocab, 'V', "lm_head");
  }

  Value layer(Value x) {
    if (stop_point_) stop_point_();
    const Value attended = attention(norm(x, "ln1"));
    x = add(graph_, x, attended);
    const Value transformed = feed_forward(norm(x, "ln2"));
    return add(graph_, x, transformed);
  }

  Value norm(Value x, const char* name) {
    const ScopeGuard scope(graph_, name);
    return rms_norm(graph_, x, parameter_here({model_}), kNormEpsilon).first;
  }

  // x [T,in] times the transpose of the weight [out,in] -> [T,out].
  Value linear(Value x, std::int64_t out, char label, const char* name) {
    const ScopeGuard scope(graph_, name);
    const Value weight = parameter_here({{out, label}, graph_.type(x).shape.dim(-1)});
    return matmul(graph_, x, transpose(graph_, weight, {1, 0}));
  }

  Value attention(Value x) {
    const ScopeGuard scope(graph_, "attn");
    const Dim heads{config_.heads, 'H'};
    const Dim width{config_.d_model / config_.heads, 'd'};  // D / H
    const auto split = [&](Value v) { return reshape(graph_, v, {batch_, sequence_, heads, width}); };
    const auto rotate = [&](Value v) {
      const ScopeGuard rotation(graph_, "rope");
      return rope(graph_, v, cosines_, sines_, 1);
    };
    const auto by_head = [&](Value v) { return transpose(graph_, v, {0, 2, 1, 3}); };
    const Value q = by_head(rotate(split(linear(x, config_.d_model, 'D', "q_proj"))));
    const Value k = by_head(rotate(split(linear(x, config_.d_model, 'D', "k_proj"))));
    const Value v = by_head(split(linear(x, config_.d_model, 'D', "v_proj")));
    const Value mixed = build_attention(graph_, config_.attention, q, k, v, true);
    const Value joined = reshape(graph_, transpose(graph_, mixed, {0, 2, 1, 3}), {tokens_, model_});
    return linear(joined, config_.d_model, 'D', "output_proj");
  }

  Value feed_forward(Value x) {
    const ScopeGuard scope(graph_, "ffn");
    const Value gate = silu(graph_, linear(x, config_.d_ff, 'F', "w1"));
    const Value gated = mul(graph_, gate, linear(x, config_.d_ff, 'F', "w3"));
    return linear(gated, config_.d_model, 'D', "w2");
  }

  Value mean_loss(Value logits) {
    graph_.set_phase(Phase::loss);
    const ScopeGuard scope(graph_, "loss");
    const Value targets = input(graph_, "targets", {DType::int64, {batch_, sequence_}}, Role::data);
    const Value losses = cross_entropy(graph_, logits, reshape(graph_, targets, {tokens_})).first;
    const Value loss = scale(graph_, reduce_sum(graph_, losses, {0}), 1.0 / static_cast<double>(tokens_.size));
    graph_.set_phase(Phase::forward);
    return loss;
  }

  const TransformerConfig& config_;
  Dim tokens_, batch_, sequence_, model_;
  Graph graph_;
  Value cosines_, sines_;
  const StopPoint& stop_point_;
};

void write_rotary_tables(Program& program, const TransformerConfig& config) {
  constexpr double kTheta = 10000.0;
  const std::int64_t width = config.d_model / config.heads;
  const TensorType type{DType::fp32, {config.context, width / 2}};
  HostTensor cosines(type);
  HostTensor sines(type);
  for (std::int64_t position = 0; position < config.context; ++position) {
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const auto at = static_cast<std::size_t>(position * (width / 2) + i);
      cosines.as<float>()[at] = static_cast<float>(std::cos(angle));
      sines.as<float>()[at] = static_cast<float>(std::sin(angle));
    }
  }
  program.write_input("rope.cosines", cosines);
  program.write_input("rope.sines", sines);
}

}  // namespace

Graph build_transformer(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point) {
  validate(config, batch);
  return TransformerBuilder(config, batch, stop_point).build();
}

Transformer::Transformer(TransformerConfig config, std::int64_t batch) : config_(std::move(config)), batch_(batch) {
  validate(config_, batch_);
}

WorkloadDescription Transformer::describe() const {
  return {.model = {config_.name, parameter_count(config_), config_.layers, config_.d_model, config_.d_ff,
                    config_.heads, config_.vocab},
          .batch = batch_,
          .context = config_.context,
          .attention = config_.attention};
}

TruncatedNormal Transformer::initial_distribution(const ParameterDeclaration& parameter) const {
  if (parameter.name == "token_embeddings.weight") return {.deviation = 1};
  return Workload::initial_distribution(parameter);
}

void Transformer::write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const {
  write_rotary_tables(program, config_);
  Workload::write_data(program, seed, stop_point);
}

std::int64_t Transformer::flops(Mode mode) const {
  TransformerConfig plain = config_;
  plain.attention = AttentionVariant::composite;
  return model_flops(build_transformer(plain, batch_), mode);
}

}  // namespace ridgepoint
