#include "ridgepoint/workload.h"

#include <cmath>

#include "core/random/random_values.h"
#include "ir/stored_tensors.h"

namespace ridgepoint {
namespace {

// Uniform numbers of rows of the table that the input indexes; 0 where it indexes none.
HostTensor random_indices(const Program& program, const std::string& name, const TensorType& type, std::uint64_t seed) {
  HostTensor tensor(type);
  const std::optional<std::int64_t> bound = program.index_bound(name);
  if (bound && type.dtype == DType::int64) fill_uniform(tensor.as<std::int64_t>(), *bound, random_stream(name, seed));
  return tensor;
}

}  // namespace

TruncatedNormal Workload::initial_distribution(const ParameterDeclaration& parameter) const {
  const Shape& shape = parameter.type.shape;
  if (shape.rank() < 2) return {.mean = 1};
  return {.deviation = std::sqrt(2.0 / static_cast<double>(shape[-2] + shape[-1]))};
}

HostTensor Workload::initial_value(const ParameterDeclaration& parameter, std::uint64_t seed,
                                   const StopPoint& stop_point) const {
  HostTensor tensor(parameter.type);
  fill_random(tensor.as<float>(), initial_distribution(parameter), random_stream(parameter.name, seed), 0, stop_point);
  return tensor;
}

void Workload::write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const {
  const Graph& graph = program.graph();
  for (const NodeId id : graph.inputs(Role::data)) {
    const Node& node = graph.node(id);
    const std::string name = input_name(node);
    const TensorType& type = graph.type(node.outputs[0]);
    if (is_floating(type.dtype)) {
      program.write_random(name, {.deviation = 1}, seed, stop_point);
    } else {
      program.write_input(name, random_indices(program, name, type, seed));
    }
  }
}

std::vector<ParameterDeclaration> parameters_of(const Graph& graph) {
  std::vector<ParameterDeclaration> parameters;
  for (const NodeId id : graph.inputs(Role::parameter)) {
    for (StoredTensor& tensor : stored_tensors(graph, graph.node(id)))
      parameters.push_back({std::move(tensor.name), std::move(tensor.type)});
  }
  return parameters;
}

void initialise(Program& program, const Workload& workload, std::uint64_t seed, const StopPoint& stop_point) {
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    if (stop_point) stop_point();
    program.write_random(parameter.name, workload.initial_distribution(parameter), seed, stop_point);
  }
  workload.write_data(program, seed, stop_point);
  program.synchronize();
}

}  // namespace ridgepoint
