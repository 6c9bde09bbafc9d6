// Products of fp16 operands on Hopper.
#include "backends/cuda/products/low_matmul/low_matmul_kernels.cuh"

namespace ridgepoint::cuda {

RIDGEPOINT_LOW_MATMULS(fp16, __half)

}  // namespace ridgepoint::cuda
