// fused: a node whose body is a graph. Its decomposition is the body.
#include <vector>

#include "ops/shape_rules.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_fused(const ShapeContext&) {
  throw Error("the body of a fused node gives its types; use add_fused()");
}

// Nodes of the body take phase and scope from the graph.
std::vector<Value> decompose_fused(Graph& graph, const Node& node) {
  const Graph& body = node.body->graph;
  std::vector<Value> values(body.value_count());
  for (const NodeId id : body.order()) {
    const Node& inner = body.node(id);
    if (inner.op == Op::input) {
      values[inner.outputs[0].id] = node.inputs[static_cast<std::size_t>(std::stoi(input_name(inner)))];
      continue;
    }
    std::vector<Value> inputs;
    for (const Value value : inner.inputs) inputs.push_back(values[value.id]);
    const NodeId made = make_node(graph, inner.op, inputs, inner.attributes);
    graph.node(made).origin = inner.origin;
    for (std::size_t i = 0; i < inner.outputs.size(); ++i) values[inner.outputs[i].id] = graph.node(made).outputs[i];
  }
  std::vector<Value> results;
  for (const Output& output : body.outputs()) results.push_back(values[output.value.id]);
  return results;
}

}  // namespace

extern const OpRule rule_fused{.infer = infer_fused, .decompose = decompose_fused};

}  // namespace ridgepoint
