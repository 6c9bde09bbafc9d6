// The same graph in double precision, for an oracle.
#pragma once

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Makes every fp32 value fp64, inputs included. Throws Error (usage) for a graph with bf16 or fp16 values: rounding is
// what it would have to take out.
void widen_to_fp64(Graph& graph);

}  // namespace ridgepoint
