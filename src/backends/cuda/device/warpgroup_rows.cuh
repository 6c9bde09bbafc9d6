// Rows of the results of a warpgroup's products (warpgroup_mma.cuh).
#pragma once

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"

namespace ridgepoint::cuda {

// The transpose of two registers of two threads.
__device__ __forceinline__ void exchange(unsigned& first, unsigned& second, bool is_second, int apart) {
  const unsigned received = __shfl_xor_sync(kAllLanes, is_second ? first : second, apart);
  (is_second ? first : second) = received;
}

struct Unchanged {
  __device__ __forceinline__ void operator()(uint4& /*elements*/, int /*number*/) const {}
};

// Writes `width` elements of a row of a WarpgroupProduct's sum, times a factor; `half`: of the two rows that a thread
// has. Four threads have a row, each two columns of every eight. They exchange columns so that each writes eight that
// follow one another; `change(elements, i)` may change the i-th packed eight of a thread before. `row` is aligned
// to 16 bytes.
template <int kWidth, class Element, class Change = Unchanged>
__device__ __forceinline__ void write_row(Element* row, const float (&sum)[kWidth / 2], float factor, int half,
                                          int width, const Change& change = {}) {
  int quarter;  // read here, so that a loop around it keeps nothing of it in registers
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(quarter));
  quarter %= 4;
#pragma unroll
  for (int j = 0; j < kWidth / 8; j += 4) {
    unsigned x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = 4 * (j + i) + 2 * half;
      x[i] = pack<Element>(sum[at] * factor, sum[at + 1] * factor);
    }
    exchange(x[0], x[1], quarter % 2 != 0, 1);
    exchange(x[2], x[3], quarter % 2 != 0, 1);
    exchange(x[0], x[2], quarter >= 2, 2);
    exchange(x[1], x[3], quarter >= 2, 2);
    const int column = 8 * (j + quarter);
    if (column >= width) continue;
    uint4 elements = {x[0], x[1], x[2], x[3]};
    change(elements, j / 4);
    *reinterpret_cast<uint4*>(row + column) = elements;
  }
}

}  // namespace ridgepoint::cuda
