// Lets the optimizer read the gradients of bf16 and fp16 products as they are. Autocast casts them to the type of their
// parameter first; that cast is exact, so the optimizer computes the same from either.
#include "ops/rules/adamw.h"
#include "passes/pass.h"
#include "ridgepoint/dtype.h"

namespace ridgepoint {
namespace {

bool reads_gradient(const Node& node, std::size_t operand) {
  if (node.op == Op::nonfinite) return true;
  const std::size_t scalars = adamw_scalars(node.attributes);
  return node.op == Op::adamw && operand >= scalars && (operand - scalars) % kAdamWOperandsPerTensor == 1;
}

}  // namespace

bool keep_gradients_low(Graph& graph, const PassOptions& options) {
  if (options.level == Compile::off) return false;
  bool changed = false;
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.op != Op::adamw && node.op != Op::nonfinite) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Node& producer = graph.producer_node(node.inputs[i]);
      if (producer.op != Op::cast || !reads_gradient(node, i)) continue;
      const DType low = graph.type(producer.inputs[0]).dtype;
      if (!is_low(low) || graph.type(node.inputs[i]).dtype != accumulator(low)) continue;
      node.inputs[i] = producer.inputs[0];
      changed = true;
    }
  }
  return changed;
}

}  // namespace ridgepoint
