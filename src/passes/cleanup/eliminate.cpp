#include <string>
#include <unordered_map>

#include "ir/rewriter.h"
#include "ops/node_key.h"
#include "ops/rule.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

// `phase` is that of the node, or a part of it that shares nothing with the others.
std::string key_of(const Graph& graph, const Node& node, const std::vector<Value>& representative,
                   const std::string& phase) {
  std::string key = operation_key(node);
  if (launches(node.op)) key += '@' + phase;
  for (const Value value : node.inputs) key += '%' + std::to_string(representative[value.id].id);
  for (const Value value : node.outputs) key += graph.type(value).to_string();
  return key;
}

}  // namespace

// Removes nodes that no output or update depends on, except inputs, which are the interface of the program.
bool eliminate_dead_code(Graph& graph, const PassOptions&) {
  return erase_unused(graph, [](const Node& node) { return node.op != Op::input; });
}

// Of nodes that compute the same op on the same values, keeps the first. Nodes with kernels are shared only within a
// phase: a forward result that backward shares would stay in memory, which is for checkpointing to decide. Nested
// checkpointing computes a value again twice: for the block inputs of its segment, and for its block. Views are shared
// across phases.
bool eliminate_common_subexpressions(Graph& graph, const PassOptions& options) {
  std::vector<Value> representative(graph.value_count());
  for (std::uint32_t id = 0; id < representative.size(); ++id) representative[id] = Value{id};
  std::unordered_map<std::string, NodeId> first;
  Rewriter rewriter(graph);
  std::size_t backward_nodes = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::string phase(name(node.phase));
    if (node.phase == Phase::backward) ++backward_nodes;
    if (node.phase == Phase::recompute && options.checkpoint == Checkpoint::nested)
      phase += std::to_string(backward_nodes);
    if (node.op == Op::input || rule(node.op).donations != nullptr) continue;  // its results overwrite its operands
    const auto [at, is_new] = first.emplace(key_of(graph, node, representative, phase), id);
    if (is_new) continue;
    const Node& kept = graph.node(at->second);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) representative[node.outputs[i].id] = kept.outputs[i];
    rewriter.replace(id, kept.outputs);
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
