// Attention variants as graph builders.
#pragma once

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Causal attention written out in plain ops: scores, scale, mask, softmax (shift by the row maximum, exponential,
// division by the row sum) and the weighted sum of values. q, k, v [B,H,S,D] -> [B,H,S,D].
Value composite_attention(Graph& graph, Value q, Value k, Value v);

}  // namespace ridgepoint
