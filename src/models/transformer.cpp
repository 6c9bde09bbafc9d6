#include "models/transformer.h"

#include "models/attention.h"
#include "ops/rule.h"
#include "passes/autocast.h"
#include "passes/pass.h"
#include "ridgepoint/autodiff.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr double kNormEpsilon = 1e-5;

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerConfig& config, std::int64_t batch)
      : config_(config),
        tokens_{batch * config.context, 'T'},
        batch_{batch, 'B'},
        sequence_{config.context, 'S'},
        model_{config.d_model, 'D'} {
    graph_.name = "transformer." + config.name;
  }

  Graph build(Mode mode, const KeepOptions& keep, const TrainingOptions& training) {
    stop_point_ = training.stop_point;
    const Value logits = forward();
    if (mode == Mode::forward || keep.logits) {
      graph_.add_output("logits", reshape(graph_, logits, {batch_, sequence_, {config_.vocab, 'V'}}));
    }
    const bool trains = mode != Mode::forward;
    if (trains) graph_.add_output("loss", mean_loss(logits));
    if (keep.activations) output_activations(graph_);
    stop_here();
    // Before differentiation, so that the gradient of a low value is low and that of a parameter fp32.
    autocast(graph_, {training.precision, training.force_low});
    // After it, so that kernels are asked for in the types they will have.
    if (training.fuse_for != nullptr) fuse(graph_, *training.fuse_for);
    stop_here();
    if (trains) train(mode, keep, training);
    return std::move(graph_);
  }

 private:
  Value parameter(const std::string& name, Shape shape) {
    const Value value = input(graph_, name, {DType::fp32, shape}, Role::parameter);
    parameters_.push_back(value);
    names_.push_back(name);
    return value;
  }

  // Named after the scope it stands in.
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

  void stop_here() const {
    if (stop_point_) stop_point_();
  }

  Value layer(Value x) {
    stop_here();
    const Value attended = attention(norm(x, "ln1"));
    x = add(graph_, x, attended);
    const Value transformed = feed_forward(norm(x, "ln2"));
    return add(graph_, x, transformed);
  }

  Value norm(Value x, const char* name) {
    const ScopeGuard scope(graph_, name);
    return rms_norm(graph_, x, parameter_here({model_}), kNormEpsilon).first;
  }

  // x [T,in] -> [T,out] by a weight [out,in].
  Value linear(Value x, std::int64_t out, char label, const char* name) {
    const ScopeGuard scope(graph_, name);
    const Value weight = parameter_here({{out, label}, graph_.type(x).shape.dim(-1)});
    return matmul(graph_, x, transpose(graph_, weight, {1, 0}));
  }

  Value attention(Value x) {
    const ScopeGuard scope(graph_, "attn");
    const Dim heads{config_.heads, 'H'};
    const Dim width{config_.d_model / config_.heads, 'D'};
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

  void train(Mode mode, const KeepOptions& keep, const TrainingOptions& training) {
    Value loss = *graph_.find_output("loss");
    Value loss_scale;
    if (training.precision == Precision::fp16) {
      loss_scale = declare_loss_scale(graph_);
      graph_.set_phase(Phase::loss);
      const ScopeGuard scope(graph_, "loss");
      loss = mul(graph_, loss, loss_scale);
      graph_.set_phase(Phase::forward);
    }
    const std::vector<Value> gradients = differentiate(graph_, loss, parameters_);
    stop_here();
    if (mode == Mode::backward || keep.gradients) keep_gradients(gradients, loss_scale);
    if (mode == Mode::step) optimizer_step(gradients, loss_scale, training);
  }

  void keep_gradients(const std::vector<Value>& gradients, Value loss_scale) {
    graph_.set_phase(Phase::backward);
    const Value factor = loss_scale.valid() ? div(graph_, constant(graph_, 1.0, DType::fp32), loss_scale) : Value{};
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const ScopeGuard scope(graph_, scope_of(names_[i]));
      graph_.add_output("grad." + names_[i], factor.valid() ? mul(graph_, gradients[i], factor) : gradients[i]);
    }
    graph_.set_phase(Phase::forward);
  }

  static std::string scope_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

  void optimizer_step(const std::vector<Value>& gradients, Value loss_scale, const TrainingOptions& training) {
    graph_.set_phase(Phase::optimizer);
    const Value count = input(graph_, "optimizer.step", {DType::fp32, {}}, Role::state);
    std::optional<GuardedStep> guarded;
    if (loss_scale.valid()) guarded = append_loss_scaling(graph_, loss_scale, gradients, training.loss_scaling);
    const Value step = guarded ? add(graph_, count, guarded->taken) : shift(graph_, count, 1.0);
    graph_.add_update(count, step);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const TensorType type = graph_.type(parameters_[i]);
      const Value first = input(graph_, "optimizer.first_moment." + names_[i], type, Role::state);
      const Value second = input(graph_, "optimizer.second_moment." + names_[i], type, Role::state);
      const ScopeGuard scope(graph_, scope_of(names_[i]));
      const AdamWOptions& options = training.optimizer;
      const std::array<Value, 3> updated =
          guarded ? guarded_adamw(graph_, step, guarded->guard, parameters_[i], gradients[i], first, second, options)
                  : adamw(graph_, step, parameters_[i], gradients[i], first, second, options);
      graph_.add_update(parameters_[i], updated[0]);
      graph_.add_update(first, updated[1]);
      graph_.add_update(second, updated[2]);
    }
  }

  const TransformerConfig& config_;
  Dim tokens_, batch_, sequence_, model_;
  Graph graph_;
  Value cosines_, sines_;
  std::vector<Value> parameters_;
  std::vector<std::string> names_;
  StopPoint stop_point_;
};

}  // namespace

Graph build_transformer(const TransformerConfig& config, std::int64_t batch, Mode mode, const KeepOptions& keep,
                        const TrainingOptions& training) {
  validate(config, batch);
  return TransformerBuilder(config, batch).build(mode, keep, training);
}

std::int64_t transformer_flops(const TransformerConfig& config, std::int64_t batch, Mode mode) {
  TransformerConfig plain = config;
  plain.attention = AttentionVariant::composite;
  Graph graph = build_transformer(plain, batch, mode);
  run_passes(graph, simplifying_passes(), {});
  return flops_of(graph);
}

}  // namespace ridgepoint
