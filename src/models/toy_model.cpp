#include "models/toy_model.h"

#include <string>

#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr double kNormEpsilon = 1e-5;  // PyTorch's default

class ToyModelBuilder {
 public:
  explicit ToyModelBuilder(const ToyModelConfig& config) : batch_(config.batch, 'B'), config_(config) {
    graph_.name = "toy_model";
  }

  Graph build() {
    const Value logits = forward();
    graph_.add_output("logits", logits);
    graph_.add_output("loss", mean_loss(logits), OutputRole::loss);
    return std::move(graph_);
  }

 private:
  Value parameter(const std::string& name, Shape shape) {
    return input(graph_, name, {DType::fp32, shape}, Role::parameter);
  }

  Value linear(Value x, std::int64_t out, const char* name) {
    const ScopeGuard scope(graph_, name);
    const Value weight = parameter(std::string(name) + ".weight", {Dim(out), graph_.type(x).shape.dim(-1)});
    return matmul(graph_, x, transpose(graph_, weight, {1, 0}));
  }

  Value forward() {
    const Value x = input(graph_, "x", {DType::fp32, {batch_, Dim(config_.inputs)}}, Role::data);
    Value hidden = linear(x, config_.hidden, "fc1");
    {
      const ScopeGuard scope(graph_, "relu");
      hidden = relu(graph_, hidden);
    }
    {
      const ScopeGuard scope(graph_, "ln");
      const Value weight = parameter("ln.weight", {Dim(config_.hidden)});
      hidden = layer_norm(graph_, hidden, weight, parameter("ln.bias", {Dim(config_.hidden)}), kNormEpsilon)[0];
    }
    return linear(hidden, config_.outputs, "fc2");
  }

  Value mean_loss(Value logits) {
    graph_.set_phase(Phase::loss);
    const ScopeGuard scope(graph_, "loss");
    const Value targets = input(graph_, "targets", {DType::int64, {batch_}}, Role::data);
    const Value losses = cross_entropy(graph_, logits, targets).first;
    const Value loss = scale(graph_, reduce_sum(graph_, losses, {0}), 1.0 / static_cast<double>(config_.batch));
    graph_.set_phase(Phase::forward);
    return loss;
  }

  Dim batch_;
  const ToyModelConfig& config_;
  Graph graph_;
};

}  // namespace

Graph build_toy_model(const ToyModelConfig& config) { return ToyModelBuilder(config).build(); }

WorkloadDescription ToyModel::describe() const {
  WorkloadDescription description{.model = {.name = "toy"}, .batch = config_.batch};
  for (const ParameterDeclaration& parameter : parameters_of(*this))
    description.model.parameters += parameter.type.elements();
  return description;
}

TruncatedNormal ToyModel::initial_distribution(const ParameterDeclaration& parameter) const {
  return parameter.name == "ln.bias" ? TruncatedNormal{} : Workload::initial_distribution(parameter);
}

void ToyModel::write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const {
  const TensorType x{DType::fp32, {config_.batch, config_.inputs}};
  program.write_random("x", Workload::initial_distribution({"x", x}), seed, stop_point);
  if (!program.graph().find_input("targets")) return;
  HostTensor targets(TensorType{DType::int64, {config_.batch}});
  for (std::int64_t i = 0; i < config_.batch; ++i)
    targets.as<std::int64_t>()[static_cast<std::size_t>(i)] = i % config_.outputs;
  program.write_input("targets", targets);
}

WorkloadKind workload_toy() {
  return {.name = "toy", .settings = {}, .make = [](const WorkloadSettings&) { return std::make_shared<ToyModel>(); }};
}

}  // namespace ridgepoint
