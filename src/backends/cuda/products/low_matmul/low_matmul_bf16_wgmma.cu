// Products of bf16 operands on Hopper.
#include "backends/cuda/products/low_matmul/low_matmul_kernels.cuh"

namespace ridgepoint::cuda {

RIDGEPOINT_LOW_MATMULS(bf16, __nv_bfloat16)

}  // namespace ridgepoint::cuda
