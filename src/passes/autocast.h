// Mixed precision: which ops compute in a low type and which stay in fp32, as PyTorch's autocast has it.
#pragma once

#include <vector>

#include "ridgepoint/graph.h"
#include "ridgepoint/precision.h"

namespace ridgepoint {

struct AutocastOptions {
  Precision precision = Precision::bf16;
  std::vector<Op> force_low = {};  // these ops take the low type whatever their rule says
};

// Rewrites a graph so that every node computes in the type that its op's AutocastRule gives it, with casts where types
// meet. Parameters and state keep their type; each is rounded by one cast, which all its readers share, gradients
// included when the graph is differentiated afterwards. Differentiated after this pass, low values have low gradients
// and parameters fp32 ones. tf32 marks the products and changes no type; fp32 changes nothing. fp64 stays as it is.
// Returns whether anything changed.
bool autocast(Graph& graph, const AutocastOptions& options);

}  // namespace ridgepoint
