// Reverse-mode differentiation on the graph.
#pragma once

#include <span>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Appends the backward graph of `loss` (one element) and returns d loss / d wrt[i], with the type of wrt[i].
// New nodes carry Phase::backward and the scope of the node that they differentiate. The gradient is zero where the
// loss does not depend on wrt[i]. Throws Error when the loss is not a floating scalar, or when an op between wrt and
// the loss has no derivative.
std::vector<Value> differentiate(Graph& graph, Value loss, std::span<const Value> wrt);

// The vector-Jacobian product for a `y` of any shape: returns d sum(y * gradient) / d wrt[i]. `gradient` has the type
// of y.
std::vector<Value> differentiate(Graph& graph, Value y, Value gradient, std::span<const Value> wrt);

}  // namespace ridgepoint
