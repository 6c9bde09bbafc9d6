// Erasing nodes whose results nothing needs.
#pragma once

#include <functional>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Erases the nodes that `may_be_erased` names and of which no node that stays, no output and no update needs a result.
// Inputs are nodes too. Returns whether it erased any.
bool erase_unused(Graph& graph, const std::function<bool(const Node&)>& may_be_erased);

}  // namespace ridgepoint
