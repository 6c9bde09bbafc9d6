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

constexpr int kThreadRows = 4;      // the codes of a column in them are one word
constexpr int kThreadColumns = 16;  // a vector
using Tile = TurnedTile<kThreadColumns>;

// A power of two that is not above 1. Of e5m2 it is two factors: fp16 has less of them than are needed.
template <__nv_fp8_interpretation_t kCodes>
struct Factor {
  __half2 first, rest;

  __device__ __forceinline__ explicit Factor(float factor) {
    if constexpr (kCodes == __NV_E4M3) {
      first = __float2half2_rn(factor);
    } else {
      const float small = factor * 0x1p14F;
      first = __float2half2_rn(fmaxf(factor, 0x1p-14F));
      rest = __float2half2_rn(small > 1 ? 1 : small);  // NaN stays
    }
  }

  // Four codes times the factor.
  __device__ __forceinline__ unsigned times(unsigned codes) const {
    const auto of_pair = [&](unsigned short pair) -> unsigned short {
      __half2 wide = __hmul2(__nv_cvt_fp8x2_to_halfraw2(pair, kCodes), first);
      if constexpr (kCodes != __NV_E4M3) wide = __hmul2(wide, rest);
      return __nv_cvt_halfraw2_to_fp8x2(wide, __NV_SATFINITE, kCodes);
    };
    const Halves pairs = halves_of(codes);
    return joined({of_pair(pairs.values[0]), of_pair(pairs.values[1])});
  }
};

template <__nv_fp8_interpretation_t kCodes>
__device__ __forceinline__ void transpose_tile(const TransposedCodes& grid, const std::uint8_t* __restrict__ codes,
                                               const float* __restrict__ scales, const unsigned* __restrict__ shares,
                                               std::uint8_t* __restrict__ columns, float* __restrict__ scale) {
  __shared__ Tile tile;
  const int first_row = static_cast<int>(blockIdx.y) * Tile::kRows;
  const int first_column = static_cast<int>(blockIdx.x) * Tile::kColumns;
  const int row = first_row + static_cast<int>(threadIdx.x) / Tile::kAcross * kThreadRows;
  const int column = first_column + static_cast<int>(threadIdx.x) % Tile::kAcross * kThreadColumns;
  const bool is_inside = row < grid.rows && column < grid.columns;
  wait_for_previous_kernel();
  unsigned of_rows[kThreadColumns / 4][kThreadRows] = {};
  float4 of_scales = {};
  const bool changes_codes = grid.shares > 0;
  if (is_inside) {
    if (changes_codes) of_scales = *reinterpret_cast<const float4*>(scales + row);
    const std::uint8_t* from = codes + static_cast<std::size_t>(row) * grid.columns + column;
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i, from += grid.columns) {
      const auto vector = *reinterpret_cast<const uint4*>(from);
      of_rows[0][i] = vector.x;
      of_rows[1][i] = vector.y;
      of_rows[2][i] = vector.z;
      of_rows[3][i] = vector.w;
    }
  }
  const bool is_first = blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0;
  if (changes_codes) {
    const float largest = largest_share<Tile::kThreads>(shares, grid.shares);
    if (is_first) *scale = largest;
    const float inverse = __fdiv_rn(1, largest);  // a power of two, so that each product is the quotient
    const float row_scales[kThreadRows] = {of_scales.x, of_scales.y, of_scales.z, of_scales.w};
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const Factor<kCodes> factor(row_scales[i] * inverse);
#pragma unroll
      for (int j = 0; j < kThreadColumns / 4; ++j) of_rows[j][i] = factor.times(of_rows[j][i]);
    }
  } else if (is_first) {
    *scale = *scales;
  }
#pragma unroll
  for (int j = 0; j < kThreadColumns / 4; ++j) tile.put(j, of_rows[j]);
  __syncthreads();
  tile.store(columns, first_row, first_column, grid.rows, grid.columns);
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
