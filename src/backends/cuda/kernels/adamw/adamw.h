// AdamW over any number of tensors (the formula is in src/ops/rules/adamw.cpp); kernels/adamw.cu.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// fp32, operands dense. One launch for every 448 tensors. Outputs that do not share their operand's storage take a
// copy of it first.
std::unique_ptr<Kernel> make_adamw_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
