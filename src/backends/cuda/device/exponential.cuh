// Exponentials to base 2, which the hardware computes.
#pragma once

namespace ridgepoint::cuda {

inline constexpr float kLog2E = 1.44269504088896341F;

// 2^x with a relative error of 2^-22; 0 for -infinity.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace ridgepoint::cuda
