// The condition under which every update of a graph can be written over the old value.
#pragma once

#include <span>

#include "ops/layout.h"

namespace ridgepoint {

// Throws Error (usage) unless, for every update, a kernel computes the new value and can write it over the input
// (ops/in_place.h), the value updates no other input, and nothing reads the input afterwards, through views or as an
// output. The pass make_updates_in_place ensures this. `layouts` are those of all values.
void check_updates(const Graph& graph, std::span<const ValueLayout> layouts);

}  // namespace ridgepoint
