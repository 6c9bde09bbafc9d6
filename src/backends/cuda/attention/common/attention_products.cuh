// The first kernel of attention's backward, for every element type.
#pragma once

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/attention/common/attention_rows.cuh"

namespace ridgepoint::cuda {

// Eight lanes compute sum(do o) of each query; `semaphores` of each matrix, and `started`, become 0. Needs 8 B S threads
// or more, and one for each semaphore.
template <class Element>
__device__ __forceinline__ void prepare_backward(const AttentionBackward& attention, int semaphores) {
  constexpr int kCount = kVectorBytes / sizeof(Element);
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread < static_cast<long long>(attention.batch) * semaphores) attention.semaphores[thread] = 0;
  if (thread == 0) *attention.started = 0;
  const int rows = attention.batch * attention.queries;
  const int row = static_cast<int>(thread / 8);
  float sum = 0;
  if (row < rows) {
    const int matrix = row / attention.queries;
    const int query = row - matrix * attention.queries;
    const auto* o = first_row<Element>(attention.o, attention.inner_count, matrix) + rows_apart(query, attention.o.row);
    const auto* d_o =
        first_row<Element>(attention.d_o, attention.inner_count, matrix) + rows_apart(query, attention.d_o.row);
    for (int at = static_cast<int>(thread % 8) * kCount; at < attention.width; at += 8 * kCount) {
      const auto x = *reinterpret_cast<const Packet<Element, kCount>*>(o + at);
      const auto y = *reinterpret_cast<const Packet<Element, kCount>*>(d_o + at);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum += convert_to<float>(x.values[i]) * convert_to<float>(y.values[i]);
    }
  }
#pragma unroll
  for (int apart = 4; apart > 0; apart /= 2) sum += __shfl_xor_sync(kAllLanes, sum, apart);
  if (thread % 8 == 0 && row < rows) attention.products[row] = sum;
}

}  // namespace ridgepoint::cuda
