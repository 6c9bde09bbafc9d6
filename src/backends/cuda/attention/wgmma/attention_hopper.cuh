// What the attention kernels for Hopper share: ring buffers, copies of tiles, and tanh.
#pragma once

#include "backends/cuda/device/exponential.cuh"
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/tensor_copy.cuh"
#include "backends/cuda/device/warp_mma.cuh"
#include "backends/cuda/device/warpgroup_rows.cuh"
#include "backends/cuda/attention/common/attention_rows.cuh"
#include "backends/cuda/attention/common/parameters.h"

namespace ridgepoint::cuda {

inline constexpr int kWarpsOfGroup = kWarpgroupThreads / kWarpLanes;

// tanh(x / (2 log2(e))) with an absolute error of 3e-7.
__device__ __forceinline__ float tanh_fast(float x) {
  float quotient;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1 + exp2_fast(x)));
  return 1 - 2 * quotient;
}

// The stage of a ring buffer of two, and the parity of its phase.
struct Ring {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    stage ^= 1;
    parity ^= stage == 0 ? 1 : 0;
  }
  // After this number of advances.
  static __device__ __forceinline__ Ring at(int steps) { return {steps & 1, static_cast<unsigned>(steps) >> 1 & 1}; }
};

// Starts copies of kRows rows, panel after panel of 64 columns, of the matrix at `place`, its outer and inner index.
// The barrier must expect their bytes.
template <int kRows, int kPanels>
__device__ __forceinline__ void copy_rows(std::uint32_t to, const AttentionMap& from, SharedBarrier& barrier, int row,
                                          const Division& place) {
#pragma unroll 1  // the loading warp has few registers
  for (int panel = 0; panel < kPanels; ++panel) {
    copy_box(to + panel * kRows * kLineBytes, from.map, barrier, panel * kLineElements, row,
             static_cast<int>(divide(place.remainder, from.group).quotient) * from.inner,
             static_cast<int>(place.quotient) * from.outer);
  }
}

}  // namespace ridgepoint::cuda
