// quantise (the formula is in src/ops/rules/quantise.cpp): the codes of 8 bits of a matrix x [M,N] in the order of its
// rows, of its columns or both, and their scale. M and N are multiples of 16.
//
// Two kernels, bound by memory. The first finds the largest magnitude of each block's share of x; magnitudes are
// compared as the bits of fp32 numbers, which have the same order and put NaN last, so the result does not depend on
// the order of blocks. The second joins these, scales and rounds, and transposes through shared memory: x is read
// twice and each code written once.
//   quantise_forward_largest_*   grid (at most kMostShares), block (512)
//   quantise_forward_tiles_*     grid (ceil(N / 64), ceil(M / 128)), block (256)
#include <cuda_fp8.h>

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/kernels/quantise/codes.cuh"
#include "backends/cuda/kernels/quantise/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kTileRows = 128;
constexpr int kTileColumns = 64;
constexpr int kGroupRows = 4;     // a thread's rows: the codes of a column in them are one word
constexpr int kGroupColumns = 8;  // and columns
constexpr int kTileThreads = 256;
constexpr int kGroupsAcross = kTileColumns / kGroupColumns;
constexpr int kColumnWords = kTileRows / kGroupRows;
static_assert(kTileThreads == kGroupsAcross * kColumnWords);

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
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * QuantiseGrid::kLargestThreads * kWidth;
  unsigned largest = 0;
  wait_for_previous_kernel();
#pragma unroll 4
  for (std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * QuantiseGrid::kLargestThreads + threadIdx.x) * kWidth;
       at < elements; at += step)
    largest = max(largest, largest_of_vector(x + at));
  largest = block_largest<QuantiseGrid::kLargestThreads>(largest);
  if (threadIdx.x == 0) shares[blockIdx.x] = largest;
}

// Four codes of consecutive numbers, the first in the lowest byte.
template <__nv_fp8_interpretation_t kCodes>
__device__ __forceinline__ unsigned four_codes(const float* x, float factor) {
  const unsigned low = __nv_cvt_float2_to_fp8x2({x[0] * factor, x[1] * factor}, __NV_SATFINITE, kCodes);
  const unsigned high = __nv_cvt_float2_to_fp8x2({x[2] * factor, x[3] * factor}, __NV_SATFINITE, kCodes);
  return low | high << 16;
}

template <typename T>
struct Group {
  static constexpr int kVectors = kGroupColumns * sizeof(T) / kVectorBytes;  // of a row
  uint4 rows[kGroupRows][kVectors];

  __device__ __forceinline__ void load(const T* __restrict__ from, int row_elements) {
#pragma unroll
    for (int row = 0; row < kGroupRows; ++row) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
        rows[row][i] = reinterpret_cast<const uint4*>(from + static_cast<std::size_t>(row) * row_elements)[i];
    }
  }
  __device__ __forceinline__ void widen(int row, float (&to)[kGroupColumns]) const {
    const auto& values = reinterpret_cast<const Packet<T, kGroupColumns>&>(rows[row]);
#pragma unroll
    for (int i = 0; i < kGroupColumns; ++i) to[i] = static_cast<float>(values.values[i]);
  }
};

// The word of column `column` and of the rows from 4 `word` on. Threads that store and threads that read both use all
// banks at once.
__device__ __forceinline__ int tile_index(int column, int word) {
  return column * kColumnWords + (word ^ (4 * (column / kGroupColumns) % kColumnWords));
}

template <typename T, __nv_fp8_interpretation_t kCodes>
__device__ __forceinline__ void encode(const QuantiseGrid& grid, const Group<T>& group, float factor, int row,
                                       int column, unsigned* __restrict__ tile, std::uint8_t* __restrict__ codes) {
  unsigned words[kGroupColumns / 4][kGroupRows];
#pragma unroll
  for (int i = 0; i < kGroupRows; ++i) {
    float values[kGroupColumns];
    group.widen(i, values);
    words[0][i] = four_codes<kCodes>(values, factor);
    words[1][i] = four_codes<kCodes>(values + 4, factor);
    if (codes != nullptr) {
      *reinterpret_cast<uint2*>(codes + static_cast<std::size_t>(row + i) * grid.columns + column) = {words[0][i],
                                                                                                      words[1][i]};
    }
  }
  const int tile_column = column % kTileColumns;
  const int tile_word = row % kTileRows / kGroupRows;
#pragma unroll
  for (int half = 0; half < kGroupColumns / 4; ++half) {
    unsigned transposed[4];
    transpose_bytes(words[half], transposed);
#pragma unroll
    for (int i = 0; i < 4; ++i) tile[tile_index(tile_column + 4 * half + i, tile_word)] = transposed[i];
  }
}

