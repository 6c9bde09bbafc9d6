// src/backends/cuda/device/exponential.cuh on a processor.
#pragma once

namespace ridgepoint::cuda {

inline constexpr float kLog2E = 1.44269504088896341F;

inline float exp2_fast(float x) { return std::exp2(x); }

}  // namespace ridgepoint::cuda
