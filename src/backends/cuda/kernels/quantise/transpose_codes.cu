// transpose_codes (the formula is in src/ops/rules/quantise.cpp): codes [M,N] of 8 bits and one scale a row as codes
// [N,M] with one scale. M and N are multiples of 16.
//
// quantise_forward_largest_fp32 finds the largest scale, unless one scale is that of all rows. Then each block transposes a tile through shared memory, bound
// by memory: a code is read once and written once. A code times a power of two that is not above 1 is exact in fp16,
// which has more bits than either format, unless it is so small that its code is 0. With one scale no code changes.
//   transpose_codes_forward_*   grid (ceil(N / 128), ceil(M / 128)), block (256)
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "backends/cuda/kernels/quantise/codes.cuh"
#include "backends/cuda/kernels/quantise/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kSide = 128;         // of a tile
constexpr int kThreadRows = 4;     // the codes of a column in them are one word
constexpr int kThreadColumns = 16;  // a vector
constexpr int kThreads = 256;
constexpr int kAcross = kSide / kThreadColumns;
constexpr int kWords = kSide / kThreadRows;  // of a column
static_assert(kThreads == kAcross * kWords);

// A power of two that is not above 1, as two factors: fp16 has less of them than e5m2 needs.
struct Factor {
  __half2 first, rest;

  __device__ __forceinline__ explicit Factor(float factor) {
    const float normal = fmaxf(factor, 0x1p-14F);
    first = __float2half2_rn(normal);
    rest = __float2half2_rn(__fdiv_rn(factor, normal));  // NaN stays
  }
};

// Four codes times the factor.
template <__nv_fp8_interpretation_t kCodes>
__device__ __forceinline__ unsigned scaled(unsigned codes, const Factor& factor) {
  const auto of_pair = [&](unsigned pair) -> unsigned {
    const __half2 wide = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), kCodes);
    return __nv_cvt_halfraw2_to_fp8x2(__hmul2(__hmul2(wide, factor.first), factor.rest), __NV_SATFINITE, kCodes);
  };
  return of_pair(codes & 0xffffU) | of_pair(codes >> 16) << 16;
}

// The word of a column: threads that store and threads that read both use all banks at once.
__device__ __forceinline__ int word_index(int column, int word) {
  return column * kWords + (word ^ (4 * (column / kThreadColumns)));
}

template <__nv_fp8_interpretation_t kCodes>
__device__ __forceinline__ void transpose_tile(const TransposedCodes& grid, const std::uint8_t* __restrict__ codes,
                                               const float* __restrict__ scales, const unsigned* __restrict__ shares,
                                               std::uint8_t* __restrict__ columns, float* __restrict__ scale) {
  __shared__ unsigned tile[kSide * kWords];
  const int across = static_cast<int>(threadIdx.x) % kAcross, word = static_cast<int>(threadIdx.x) / kAcross;
  const int first_row = static_cast<int>(blockIdx.y) * kSide, first_column = static_cast<int>(blockIdx.x) * kSide;
  const int row = first_row + kThreadRows * word, column = first_column + kThreadColumns * across;
  const bool is_inside = row < grid.rows && column < grid.columns;
  wait_for_previous_kernel();
  unsigned of_rows[kThreadColumns / 4][kThreadRows] = {};
  float4 of_scales = {};
  const bool changes_codes = grid.shares > 0;
  if (is_inside) {
    if (changes_codes) of_scales = *reinterpret_cast<const float4*>(scales + row);
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const auto vector =
          *reinterpret_cast<const uint4*>(codes + static_cast<std::size_t>(row + i) * grid.columns + column);
      of_rows[0][i] = vector.x;
      of_rows[1][i] = vector.y;
      of_rows[2][i] = vector.z;
      of_rows[3][i] = vector.w;
    }
  }
  const bool is_first = blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0;
  if (changes_codes) {
    const float largest = largest_share<kThreads>(shares, grid.shares);
    if (is_first) *scale = largest;
    const float row_scales[kThreadRows] = {of_scales.x, of_scales.y, of_scales.z, of_scales.w};
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const Factor factor(__fdiv_rn(row_scales[i], largest));
#pragma unroll
      for (int j = 0; j < kThreadColumns / 4; ++j) of_rows[j][i] = scaled<kCodes>(of_rows[j][i], factor);
    }
  } else if (is_first) {
    *scale = *scales;
  }
#pragma unroll
  for (int j = 0; j < kThreadColumns / 4; ++j) {
    unsigned transposed[4];
    transpose_bytes(of_rows[j], transposed);
#pragma unroll
    for (int i = 0; i < 4; ++i) tile[word_index(kThreadColumns * across + 4 * j + i, word)] = transposed[i];
  }
  __syncthreads();
  // A warp stores the codes of one column of the tile at a time, 128 bytes.
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  if (first_row + kThreadRows * lane >= grid.rows) return;
#pragma unroll
  for (int at = static_cast<int>(threadIdx.x) / kWarpLanes; at < kSide; at += kThreads / kWarpLanes) {
    if (first_column + at >= grid.columns) return;
    std::uint8_t* const to = columns + static_cast<std::size_t>(first_column + at) * grid.rows + first_row;
    reinterpret_cast<unsigned*>(to)[lane] = tile[word_index(at, lane)];
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_TRANSPOSE_CODES(name, codes_of)                                                                    \
  extern "C" __global__ void __launch_bounds__(256) transpose_codes_forward_##name(                                    \
      const __grid_constant__ ridgepoint::cuda::TransposedCodes grid, const std::uint8_t* codes, const float* scales,  \
      const unsigned* shares, std::uint8_t* columns, float* scale) {                                                   \
    ridgepoint::cuda::transpose_tile<codes_of>(grid, codes, scales, shares, columns, scale);                           \
  }
RIDGEPOINT_TRANSPOSE_CODES(e4m3, __NV_E4M3)
RIDGEPOINT_TRANSPOSE_CODES(e5m2, __NV_E5M2)
#undef RIDGEPOINT_TRANSPOSE_CODES
