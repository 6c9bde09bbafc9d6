// Matrix products of one warp on tensor cores, sm_80 and later (PTX ISA 8, "Matrix multiply-accumulate operation using
// mma instruction"): fragments of 16-bit elements from shared memory, sums in fp32.
//
// With g = lane / 4 and t = lane % 4, a lane has:
// of a [16 x 16]: columns 2 t and 2 t + 1 of rows g and g + 8, then the same rows 8 columns further;
// of b [16 x 8]: rows 2 t and 2 t + 1 of column g, then 8 rows further;
// of c [16 x 8]: columns 2 t and 2 t + 1 of rows g and g + 8.
// So the sums of two adjacent products, packed, are the first operand of another product.
#pragma once

#include "backends/cuda/device/matrix_instructions.cuh"
#include "backends/cuda/device/shared_memory.cuh"

namespace ridgepoint::cuda {

// Two packed elements, with 0 in place of NaN.
template <class T>
__device__ __forceinline__ unsigned without_nan(unsigned packed);
template <>
__device__ __forceinline__ unsigned without_nan<__nv_bfloat16>(unsigned packed) {
  const auto pair = *reinterpret_cast<const __nv_bfloat162*>(&packed);
  return packed & __heq2_mask(pair, pair);
}
template <>
__device__ __forceinline__ unsigned without_nan<__half>(unsigned packed) {
  const auto pair = *reinterpret_cast<const __half2*>(&packed);
  return packed & __heq2_mask(pair, pair);
}

// A tile in shared memory whose rows have kRowChunks 16-byte chunks, a power of two. Chunks are permuted within a row
// so that the same chunk of eight rows, which load_matrices() reads, is in different banks.
template <int kRowChunks>
struct SwizzledTile {
  static_assert(kRowChunks >= 4 && (kRowChunks & (kRowChunks - 1)) == 0);
  static constexpr int kRowBytes = kRowChunks * 16;
  static __device__ __forceinline__ int offset(int row, int chunk) {
    const int permuted = kRowChunks == 4 ? chunk ^ (row / 2 & 3) : chunk ^ (row & 7);
    return row * kRowBytes + (permuted << 4);
  }
};

}  // namespace ridgepoint::cuda
