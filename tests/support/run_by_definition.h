// What a graph means, worked out without passes, plan or storage: every node alone, on the reference back end, in
// order, each value kept to itself; then all updates at once.
#pragma once

#include "support/run_graph.h"

namespace ridgepoint::testing {

// Outputs of one run by name. `inputs` must have all of the graph's, and are updated where they can be.
Tensors run_by_definition(const Graph& graph, Tensors& inputs);
Tensors run_by_definition(const Graph& graph, const Tensors& inputs);

}  // namespace ridgepoint::testing
