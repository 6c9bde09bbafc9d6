// Whether a kernel may write the new value of an updated input over the old one.
#pragma once

#include <span>

#include "ops/layout.h"

namespace ridgepoint {

// Whether result `index` of a node may be written to the storage of the input `target`. A dense result may when the
// node reads nothing in that storage; when the node is elementwise and reads it densely; or when the node reads it
// through one dense operand that its op donates to this result. `layouts` are those of all values.
bool can_write_over(const Node& node, std::size_t index, Value target, std::span<const ValueLayout> layouts);

}  // namespace ridgepoint
