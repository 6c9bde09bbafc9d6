// Splits fp32 elements into bf16 numbers, for products on tensor cores with the accuracy of fp32 (docs/decisions/0008).
// An element is the exact sum of three bf16 numbers, its parts, with 8 bits of mantissa each; of the nine products
// between the parts of two elements, the callers sum the six largest. An infinity has no such parts and becomes NaN.
// Elements below 2^-110 lose their last bits.
#pragma once

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"

namespace ridgepoint::cuda {

inline constexpr int kParts = 3;

// The three parts of two elements, packed, x in the low half. The result is NaN if x or y is not finite.
__device__ __forceinline__ float split(float x, float y, unsigned& first, unsigned& second, unsigned& third) {
  const unsigned x_bits = __float_as_uint(x);
  const unsigned y_bits = __float_as_uint(y);
  first = __byte_perm(x_bits, y_bits, 0x7632);
  const float x_rest = x - __uint_as_float(x_bits & 0xFFFF0000U);
  const float y_rest = y - __uint_as_float(y_bits & 0xFFFF0000U);
  second = pack<__nv_bfloat16>(x_rest, y_rest);
  const float x_last = x_rest - __uint_as_float(second << 16);
  const float y_last = y_rest - __uint_as_float(second & 0xFFFF0000U);
  third = __byte_perm(__float_as_uint(x_last), __float_as_uint(y_last), 0x7632);
  return x_rest + y_rest;
}

// The same for eight elements; each part is one vector.
__device__ __forceinline__ float split(const float4& low, const float4& high, uint4 (&parts)[kParts]) {
  return split(low.x, low.y, parts[0].x, parts[1].x, parts[2].x) +
         split(low.z, low.w, parts[0].y, parts[1].y, parts[2].y) +
         split(high.x, high.y, parts[0].z, parts[1].z, parts[2].z) +
         split(high.z, high.w, parts[0].w, parts[1].w, parts[2].w);
}

}  // namespace ridgepoint::cuda
