// A graph in double precision, as a reference for tests of precision.
#pragma once

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Changes every fp32 value to fp64, inputs included. Throws Error (usage) for a graph with bf16 or fp16 values, whose
// casts would still round.
void widen_to_fp64(Graph& graph);

}  // namespace ridgepoint
