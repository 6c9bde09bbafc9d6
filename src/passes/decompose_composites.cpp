// Replaces every composite the device has no kernel for, or that asks for it (kPlainAttribute), by its decomposition
// into primitives.
#include <string>
#include <unordered_map>

#include "ops/node_key.h"
#include "ops/rule.h"
#include "passes/pass.h"

namespace ridgepoint {

bool decompose_composites(Graph& graph, const PassOptions& options) {
  std::vector<std::pair<Value, Value>> replacements;
  std::vector<NodeId> replaced;
  std::unordered_map<std::string, bool> has_kernel;  // of nodes that do the same
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    if (op_class(node.op) != OpClass::composite) continue;
    const auto [known, is_new] = has_kernel.try_emplace(typed_key(graph, node));
    if (is_new) {
      known->second = !node.attributes.get_or(kPlainAttribute, false) && options.target.has_kernel(graph, node);
    }
    if (known->second) continue;
    graph.set_insertion_before(id);
    const std::vector<Value> values = decompose_fully(graph, node);
    for (std::size_t i = 0; i < values.size(); ++i) replacements.emplace_back(node.outputs[i], values[i]);
    replaced.push_back(id);
  }
  if (replaced.empty()) return false;
  graph.replace_uses(replacements);
  graph.erase(replaced);
  return true;
}

}  // namespace ridgepoint
