// Where the new value of an updated input may be written as it is made: over the old one, in the input's storage.
#pragma once

#include <span>

#include "ops/layout.h"

namespace ridgepoint {

// Whether result `index` of a node that launches may lie in the storage of the input `target`: the node reads
// nothing that lies there, or is elementwise and reads it element for element, or donates that one operand to this
// result and reads it through no other. `layouts` are those of all values.
bool can_write_over(const Node& node, std::size_t index, Value target, std::span<const ValueLayout> layouts);

}  // namespace ridgepoint
