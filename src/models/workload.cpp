
#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "core/random/random_values.h"
#include "core/text/nearest.h"
#include "core/text/throw_error.h"
#include "ir/stored_tensors.h"
#include "passes/training/training.h"
#include "ridgepoint/models/workload.h"

namespace ridgepoint {

// Each in the file of its class.
#define RIDGEPOINT_WORKLOADS(EACH) EACH(transformer) EACH(attention) EACH(toy)
#define DECLARE(name) WorkloadKind workload_##name();
RIDGEPOINT_WORKLOADS(DECLARE)
#undef DECLARE

namespace {

// Uniform numbers of rows of the table that the input indexes; 0 where it indexes none. A rank of a parallel run has
// its part of the numbers of a run on one rank with the batches of all.
HostTensor random_indices(const Program& program, const std::string& name, const TensorType& type, std::uint64_t seed) {
  HostTensor tensor(type);
  const std::optional<std::int64_t> bound = program.index_bound(name);
  if (!bound || type.dtype != DType::int64) return tensor;
  const std::int64_t first = program.parallel().rank * type.elements();
  fill_uniform(tensor.as<std::int64_t>(), *bound, random_stream(name, seed), first);
  return tensor;
}

// A list whose names stay where they are.
std::deque<WorkloadKind>& kinds() {
#define MAKE(name) workload_##name(),
  static std::deque<WorkloadKind> all = {RIDGEPOINT_WORKLOADS(MAKE)};
#undef MAKE
  return all;
}

}  // namespace

TruncatedNormal initial_distribution(const Workload& workload, const ParameterDeclaration& parameter) {
  if (parameter.name.ends_with(kLoraB)) return {.deviation = 0};
  if (!parameter.name.ends_with(kLoraA)) return workload.initial_distribution(parameter);
  return {.deviation = 1 / std::sqrt(3.0 * static_cast<double>(parameter.type.shape[-1]))};
}

TruncatedNormal Workload::initial_distribution(const ParameterDeclaration& parameter) const {
  const Shape& shape = parameter.type.shape;
  if (shape.rank() < 2) return {.mean = 1};
  return {.deviation = std::sqrt(2.0 / static_cast<double>(shape[-2] + shape[-1]))};
}

HostTensor Workload::initial_value(const ParameterDeclaration& parameter, std::uint64_t seed,
                                   const StopPoint& stop_point) const {
  HostTensor tensor(parameter.type);
  fill_random(tensor.as<float>(), ridgepoint::initial_distribution(*this, parameter),
              random_stream(parameter.name, seed), 0, stop_point);
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
    program.write_random(parameter.name, initial_distribution(workload, parameter), seed, stop_point);
  }
  workload.write_data(program, seed, stop_point);
  program.synchronize();
}

void register_workload(WorkloadKind kind) {
  if (std::ranges::find(kinds(), kind.name, &WorkloadKind::name) != kinds().end())
    throw_error("there is a workload '{}'; give yours another name", kind.name);
  kinds().push_back(std::move(kind));
}

const WorkloadKind& workload_kind(std::string_view name) {
  const auto found = std::ranges::find(kinds(), name, &WorkloadKind::name);
  if (found == kinds().end()) refuse_name(name, "'{}' is unknown", workload_names());
  return *found;
}

std::vector<std::string_view> workload_names() {
  std::vector<std::string_view> names;
  for (const WorkloadKind& kind : kinds()) names.emplace_back(kind.name);
  return names;
}

}  // namespace ridgepoint
