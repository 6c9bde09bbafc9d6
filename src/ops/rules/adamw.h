// How the operands of an adamw node are laid out, for those who take several apart.
#pragma once

#include <cstddef>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Scalars before the four operands of each tensor: the step count and, where guarded, the gradient factor and skip.
std::size_t adamw_scalars(const Attributes& attributes);
inline constexpr std::size_t kAdamWOperandsPerTensor = 4;  // parameter, gradient, first and second moment

}  // namespace ridgepoint
