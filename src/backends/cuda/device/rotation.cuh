// Rotary embedding of pairs of neighbours (the formula is in src/ops/rules/rope.cpp), in fp32. Every kernel that
// rotates computes it so, which makes their results equal to the bit.
#pragma once

#include "backends/cuda/device/warp_mma.cuh"

namespace ridgepoint::cuda {

__device__ __forceinline__ float2 rotated(float2 x, float cosine, float sine) {
  return {__fmaf_rn(x.x, cosine, -__fmul_rn(x.y, sine)), __fmaf_rn(x.x, sine, __fmul_rn(x.y, cosine))};
}

// Four packed pairs.
template <class Element>
__device__ __forceinline__ void rotate_pairs(uint4& pairs, const float4& cosines, const float4& sines) {
  const auto turn = [](unsigned& pair, float cosine, float sine) {
    const float2 x = rotated(unpack<Element>(pair), cosine, sine);
    pair = pack<Element>(x.x, x.y);
  };
  turn(pairs.x, cosines.x, sines.x);
  turn(pairs.y, cosines.y, sines.y);
  turn(pairs.z, cosines.z, sines.z);
  turn(pairs.w, cosines.w, sines.w);
}

// Four packed pairs; each sum is rounded.
template <class Element>
__device__ __forceinline__ void add_pairs(uint4& pairs, const uint4& addend) {
  const auto add = [](unsigned& pair, unsigned other) {
    const float2 x = unpack<Element>(pair), y = unpack<Element>(other);
    pair = pack<Element>(__fadd_rn(x.x, y.x), __fadd_rn(x.y, y.y));
  };
  add(pairs.x, addend.x);
  add(pairs.y, addend.y);
  add(pairs.z, addend.z);
  add(pairs.w, addend.w);
}

}  // namespace ridgepoint::cuda
