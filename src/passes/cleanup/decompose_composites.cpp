// Replaces a composite or a fused node by its decomposition into primitives where the device has no kernel for it or
// its attribute kPlainAttribute is set.
#include <string>
#include <unordered_map>

#include "ir/rewriter.h"
#include "ops/node_key.h"
#include "ops/rule.h"
#include "passes/pass.h"

namespace ridgepoint {

bool decompose_composites(Graph& graph, const PassOptions& options) {
  Rewriter rewriter(graph);
  std::unordered_map<std::string, bool> has_kernel;  // by typed_key()
  for (const NodeId id : nodes_of(graph)) {
    const Node& node = graph.node(id);
    if (op_class(node.op) != OpClass::composite && op_class(node.op) != OpClass::fused) continue;
    const auto [known, is_new] = has_kernel.try_emplace(typed_key(graph, node));
    if (is_new)
      known->second = !node.attributes.get_or(kPlainAttribute, false) && options.target.has_kernel(graph, node);
    if (known->second) continue;
    rewriter.insert_before(id);
    rewriter.replace(id, decompose_fully(graph, node));
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
