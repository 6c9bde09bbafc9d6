// What the kernels for codes of 8 bits share.
#pragma once

#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {
namespace {

// The next kernel may start its blocks; nothing touches memory before the previous kernel has ended.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The largest of the values of all threads, in each of them.
template <int kThreads>
__device__ __forceinline__ unsigned block_largest(unsigned value) {
  __shared__ unsigned of_warps[kThreads / kWarpLanes];
  value = __reduce_max_sync(kAllLanes, value);
  if (threadIdx.x % kWarpLanes == 0) of_warps[threadIdx.x / kWarpLanes] = value;
  __syncthreads();
  unsigned largest = 0;
#pragma unroll
  for (int warp = 0; warp < kThreads / kWarpLanes; ++warp) largest = max(largest, of_warps[warp]);
  return largest;
}

// The same of the magnitudes that the kernel before found, as bits of fp32.
template <int kThreads>
__device__ __forceinline__ float largest_share(const unsigned* __restrict__ shares, int count) {
  unsigned largest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) largest = max(largest, shares[i]);
  return __uint_as_float(block_largest<kThreads>(largest));
}

// Bytes of four rows of four columns to four columns of four rows.
__device__ __forceinline__ void transpose_bytes(const unsigned (&rows)[4], unsigned (&columns)[4]) {
  const unsigned low01 = __byte_perm(rows[0], rows[1], 0x5140), low23 = __byte_perm(rows[2], rows[3], 0x5140);
  const unsigned high01 = __byte_perm(rows[0], rows[1], 0x7362), high23 = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(low01, low23, 0x5410);
  columns[1] = __byte_perm(low01, low23, 0x7632);
  columns[2] = __byte_perm(high01, high23, 0x5410);
  columns[3] = __byte_perm(high01, high23, 0x7632);
}

}  // namespace
}  // namespace ridgepoint::cuda
