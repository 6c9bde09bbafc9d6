// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/rope.cpp): x [...,D] with any strides, cosines
// and sines fp32 [S,D/2] dense, output with contiguous rows, which may be those of x; arithmetic in fp32. Its gradient
// is the same rotation with the sine negated.
// grid (ceil(items / 512)), block (256)
#include "backends/cuda/device/divide.cuh"
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/rotation.cuh"
#include "backends/cuda/kernels/rope/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kItemsPerThread = 2;

struct RowPlace {
  long long x = 0;  // offset of the row's first element
  long long output = 0;
  unsigned position = 0;
};

__device__ __forceinline__ RowPlace find_row(const RopeRows& rows, unsigned row) {
  RowPlace place;
#pragma unroll
  for (int axis = RopeRows::kMaxDepth - 1; axis >= 0; --axis) {
    if (axis >= rows.depth) continue;
    const Division split = divide(row, rows.sizes[axis]);
    row = split.quotient;
    place.x += static_cast<long long>(split.remainder) * rows.strides[axis];
    place.output += static_cast<long long>(split.remainder) * rows.output_strides[axis];
    if (axis == rows.position_axis) place.position = split.remainder;
  }
  return place;
}

// kPairs pairs, read and written with one access each; kPairs 1 reads a pair with any stride.
template <typename T, int kPairs>
struct Item {
  Packet<T, 2 * kPairs> pairs;
  RowPlace place;
  unsigned first_pair;

  __device__ __forceinline__ void load(const RopeRows& rows, const T* x, unsigned item) {
    const Division split = divide(item, rows.items_per_row);
    place = find_row(rows, split.quotient);
    first_pair = split.remainder * kPairs;
    if constexpr (kPairs > 1) {
      pairs = *reinterpret_cast<const Packet<T, 2 * kPairs>*>(x + place.x + 2 * first_pair);
    } else {
      const long long first = place.x + 2LL * first_pair * rows.element_stride;
      pairs.values[0] = x[first];
      pairs.values[1] = x[first + rows.element_stride];
    }
  }

  __device__ __forceinline__ void rotate(const RopeRows& rows, const float* __restrict__ cosines,
                                         const float* __restrict__ sines) {
    const long long table = static_cast<long long>(place.position) * rows.items_per_row.value * kPairs + first_pair;
    const auto cosine = *reinterpret_cast<const Packet<float, kPairs>*>(cosines + table);
    const auto sine = *reinterpret_cast<const Packet<float, kPairs>*>(sines + table);
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const float2 x = {convert_to<float>(pairs.values[2 * k]), convert_to<float>(pairs.values[2 * k + 1])};
      const float2 y = rotated(x, cosine.values[k], sine.values[k] * rows.sine_sign);
      pairs.values[2 * k] = convert_to<T>(y.x);
      pairs.values[2 * k + 1] = convert_to<T>(y.y);
    }
  }

  __device__ __forceinline__ void store(T* output) const {
    *reinterpret_cast<Packet<T, 2 * kPairs>*>(output + place.output + 2 * first_pair) = pairs;
  }
};

template <typename T, int kPairs>
__device__ __forceinline__ void rotate(const RopeRows& rows, const T* x, const float* __restrict__ cosines,
                                       const float* __restrict__ sines, T* output) {
  const unsigned first = blockIdx.x * kBlockThreads * kItemsPerThread + threadIdx.x;
  Item<T, kPairs> items[kItemsPerThread];
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    const unsigned item = first + u * kBlockThreads;
    if (item >= rows.items) continue;
    items[u].load(rows, x, item);
    items[u].rotate(rows, cosines, sines);
  }
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    if (first + u * kBlockThreads < rows.items) items[u].store(output);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

// vectors: x has unit stride along D, and rows of x and the output begin at multiples of 16 bytes. pairs: all other
// layouts.
#define RIDGEPOINT_ROPE(dtype, T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(256)                                                                 \
      rope_forward_vectors_##dtype(const __grid_constant__ ridgepoint::cuda::RopeRows rows, const T* x,             \
                                   const float* cosines, const float* sines, T* output) {                           \
    ridgepoint::cuda::rotate<T, ridgepoint::cuda::kVectorBytes / 2 / static_cast<int>(sizeof(T))>(rows, x, cosines, \
                                                                                                  sines, output);   \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                                                 \
      rope_forward_pairs_##dtype(const __grid_constant__ ridgepoint::cuda::RopeRows rows, const T* x,               \
                                 const float* cosines, const float* sines, T* output) {                             \
    ridgepoint::cuda::rotate<T, 1>(rows, x, cosines, sines, output);                                                \
  }

RIDGEPOINT_ROPE(fp32, float)
RIDGEPOINT_ROPE(bf16, __nv_bfloat16)
RIDGEPOINT_ROPE(fp16, __half)
