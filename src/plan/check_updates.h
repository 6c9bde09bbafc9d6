// What the planner needs of the updates of a graph to write each over the old value.
#pragma once

#include <span>

#include "ops/layout.h"

namespace ridgepoint {

// Throws Error (usage) unless every update is by a value that a kernel makes, that updates nothing else and that can be
// written over the input (ops/in_place.h), and nothing reads the input, through views or as an output, after that. The
// pass make_updates_in_place sees to it. `layouts` are those of all values.
void check_updates(const Graph& graph, std::span<const ValueLayout> layouts);

}  // namespace ridgepoint
