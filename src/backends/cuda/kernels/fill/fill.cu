// Fills a few bytes, in place of a fill of the driver (driver/graph_edits.h). grid (1), block (FillBytes::kThreads)
#include "backends/cuda/kernels/fill/parameters.h"

extern "C" __global__ void __launch_bounds__(ridgepoint::cuda::FillBytes::kThreads)
    fill_bytes(const __grid_constant__ ridgepoint::cuda::FillBytes fill) {
  for (int i = threadIdx.x; i < fill.bytes; i += blockDim.x)
    fill.to[i] = static_cast<unsigned char>(fill.value >> (8 * (i % fill.element_bytes)));
}
