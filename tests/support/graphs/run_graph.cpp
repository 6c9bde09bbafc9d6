#include "support/graphs/run_graph.h"

#include <cmath>

#include "ir/stored_tensors.h"

namespace ridgepoint::testing {

Tensors random_inputs(const Graph& graph, const OpCase& op_case, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> real(op_case.low, op_case.high);
  Tensors tensors;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    HostTensor tensor(stored_tensors(graph, node).front().type);
    const std::size_t size = size_bytes(tensor.type.dtype);
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.type.elements()); ++i) {
      const double value = is_floating(tensor.type.dtype)
                               ? static_cast<float>(real(generator))
                               : static_cast<double>(generator() % static_cast<std::uint64_t>(op_case.index_bound));
      store_element(tensor.type.dtype, tensor.data.data() + i * size, value);
    }
    tensors.emplace(node.attributes.get<std::string>("name"), std::move(tensor));
  }
  return tensors;
}

Tensors converted_inputs(const Tensors& tensors, const Graph& graph) {
  Tensors result;
  for (const auto& [name, tensor] : tensors) {
    const Node& node = graph.producer_node(*graph.find_input(name));
    const DType dtype = stored_tensors(graph, node).front().type.dtype;
    result.emplace(name, tensor.type.dtype == dtype ? tensor : convert(tensor, dtype));
  }
  return result;
}

Tensors run(Program& program, const Tensors& inputs) {
  for (const auto& [name, tensor] : inputs) program.write_input(name, tensor);
  program.run();
  Tensors outputs;
  for (const Output& output : program.graph().outputs()) outputs.emplace(output.name, program.read_output(output.name));
  return outputs;
}

Tensors run_graph(Graph graph, std::shared_ptr<Device> device, const Tensors& inputs) {
  Program program(std::move(graph), std::move(device), {.compile = {.verify = true}});
  return run(program, inputs);
}

double relative_error(const HostTensor& a, const HostTensor& b) {
  double difference = 0;
  double norm = 0;
  const std::size_t size_a = size_bytes(a.type.dtype);
  const std::size_t size_b = size_bytes(b.type.dtype);
  for (std::size_t i = 0; i < static_cast<std::size_t>(b.type.elements()); ++i) {
    const double x = load_element(a.type.dtype, a.data.data() + i * size_a);
    const double y = load_element(b.type.dtype, b.data.data() + i * size_b);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(y)) norm += y * y;
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace ridgepoint::testing
