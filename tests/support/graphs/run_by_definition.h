// Interprets a graph without passes or plan, as a reference: runs every node alone on the reference back end, stores
// every value separately, and applies all updates at the end.
#pragma once

#include "support/graphs/run_graph.h"

namespace ridgepoint::testing {

// The outputs of one run by name. `inputs` must contain all inputs of the graph; updates change them.
Tensors run_by_definition(const Graph& graph, Tensors& inputs);
Tensors run_by_definition(const Graph& graph, const Tensors& inputs);

}  // namespace ridgepoint::testing
