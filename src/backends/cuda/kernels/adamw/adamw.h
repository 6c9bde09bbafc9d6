// AdamW over any number of tensors (the formula is in src/ops/rules/adamw.cpp); the kernel of adamw.cu.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// fp32, operands dense. One launch for every 448 tensors. An operand with other storage than its output is copied
// first.
std::span<const KernelVariant> adamw_variants();

}  // namespace ridgepoint::cuda
