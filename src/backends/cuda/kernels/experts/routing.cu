// Top-k of rows, its gradient, and the last step of the order of tokens by expert. No kernel depends on the order in
// which threads run.
#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kRowsPerBlock = 8;

// Whether an element precedes another one in the order of top-k: larger ones first, NaN before numbers, equal ones by
// index.
template <typename A>
__device__ __forceinline__ bool precedes(A x, int i, A y, int j) {
  const bool x_is_nan = x != x;
  const bool y_is_nan = y != y;
  if (x_is_nan != y_is_nan) return x_is_nan;
  return x > y || (!(x < y) && i < j);
}

// A warp takes the k largest of a row one after another: each is the first of those that follow the last one.
template <typename T>
__device__ __forceinline__ void top_k(const T* __restrict__ x, T* __restrict__ values, long long* __restrict__ indices,
                                      int rows, int width, int k) {
  using A = Accumulator<T>;
  const int row = static_cast<int>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.y);
  const int lane = static_cast<int>(threadIdx.x);
  if (row >= rows) return;
  const T* from = x + static_cast<long long>(row) * width;
  A last{};
  int last_index = -1;
  for (int j = 0; j < k; ++j) {
    A best{};
    int best_index = width;  // none
    for (int i = lane; i < width; i += kWarpLanes) {
      const A value = convert_to<A>(from[i]);
      if (last_index >= 0 && !precedes(last, last_index, value, i)) continue;
      if (best_index == width || precedes(value, i, best, best_index)) {
        best = value;
        best_index = i;
      }
    }
    for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
      const A other = __shfl_xor_sync(kAllLanes, best, distance);
      const int other_index = __shfl_xor_sync(kAllLanes, best_index, distance);
      const bool takes =
          other_index != width && (best_index == width || precedes(other, other_index, best, best_index));
      best = takes ? other : best;
      best_index = takes ? other_index : best_index;
    }
    last = best;
    last_index = best_index;
    if (lane != 0) continue;
    const long long to = static_cast<long long>(row) * k + j;
    values[to] = from[best_index];
    indices[to] = best_index;
  }
}

// A warp writes a row of zeros, then the gradients at their indices.
template <typename T>
__device__ __forceinline__ void top_k_backward(const T* __restrict__ gradient, const long long* __restrict__ indices,
                                               T* __restrict__ output, int rows, int width, int k) {
  const int row = static_cast<int>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.y);
  const int lane = static_cast<int>(threadIdx.x);
  if (row >= rows) return;
  T* to = output + static_cast<long long>(row) * width;
  for (int i = lane; i < width; i += kWarpLanes) to[i] = convert_to<T>(Accumulator<T>{0});
  __syncwarp();
  for (int j = lane; j < k; j += kWarpLanes) {
    const long long from = static_cast<long long>(row) * k + j;
    const long long index = indices[from];
    if (index >= 0 && index < width) to[index] = gradient[from];
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

// grid (ceil(rows / 8)), block (32, 8)
#define RIDGEPOINT_TOP_K(variant, T)                                                                            \
  extern "C" __global__ void __launch_bounds__(256)                                                             \
      top_k_forward_warp_row_##variant(const T* x, T* values, long long* indices, int rows, int width, int k) { \
    ridgepoint::cuda::top_k<T>(x, values, indices, rows, width, k);                                             \
  }                                                                                                             \
  extern "C" __global__ void __launch_bounds__(256) top_k_backward_warp_row_##variant(                          \
      const T* gradient, const long long* indices, T* output, int rows, int width, int k) {                     \
    ridgepoint::cuda::top_k_backward<T>(gradient, indices, output, rows, width, k);                             \
  }

RIDGEPOINT_TOP_K(fp64, double)
RIDGEPOINT_TOP_K(fp32, float)
RIDGEPOINT_TOP_K(bf16, __nv_bfloat16)
RIDGEPOINT_TOP_K(fp16, __half)

// Widens the positions that embedding_backward_sort has put in order, and finds their tokens. Choices of no expert were
// omitted; the entries after the others are 0.
// grid (ceil(max(count, experts + 1) / 256)), block (256)
extern "C" __global__ void __launch_bounds__(256)
    expert_order_forward_sorted(const int* __restrict__ sorted_offsets, const int* __restrict__ positions,
                                long long* __restrict__ order, long long* __restrict__ rows,
                                long long* __restrict__ offsets, int count, int experts, int k) {
  const int i = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (i <= experts) offsets[i] = sorted_offsets[i];
  if (i >= count) return;
  const int position = i < sorted_offsets[experts] ? positions[i] : 0;
  order[i] = position;
  rows[i] = position / k;
}
