#include "models/toy_model.h"

#include <array>
#include <optional>
#include <string_view>

#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

constexpr double kNormEpsilon = 1e-5;  // PyTorch's default
constexpr std::array kParameters = {"fc1.weight", "ln.weight", "ln.bias", "fc2.weight"};

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
  Value parameter(const char* name, Shape shape) { return input(graph_, name, {DType::fp32, shape}, Role::parameter); }

  Value linear(Value x, std::int64_t out, const char* name) {
    const ScopeGuard scope(graph_, name);
    const Value weight =
        parameter(graph_.scope() == "fc1" ? kParameters[0] : kParameters[3], {Dim(out), graph_.type(x).shape.dim(-1)});
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
      const Value weight = parameter(kParameters[1], {Dim(config_.hidden)});
      hidden = layer_norm(graph_, hidden, weight, parameter(kParameters[2], {Dim(config_.hidden)}), kNormEpsilon)[0];
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

void initialise_toy_model(Program& program, const ToyModelConfig& config, std::uint64_t seed) {
  const TensorType x{DType::fp32, {config.batch, config.inputs}};
  program.write_input("x", initial_parameter("x", x, seed));
  for (const char* name : kParameters) {
    const std::optional<Value> value = program.graph().find_input(name);
    HostTensor tensor = initial_parameter(name, program.graph().type(*value), seed);
    if (std::string_view(name) == "ln.bias") tensor = HostTensor(tensor.type);  // zero
    program.write_input(name, tensor);
  }
  HostTensor targets(TensorType{DType::int64, {config.batch}});
  for (std::int64_t i = 0; i < config.batch; ++i) {
    targets.as<std::int64_t>()[static_cast<std::size_t>(i)] = i % config.outputs;
  }
  program.write_input("targets", targets);
  initialise_loss_scale(program);
}

}  // namespace ridgepoint
