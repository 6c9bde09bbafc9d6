// Matrix products of one warp on tensor cores, sm_80 and later (PTX ISA 8, "Matrix multiply-accumulate operation using
// mma instruction"): fragments of 16-bit elements from shared memory, sums in fp32.
//
// With g = lane / 4 and t = lane % 4, a lane has:
// of a [16 x 16]: columns 2 t and 2 t + 1 of rows g and g + 8, then the same rows 8 columns further;
// of b [16 x 8]: rows 2 t and 2 t + 1 of column g, then 8 rows further;
// of c [16 x 8]: columns 2 t and 2 t + 1 of rows g and g + 8.
// So the sums of two adjacent products, packed, are the first operand of another product.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backends/cuda/device/shared_memory.cuh"

namespace ridgepoint::cuda {

// Loads four 8 x 8 matrices; lane 8 i + r passes the address of row r of matrix i. A lane gets elements 2 t and 2 t + 1
// of row g of each matrix, or of column g if transposed.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_transposed(unsigned (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

// c += a b.
template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

template <>
__device__ __forceinline__ void multiply<__nv_bfloat16>(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                        unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply<__half>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two elements, rounded to nearest and packed; x is in the low half.
template <class T>
__device__ __forceinline__ unsigned pack(float x, float y);
template <>
__device__ __forceinline__ unsigned pack<__nv_bfloat16>(float x, float y) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(y), "f"(x));
  return packed;
}
template <>
__device__ __forceinline__ unsigned pack<__half>(float x, float y) {
  unsigned packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(y), "f"(x));
  return packed;
}

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

// The inverse of pack().
template <class T>
__device__ __forceinline__ float2 unpack(unsigned packed);
template <>
__device__ __forceinline__ float2 unpack<__nv_bfloat16>(unsigned packed) {
  return {__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000U)};
}
template <>
__device__ __forceinline__ float2 unpack<__half>(unsigned packed) {
  float2 pair;
  asm("{\n"
      ".reg .b16 x, y;\n"
      "mov.b32 {x, y}, %2;\n"
      "cvt.f32.f16 %0, x;\n"
      "cvt.f32.f16 %1, y;\n"
      "}"
      : "=f"(pair.x), "=f"(pair.y)
      : "r"(packed));
  return pair;
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
