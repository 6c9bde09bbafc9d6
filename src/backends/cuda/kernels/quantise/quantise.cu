// quantise (the formula is in src/ops/rules/quantise.cpp): the codes of 8 bits of a matrix x [M,N] in the order of its
// rows, of its columns or both, and their scale. M and N are multiples of 16.
//
// Two kernels, bound by memory. The first finds the largest magnitude of each block's share of x; magnitudes are
// compared as the bits of fp32 numbers, which have the same order and put NaN last, so the result does not depend on
// the order of blocks. The second joins these, scales and rounds, and transposes through shared memory: x is read
// twice and each code written once.
//   quantise_forward_largest_*   grid (at most kMostShares), block (largest_threads())
//   quantise_forward_tiles_*     grid (ceil(N / 64), ceil(M / 128)), block (256)
#include <cuda_fp8.h>

#include <type_traits>

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/kernels/quantise/codes.cuh"
#include "backends/cuda/kernels/quantise/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kGroupRows = 4;     // a thread's rows: the codes of a column in them are one word
constexpr int kGroupColumns = 8;  // and columns
using Tile = TurnedTile<kGroupColumns>;

__device__ __forceinline__ unsigned magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffU; }

// The largest magnitude of the 16 bytes at `from`, as bits of fp32.
__device__ __forceinline__ unsigned largest_of_vector(const float* from) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  return max(max(magnitude_bits(x.x), magnitude_bits(x.y)), max(magnitude_bits(x.z), magnitude_bits(x.w)));
}
template <typename Pair, typename Low>
__device__ __forceinline__ unsigned largest_of_pairs(const Low* from) {
  const auto x = *reinterpret_cast<const Packet<Pair, 4>*>(from);
  const Pair largest = __hmax2_nan(__hmax2_nan(__habs2(x.values[0]), __habs2(x.values[1])),
                                   __hmax2_nan(__habs2(x.values[2]), __habs2(x.values[3])));
  return max(magnitude_bits(static_cast<float>(largest.x)), magnitude_bits(static_cast<float>(largest.y)));
}
__device__ __forceinline__ unsigned largest_of_vector(const __nv_bfloat16* from) {
  return largest_of_pairs<__nv_bfloat162>(from);
}
__device__ __forceinline__ unsigned largest_of_vector(const __half* from) { return largest_of_pairs<__half2>(from); }

template <typename T>
__device__ __forceinline__ void find_largest(const T* __restrict__ x, std::int64_t elements,
                                             unsigned* __restrict__ shares) {
  constexpr int kWidth = kVectorBytes / sizeof(T);
  constexpr int kThreads = QuantiseGrid::largest_threads(std::is_same_v<T, float>);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads * kWidth;
  unsigned largest = 0;
  wait_for_previous_kernel();
#pragma unroll 4
  for (std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidth; at < elements;
       at += step)
    largest = max(largest, largest_of_vector(x + at));
  largest = block_largest<kThreads>(largest);
  if (threadIdx.x == 0) shares[blockIdx.x] = largest;
}

// Four codes of consecutive numbers, the first in the lowest byte.
template <__nv_fp8_interpretation_t kCodes>
__device__ __forceinline__ unsigned four_codes(const float* x, float factor) {
  const auto low = __nv_cvt_float2_to_fp8x2({x[0] * factor, x[1] * factor}, __NV_SATFINITE, kCodes);
  const auto high = __nv_cvt_float2_to_fp8x2({x[2] * factor, x[3] * factor}, __NV_SATFINITE, kCodes);
  return joined({low, high});
}

template <typename T>
struct Group {
  static constexpr int kVectors = kGroupColumns * sizeof(T) / kVectorBytes;  // of a row
  uint4 rows[kGroupRows][kVectors];

