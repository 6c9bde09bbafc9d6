// The part of verify() that costs next to nothing.
#pragma once

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Checks that every node has as many operands and results as its op, and that every operand, output and update is a
// value that an earlier node makes: whoever plans or walks a graph relies on no more. Throws Error as verify() does.
void verify_operands(const Graph& graph);

}  // namespace ridgepoint
