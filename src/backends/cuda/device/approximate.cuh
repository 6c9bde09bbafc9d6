// Functions of fp32 numbers that the hardware computes to within two units in the last place; numbers below 2^-126 count
// as 0.
#pragma once

namespace ridgepoint::cuda {

__device__ __forceinline__ float nearly_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float nearly_root(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace ridgepoint::cuda
