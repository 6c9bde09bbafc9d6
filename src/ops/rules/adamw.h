// The order of an adamw node's operands.
#pragma once

#include <cstddef>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// The number of scalars before the operands of the tensors: the step count and, where guarded, the two of UpdateGuard.
std::size_t adamw_scalars(const Attributes& attributes);
inline constexpr std::size_t kAdamWOperandsPerTensor = 4;  // parameter, gradient, first and second moment
// 3 results a tensor: parameter, first and second moment; 4 with a low copy of the parameter.
std::size_t adamw_results_per_tensor(const Attributes& attributes);

}  // namespace ridgepoint