// A warp stores the codes of one column of the tile at a time, 128 bytes.
__device__ __forceinline__ void store_columns(const QuantiseGrid& grid, int first_row, int first_column,
                                              const unsigned* __restrict__ tile, std::uint8_t* __restrict__ codes) {
  const int word = threadIdx.x % kWarpLanes;
  const int row = first_row + kGroupRows * word;
  if (row >= grid.rows) return;
#pragma unroll
  for (int column = static_cast<int>(threadIdx.x) / kWarpLanes; column < kTileColumns;
       column += kTileThreads / kWarpLanes) {
    if (first_column + column >= grid.columns) return;
    *reinterpret_cast<unsigned*>(codes + static_cast<std::size_t>(first_column + column) * grid.rows + row) =
        tile[tile_index(column, word)];
  }
}

// Tiles run from the last rows to the first: of a large matrix the cache has the rows that the first kernel read last.
template <typename T>
__device__ __forceinline__ void quantise_tile(const QuantiseGrid& grid, const T* __restrict__ x,
                                              const unsigned* __restrict__ shares, std::uint8_t* __restrict__ rows,
                                              std::uint8_t* __restrict__ columns, float* __restrict__ scale) {
  __shared__ unsigned tile[kTileColumns * kColumnWords];
  const int first_row = static_cast<int>(gridDim.y - 1 - blockIdx.y) * kTileRows;
  const int first_column = static_cast<int>(blockIdx.x) * kTileColumns;
  const int row = first_row + static_cast<int>(threadIdx.x) / kGroupsAcross * kGroupRows;
  const int column = first_column + static_cast<int>(threadIdx.x) % kGroupsAcross * kGroupColumns;
  const bool is_inside = row < grid.rows && column < grid.columns;
  wait_for_previous_kernel();
  Group<T> group;
  if (is_inside) group.load(x + static_cast<std::size_t>(row) * grid.columns + column, grid.columns);
  const float found = largest_share<kTileThreads>(shares, grid.shares);
  const float magnitude = found < grid.least_magnitude ? grid.least_magnitude : found;  // NaN stays
  const float factor = __fdiv_rn(grid.largest_code, magnitude);
  if (is_inside && grid.is_e5m2) encode<T, __NV_E5M2>(grid, group, factor, row, column, tile, rows);
  if (is_inside && !grid.is_e5m2) encode<T, __NV_E4M3>(grid, group, factor, row, column, tile, rows);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *scale = __fdiv_rn(magnitude, grid.largest_code);
  if (columns == nullptr) return;
  __syncthreads();
  store_columns(grid, first_row, first_column, tile, columns);
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_QUANTISE(name, T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(ridgepoint::cuda::QuantiseGrid::kLargestThreads)                        \
      quantise_forward_largest_##name(const T* x, std::int64_t elements, unsigned* shares) {                           \
    ridgepoint::cuda::find_largest(x, elements, shares);                                                               \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256)                                                                    \
      quantise_forward_tiles_##name(const __grid_constant__ ridgepoint::cuda::QuantiseGrid grid, const T* x,           \
                                    const unsigned* shares, std::uint8_t* rows, std::uint8_t* columns, float* scale) { \
    ridgepoint::cuda::quantise_tile(grid, x, shares, rows, columns, scale);                                            \
  }
RIDGEPOINT_QUANTISE(fp32, float)
RIDGEPOINT_QUANTISE(bf16, __nv_bfloat16)
RIDGEPOINT_QUANTISE(fp16, __half)
#undef RIDGEPOINT_QUANTISE
