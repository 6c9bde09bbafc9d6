// Which attributes an op has, and of which type.
#pragma once

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Throws Error (usage) for an attribute that the op has not, or that has another type. It names those of the op.
void check_attributes(Op op, const Attributes& attributes);

}  // namespace ridgepoint
