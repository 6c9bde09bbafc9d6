// Initial weights, rotary tables and random tokens.
#include <algorithm>
#include <cmath>

#include "models/random_tensor.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

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

HostTensor initial_parameter(const std::string& name, const TensorType& type, std::uint64_t seed,
                             const StopPoint& stop_point) {
  HostTensor tensor(type);
  const std::span<float> values = tensor.as<float>();
  if (type.shape.rank() == 1) {
    std::fill(values.begin(), values.end(), 1.0F);  // norm weights
  } else {
    const bool is_embedding = name == "token_embeddings.weight";
    const double sigma = is_embedding ? 1.0 : std::sqrt(2.0 / static_cast<double>(type.shape[0] + type.shape[1]));
    fill_truncated_normal(values, sigma, random_stream(name, seed), stop_point);
  }
  return tensor;
}

std::vector<ParameterDeclaration> transformer_parameters(const TransformerConfig& config) {
  const Graph graph = build_transformer(config, 1);
  std::vector<ParameterDeclaration> parameters;
  for (const NodeId id : graph.inputs(Role::parameter)) {
    const Node& node = graph.node(id);
    parameters.push_back({input_name(node), graph.type(node.outputs[0])});
  }
  return parameters;
}

bool initialise_loss_scale(Program& program, const LossScalingOptions& options) {
  const std::optional<Value> loss_scale = program.graph().find_input("optimizer.loss_scale");
  if (!loss_scale) return false;
  HostTensor first(program.graph().type(*loss_scale));
  first.as<float>()[0] = static_cast<float>(options.initial_scale);
  program.write_input("optimizer.loss_scale", first);
  return true;
}

void initialise_constants(Program& program, const TransformerConfig& config) {
  write_rotary_tables(program, config);
  initialise_loss_scale(program);
}

void initialise(Program& program, const TransformerConfig& config, std::uint64_t seed, const StopPoint& stop_point) {
  initialise_constants(program, config);
  const Graph& graph = program.graph();
  for (const NodeId id : graph.inputs(Role::parameter)) {
    const Node& node = graph.node(id);
    const std::string& parameter = input_name(node);
    program.write_input(parameter, initial_parameter(parameter, graph.type(node.outputs[0]), seed, stop_point));
  }
}

void write_random_tokens(Program& program, const TransformerConfig& config, std::uint64_t seed) {
  const Graph& graph = program.graph();
  for (const char* which : {"inputs", "targets"}) {
    const std::optional<Value> value = graph.find_input(which);
    if (!value) continue;  // a forward program has no targets
    HostTensor tokens(graph.type(*value));
    fill_uniform(tokens.as<std::int64_t>(), config.vocab, random_stream(which, seed));
    program.write_input(which, tokens);
  }
}

}  // namespace ridgepoint
