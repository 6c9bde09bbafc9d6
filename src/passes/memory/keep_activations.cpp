// Adds the last floating value of every module as an output "activation.SCOPE", in schedule order.
#include <map>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace ridgepoint {

bool keep_activations(Graph& graph, const PassOptions& options) {
  if (!options.keep.activations) return false;
  std::vector<std::string> scopes;  // by the position of their last value
  std::map<std::string, Value> last;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const std::string& scope = graph.scope_name(node);
    const bool is_activation = op_class(node.op) != OpClass::state && is_floating(graph.type(node.outputs[0]).dtype);
    if (scope.empty() || !is_activation) continue;
    last[scope] = node.outputs[0];
    std::erase(scopes, scope);
    scopes.push_back(scope);
  }
  for (const std::string& scope : scopes)
    graph.add_output("activation." + scope, last[scope], OutputRole::activation, scope);
  return !scopes.empty();
}

}  // namespace ridgepoint
