#include <string>
#include <unordered_map>

#include "ir/rewriter.h"
#include "ops/node_key.h"
#include "ops/rule.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

// `part` is a part of the node's phase. Nodes of different parts are not shared.
std::string key_of(const Graph& graph, const Node& node, const std::vector<Value>& representative, std::size_t part) {
  std::string key = operation_key(node);
  if (launches(node.op)) {
    append_bits(key, node.phase);
    append_bits(key, part);
  }
  append_bits(key, node.inputs.size());
  for (const Value value : node.inputs) append_bits(key, representative[value.id].id);
  for (const Value value : node.outputs) append_labelled_type(key, graph.type(value));
  return key;
}

}  // namespace

// Removes nodes that no output or update depends on, except inputs, which are the interface of the program.
bool eliminate_dead_code(Graph& graph, const PassOptions&) {
  return erase_unused(graph, [](const Node& node) { return node.op != Op::input; });
}

// If several nodes compute the same op on the same values, keeps the first. Nodes with kernels are shared only within a
// phase: if backward shared a forward result, the result would stay in memory, and checkpointing decides that. Nested
// checkpointing computes a value twice in backward: for the block inputs of its segment, and for its block. Views are
// shared across phases.
bool eliminate_common_subexpressions(Graph& graph, const PassOptions& options) {
  std::vector<Value> representative(graph.value_count());
  for (std::uint32_t id = 0; id < representative.size(); ++id) representative[id] = Value{id};
  std::unordered_map<std::string, NodeId> first;
  Rewriter rewriter(graph);
  std::size_t backward_nodes = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase == Phase::backward) ++backward_nodes;
    const bool is_nested = node.phase == Phase::recompute && options.checkpoint == Checkpoint::nested;
    if (node.op == Op::input || rule(node.op).donations != nullptr) continue;  // its results overwrite its operands
    const auto [at, is_new] = first.emplace(key_of(graph, node, representative, is_nested ? backward_nodes : 0), id);
    if (is_new) continue;
    const Node& kept = graph.node(at->second);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) representative[node.outputs[i].id] = kept.outputs[i];
    rewriter.replace(id, kept.outputs);
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
