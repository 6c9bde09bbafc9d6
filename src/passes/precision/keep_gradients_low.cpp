// Lets the optimizer read the gradients of bf16 and fp16 products as they are. Autocast casts them to the type of their
// parameter first; that cast is exact, so the optimizer computes the same from either.
#include "ir/queries.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

bool reads_gradient(const Node& node, std::size_t operand) {
  if (node.op == Op::nonfinite) return true;
  const std::optional<OptimizerLayout> layout = optimizer_layout(node);
  return layout && layout->is_gradient(operand);
}

}  // namespace

bool keep_gradients_low(Graph& graph, const PassOptions& options) {
  if (options.level == Compile::off) return false;
  bool changed = false;
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<Value> low = low_source(graph, node.inputs[i]);
      if (!low || !reads_gradient(node, i)) continue;
      node.inputs[i] = *low;
      changed = true;
    }
  }
  return changed;
}

}  // namespace ridgepoint
