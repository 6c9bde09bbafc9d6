#include "backends/cuda/products/epilogues/cross_entropy/cross_entropy_node.h"

#include <algorithm>
#include <string>

#include "backends/cuda/products/epilogues/body_expressions.h"
#include "ir/queries.h"

namespace ridgepoint::cuda {
namespace {

// The only other launch of the body.
std::optional<NodeId> loss_of(const Graph& body, NodeId product) {
  std::optional<NodeId> loss;
  for (const NodeId id : body.order()) {
    if (id == product || body.node(id).op == Op::input) continue;
    if (loss || body.node(id).op != Op::cross_entropy) return std::nullopt;
    loss = id;
  }
  return loss;
}
// The number of the result that is the value.
std::optional<std::size_t> result_of(const Graph& body, Value value) {
  const auto found = std::ranges::find(body.outputs(), value, &Output::value);
  return found == body.outputs().end() ? std::nullopt : std::optional(std::stoul(found->name));
}

}  // namespace

std::optional<CrossEntropyNode> cross_entropy_of(const FusedBody& body) {
  const Graph& graph = body.graph;
  const std::optional<NodeId> product = product_of(graph);
  const std::optional<NodeId> loss = product ? loss_of(graph, *product) : std::nullopt;
  if (!loss) return std::nullopt;
  const Value logits = graph.node(*product).outputs[0];
  const Node& node = graph.node(*loss);
  const TensorType& x = graph.type(graph.node(*product).inputs[0]);
  const TensorType& type = graph.type(logits);
  if (node.inputs[0] != logits || !is_input(graph, node.inputs[1], "2") || type.dtype != x.dtype) return std::nullopt;
  const std::optional<std::size_t> losses = result_of(graph, node.outputs[0]);
  if (!losses) return std::nullopt;
  return CrossEntropyNode{.logits = result_of(graph, logits),
                          .losses = *losses,
                          .log_sum_exps = result_of(graph, node.outputs[1]),
                          .tokens = x.shape[0],
                          .vocabulary = type.shape[1],
                          .inner = x.shape[1]};
}

}  // namespace ridgepoint::cuda
