// Shared by the passes that rewrite a graph node by node.
#pragma once

#include <algorithm>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"

namespace ridgepoint {

// Whether is_such(reader) holds for every node that reads the value or a view of it, and none of them is a result.
template <typename IsSuch>
bool are_all_readers(const Graph& graph, const Readers& readers, Value value, const IsSuch& is_such) {
  return !readers.is_result(value) && std::ranges::all_of(readers.of(value), [&](NodeId id) {
    const Node& reader = graph.node(id);
    if (op_class(reader.op) != OpClass::view) return is_such(reader);
    return std::ranges::all_of(reader.outputs,
                               [&](Value view) { return are_all_readers(graph, readers, view, is_such); });
  });
}

// A pass derives from it. Its readers are those of the graph before the pass.
class NodeRewriter {
 public:
  NodeRewriter(Graph& graph, const PassTarget& target)
      : graph_(graph), target_(target), readers_(graph), rewriter_(graph) {}

 protected:
  // Calls visit(id) for each node of the op, in order, and finishes the rewriting. Returns whether it changed anything.
  template <typename Visit>
  bool rewrite(Op op, Visit visit) {
    for (const NodeId id : nodes_of(graph_)) {
      if (graph_.node(id).op == op) visit(id);
    }
    return rewriter_.finish();
  }

  bool is_read_once(Value value) const { return readers_.is_read_once(graph_, value); }

  Graph& graph_;
  const PassTarget& target_;
  const Readers readers_;
  Rewriter rewriter_;
};

}  // namespace ridgepoint
