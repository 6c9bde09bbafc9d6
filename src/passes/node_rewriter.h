// What the passes share that rewrite a graph node by node.
#pragma once

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"

namespace ridgepoint {

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
