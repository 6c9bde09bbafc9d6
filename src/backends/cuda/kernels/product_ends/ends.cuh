// What ends of products share: the places of pairs of elements in the panels of results.
#pragma once

#include "backends/cuda/kernels/low_matmul/low_matmul.cuh"

namespace ridgepoint::cuda {
namespace {

// Calls `place(address, at)` for the matrices of a panel that a warp stores together; `at` is the index of their first
// sum of the thread, for a panel that begins at column 0.
template <class T, class Place>
__device__ __forceinline__ void for_each_matrices(std::uint32_t panel, int thread, const Place& place) {
  const int lane = thread % 32;
  const int line = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < T::kPanelColumns / 8; j += 2) {
    place(panel + in_panel<T::kLine>(line, (j + lane / 16) * 16), 4 * j);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda
