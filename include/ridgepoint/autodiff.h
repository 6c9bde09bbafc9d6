// Reverse-mode differentiation on the graph.
#pragma once

#include <span>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Appends the backward graph of `loss` (one element) and returns d loss / d wrt[i], each of wrt[i]'s type.
// New nodes carry Phase::backward and the scope of the node they differentiate. A value the loss does not
// depend on gets a zero gradient. Throws Error when the loss is not a floating scalar or an op on the path
// has no derivative.
std::vector<Value> differentiate(Graph& graph, Value loss, std::span<const Value> wrt);

// The same of `y` of any shape and a given gradient by it, of y's type: d sum(y * gradient) / d wrt[i].
std::vector<Value> differentiate(Graph& graph, Value y, Value gradient, std::span<const Value> wrt);

}  // namespace ridgepoint
