// Random graphs that any device computes alike: what they read is small whole numbers, so that most values are exact on
// every device, and nothing that jumps (a comparison, a conversion to integers) is fed with values that are not.
#pragma once

#include <cstdint>

#include "support/run_graph.h"

namespace ridgepoint::testing {

// A graph over all dtypes, views and most ops, with outputs and updates of any of its values: of views, inputs and
// constants too, one value for several inputs, inputs in exchange for one another. The same for a seed everywhere.
Graph random_graph(std::uint64_t seed);

// Whole numbers from -3 to 3 for every input, or 0 to 2 where they may be indices.
Tensors random_whole_inputs(const Graph& graph, std::uint64_t seed);

}  // namespace ridgepoint::testing
