#include "ridgepoint/workload.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/stored_tensors.h"
#include "models/random_tensor.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

HostTensor random_data(const Program& program, const std::string& name, const TensorType& type, std::uint64_t seed,
                       const StopPoint& stop_point) {
  if (is_floating(type.dtype)) {
    HostTensor tensor({DType::fp32, type.shape});
    fill_truncated_normal(tensor.as<float>(), 1.0, random_stream(name, seed), stop_point);
    return type.dtype == DType::fp32 ? tensor : convert(tensor, type.dtype);
  }
  HostTensor tensor(type);
  const std::optional<std::int64_t> bound = program.index_bound(name);
  if (bound && type.dtype == DType::int64) fill_uniform(tensor.as<std::int64_t>(), *bound, random_stream(name, seed));
  return tensor;
}

}  // namespace

void Workload::fill_initial_value(const ParameterDeclaration& parameter, std::uint64_t seed, std::span<float> values,
                                  const StopPoint& stop_point) const {
  const Shape& shape = parameter.type.shape;
  if (shape.rank() < 2) {
    std::ranges::fill(values, 1.0F);
  } else {
    const double sigma = std::sqrt(2.0 / static_cast<double>(shape[-2] + shape[-1]));
    fill_truncated_normal(values, sigma, random_stream(parameter.name, seed), stop_point);
  }
}

HostTensor Workload::initial_value(const ParameterDeclaration& parameter, std::uint64_t seed,
                                   const StopPoint& stop_point) const {
  HostTensor tensor(parameter.type);
  fill_initial_value(parameter, seed, tensor.as<float>(), stop_point);
  return tensor;
}

void Workload::write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point) const {
  const Graph& graph = program.graph();
  for (const NodeId id : graph.inputs(Role::data)) {
    const Node& node = graph.node(id);
    const TensorType& type = graph.type(node.outputs[0]);
    program.write_input(input_name(node), random_data(program, input_name(node), type, seed, stop_point));
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
  workload.write_data(program, seed, stop_point);
  // By size. They are used again, because the first use of new memory takes as long as making the values.
  std::map<std::size_t, HostTensor> tensors;
  for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
    if (stop_point) stop_point();
    HostTensor& tensor = tensors.try_emplace(parameter.type.bytes(), parameter.type).first->second;
    tensor.type = parameter.type;
    workload.fill_initial_value(parameter, seed, tensor.as<float>(), stop_point);
    program.write_input(parameter.name, tensor);
  }
}

}  // namespace ridgepoint
