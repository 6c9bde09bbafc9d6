// Matrix multiplication by cuBLASLt: strided, batched and transposed operands are read where they lie.
#pragma once

#include <memory>

#include "backends/cuda/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// Operands must lie as matmul_operand_layout() allows and begin at multiples of 256 bytes.
std::unique_ptr<Kernel> make_matmul_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
