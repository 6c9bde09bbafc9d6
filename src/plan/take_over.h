// Whether a result may be written over an operand of its node.
#pragma once

#include <span>

#include "ops/layout.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// Whether the result of a node, which has storage of its own, may take over the storage `target` of operands that
// nothing else reads: its op donates them (ops/rule.h), or it is elementwise or fused and its kernel reads each element
// of them before it writes the element of the result at the same place. A node of several results may not: where a
// fused body does not compile, its ops run one by one, and would write one result before they read for the next.
// `layouts` are those of all values.
bool can_take_over(const Graph& graph, const Node& node, Value target, std::span<const ValueLayout> layouts);

}  // namespace ridgepoint
