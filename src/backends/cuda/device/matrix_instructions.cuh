// The instructions of warp_mma.cuh, which says what fragments a lane has (PTX ISA 8, "Matrix multiply-accumulate
// operation using mma instruction").
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

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

}  // namespace ridgepoint::cuda
