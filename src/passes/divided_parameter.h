// Parameters of which each rank stores one part (Sharding::parameters).
#pragma once

#include <cstdint>
#include <vector>

#include "ridgepoint/graph.h"
#include "ridgepoint/parallel.h"

namespace ridgepoint {

// Kernels read a part in vectors of this many elements, which must not begin between boundaries.
inline constexpr std::int64_t kPartElements = 8;

bool is_output(const Graph& graph, Value value);

// Makes the input store this rank's part of its elements, in one dimension. `readers` read a gather of all parts
// instead, which stands directly after the input. The ranks must divide the elements.
void divide_parameter(Graph& graph, Value parameter, const ParallelOptions& parallel,
                      const std::vector<NodeId>& readers);

}  // namespace ridgepoint
