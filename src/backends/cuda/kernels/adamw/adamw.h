// AdamW over any number of tensors (the formula is in src/ops/rules/adamw.cpp); the kernel of adamw.cu.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// fp32, operands dense. One launch for every 448 tensors. Outputs that do not share their operand's storage take a
// copy of it first.
std::span<const KernelVariant> adamw_variants();

}  // namespace ridgepoint::cuda
