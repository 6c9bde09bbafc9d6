// Replaces a short convolution by its decomposition, a sum of shifted views of one tensor. Fusion then makes one kernel
// of the sum and of the ops that follow.
#include "ir/rewriter.h"
#include "ops/rule.h"
#include "passes/pass.h"

namespace ridgepoint {

bool expand_convolutions(Graph& graph, const PassOptions& /*options*/) {
  Rewriter rewriter(graph);
  for (const NodeId id : nodes_of(graph)) {
    if (graph.node(id).op != Op::causal_convolution) continue;
    rewriter.insert_before(id);
    rewriter.replace(id, decompose_fully(graph, graph.node(id)));
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
