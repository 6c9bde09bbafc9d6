#include "support/graphs/run_by_definition.h"

#include "backends/reference/reference_device.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint::testing {
namespace {

// The graph of one node, with inputs and outputs "0", "1", ....
Graph alone(const Graph& graph, const Node& node) {
  if (node.body != nullptr) return node.body->graph;
  Graph body;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    operands.push_back(input(body, std::to_string(i), graph.type(node.inputs[i]), Role::data));
  const NodeId made = make_node(body, node.op, operands, node.attributes);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) body.add_output(std::to_string(i), body.node(made).outputs[i]);
  return body;
}

// The results of one node for given values of its operands.
std::vector<HostTensor> run_alone(const Graph& graph, const Node& node, const std::vector<HostTensor>& values) {
  Program program(alone(graph, node), make_reference_device());
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    program.write_input(std::to_string(i), values[node.inputs[i].id]);
  program.run();
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) results.push_back(program.read_output(std::to_string(i)));
  return results;
}

}  // namespace

Tensors run_by_definition(const Graph& graph, Tensors& inputs) {
  std::vector<HostTensor> values(graph.value_count());
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::input) {
      values[node.outputs[0].id] = inputs.at(node.attributes.get<std::string>("name"));
    } else {
      std::vector<HostTensor> results = run_alone(graph, node, values);
      for (std::size_t i = 0; i < results.size(); ++i) values[node.outputs[i].id] = std::move(results[i]);
    }
  }
  Tensors outputs;
  for (const Output& output : graph.outputs()) outputs.emplace(output.name, values[output.value.id]);
  for (const Update& update : graph.updates()) {
    inputs.at(graph.producer_node(update.input).attributes.get<std::string>("name")) = values[update.value.id];
  }
  return outputs;
}

Tensors run_by_definition(const Graph& graph, const Tensors& inputs) {
  Tensors own = inputs;
  return run_by_definition(graph, own);
}

}  // namespace ridgepoint::testing
