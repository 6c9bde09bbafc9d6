// Removes nodes that no output or update depends on, except inputs, which are the interface of the program.
#include "ir/rewriter.h"
#include "passes/pass.h"

namespace ridgepoint {

bool eliminate_dead_code(Graph& graph, const PassOptions&) {
  return erase_unused(graph, [](const Node& node) { return node.op != Op::input; });
}

}  // namespace ridgepoint