  __device__ __forceinline__ void load(const T* __restrict__ from, int row_elements) {
#pragma unroll
    for (int row = 0; row < kGroupRows; ++row, from += row_elements) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) rows[row][i] = reinterpret_cast<const uint4*>(from)[i];
    }
  }
  __device__ __forceinline__ void widen(int row, float (&to)[kGroupColumns]) const {
    const auto& values = reinterpret_cast<const Packet<T, kGroupColumns>&>(rows[row]);
#pragma unroll
    for (int i = 0; i < kGroupColumns; ++i) to[i] = static_cast<float>(values.values[i]);
  }
};

// The codes of the group go to the tile, and to `codes`, those of its first row, unless that is null.
template <typename T, __nv_fp8_interpretation_t kCodes>
__device__ __forceinline__ void encode(const Group<T>& group, float factor, int row_bytes, Tile& tile,
                                       std::uint8_t* __restrict__ codes) {
  unsigned words[kGroupColumns / 4][kGroupRows];
#pragma unroll
  for (int i = 0; i < kGroupRows; ++i) {
    float values[kGroupColumns];
    group.widen(i, values);
    words[0][i] = four_codes<kCodes>(values, factor);
    words[1][i] = four_codes<kCodes>(values + 4, factor);
  }
  if (codes != nullptr) {
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i, codes += row_bytes)
      *reinterpret_cast<uint2*>(codes) = {words[0][i], words[1][i]};
  }
  tile.put(0, words[0]);
  tile.put(1, words[1]);
}

// Tiles run from the last rows to the first: of a large matrix the cache has the rows that the first kernel read last.
template <typename T>
__device__ __forceinline__ void quantise_tile(const QuantiseGrid& grid, const T* __restrict__ x,
                                              const unsigned* __restrict__ shares, std::uint8_t* __restrict__ rows,
                                              std::uint8_t* __restrict__ columns, float* __restrict__ scale) {
  __shared__ Tile tile;
  const int first_row = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Tile::kRows;
  const int first_column = static_cast<int>(blockIdx.x) * Tile::kColumns;
  const int row = first_row + static_cast<int>(threadIdx.x) / Tile::kAcross * kGroupRows;
  const int column = first_column + static_cast<int>(threadIdx.x) % Tile::kAcross * kGroupColumns;
  const bool is_inside = row < grid.rows && column < grid.columns;
  const std::size_t first = static_cast<std::size_t>(row) * grid.columns + column;
  wait_for_previous_kernel();
  Group<T> group;
  if (is_inside) group.load(x + first, grid.columns);
  const float found = largest_share<Tile::kThreads>(shares, grid.shares);
  const float magnitude = found < grid.least_magnitude ? grid.least_magnitude : found;  // NaN stays
  const float factor = __fdiv_rn(grid.largest_code, magnitude);
  if (is_inside) {
    std::uint8_t* const codes = rows == nullptr ? nullptr : rows + first;
    if (grid.is_e5m2)
      encode<T, __NV_E5M2>(group, factor, grid.columns, tile, codes);
    else
      encode<T, __NV_E4M3>(group, factor, grid.columns, tile, codes);
  }
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *scale = __fdiv_rn(magnitude, grid.largest_code);
  if (columns == nullptr) return;
  __syncthreads();
  tile.store(columns, first_row, first_column, grid.rows, grid.columns);
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_QUANTISE(name, T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(                                                                        \
      ridgepoint::cuda::QuantiseGrid::largest_threads(std::is_same_v<T, float>))                                       \
      quantise_forward_largest_##name(const T* x, std::int64_t elements, unsigned* shares) {                           \
    ridgepoint::cuda::find_largest(x, elements, shares);                                                               \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 5)                                                                 \
      quantise_forward_tiles_##name(const __grid_constant__ ridgepoint::cuda::QuantiseGrid grid, const T* x,           \
                                    const unsigned* shares, std::uint8_t* rows, std::uint8_t* columns, float* scale) { \
    ridgepoint::cuda::quantise_tile(grid, x, shares, rows, columns, scale);                                            \
  }
RIDGEPOINT_QUANTISE(fp32, float)
RIDGEPOINT_QUANTISE(bf16, __nv_bfloat16)
RIDGEPOINT_QUANTISE(fp16, __half)
#undef RIDGEPOINT_QUANTISE
