// Values of the forward phase that stay in memory after the run, as outputs.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/rewriter.h"
#include "ops/layout.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

bool is_after_forward(const Node& node) { return node.phase != Phase::forward; }

// The storage that backward reads, in the order in which forward makes it.
std::vector<Value> saved_values(const Graph& graph) {
  const std::vector<ValueLayout> layouts = value_layouts(graph);
  std::set<Value> read;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::recompute && node.phase != Phase::backward) continue;
    for (const Value value : node.inputs) {
      if (!layouts[value.id].layout.immediate) read.insert(layouts[value.id].root);
    }
  }
  for (const Output& output : graph.outputs()) {
    if (output.role != OutputRole::gradient) read.erase(layouts[output.value.id].root);
  }
  std::vector<Value> saved;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::input || is_after_forward(node)) continue;
    for (const Value value : node.outputs) {
      if (read.contains(value)) saved.push_back(value);
    }
  }
  return saved;
}

}  // namespace

// Adds the last floating value of every module as an output "activation.SCOPE", in schedule order.
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

// Mode training_forward: everything after the forward phase is erased. Each forward storage that backward would read
// becomes an output "saved.N", so that it stays in memory after the run, as saved tensors do in PyTorch.
bool save_for_backward(Graph& graph, const PassOptions& options) {
  if (options.mode != Mode::training_forward) return false;
  const std::vector<Value> saved = saved_values(graph);
  graph.erase_outputs(
      [](const Output& output) { return output.role == OutputRole::loss || output.role == OutputRole::gradient; });
  for (std::size_t i = 0; i < saved.size(); ++i) {
    graph.add_output("saved." + std::to_string(i), saved[i], OutputRole::activation,
                     graph.scope_name(graph.producer_node(saved[i])));
  }
  erase_unused(graph, [](const Node& node) {
    const bool is_state = node.op == Op::input && (input_role(node) == Role::data || input_role(node) == Role::state);
    return is_after_forward(node) || is_state;
  });
  return true;
}

}  // namespace ridgepoint
