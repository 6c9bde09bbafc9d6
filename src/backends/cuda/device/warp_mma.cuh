// Matrix products of one warp on the tensor cores, sm_80 and later (PTX ISA 8, "Matrix multiply-accumulate operation
// using mma instruction"): fragments of 16-bit elements from shared memory, sums in fp32.
//
// A lane of a warp holds, with g = lane / 4 and t = lane % 4:
//   of a [16 x 16]: columns 2 t and the next of row g, of row g + 8; then both rows' columns eight on;
//   of b [16 x 8]: rows 2 t and the next of column g; then those eight on;
//   of c [16 x 8]: columns 2 t and the next of row g, of row g + 8.
// So the sums of two products side by side, packed, are the first operand of the next.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backends/cuda/device/shared_memory.cuh"

namespace ridgepoint::cuda {

// Four 8 x 8 matrices; lane 8 i + r names the address of row r of matrix i. A lane gets elements 2 t and the next of
// row g of each; transposed, of column g.
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

// Two neighbours, rounded to nearest; x in the low half.
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

// Two packed neighbours, zero for those that are NaN.
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

// Two packed fp16 neighbours again.
__device__ __forceinline__ float2 unpack(unsigned packed) {
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

// 2^x to about one unit in the last place of a tensor core's operands, 2^-22 relative; 0 for -infinity.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A tile of rows of kRowChunks 16-byte chunks in shared memory, a power of two of them. Chunks are permuted within a
// row so that eight rows' same chunk, which is what load_matrices() reads, lie in different banks.
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
