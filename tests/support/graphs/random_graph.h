// Random graphs with the same results on every device. Inputs are small integers, so that most values are exact;
// operands of discontinuous ops (comparisons, conversions to integers) are always exact.
#pragma once

#include <cstdint>

#include "support/graphs/run_graph.h"

namespace ridgepoint::testing {

// A graph of all dtypes, views and most ops. Its outputs and updates use any values: also views, inputs and constants,
// one value for several inputs, inputs that exchange their values. A seed gives the same graph on every machine.
Graph random_graph(std::uint64_t seed);

// Integers from -3 to 3 for every input, or from 0 to 2 where they may be indices.
Tensors random_whole_inputs(const Graph& graph, std::uint64_t seed);

}  // namespace ridgepoint::testing
