// The values of a random stream (core/random/element.h), rounded from fp32 to T, to bf16 with ties away from zero.
// cmake/cuda.cmake compiles this file without fused multiply-adds, so that the values have the bits of the host's. grid
// (at most ceil(count / 256)), block (256)
#include "backends/cuda/device/packet.cuh"
#include "core/random/element.h"
#include "core/types/halves.h"

namespace ridgepoint::cuda {
namespace {

struct LowHalf {
  std::uint16_t bits;
};

template <typename T>
__device__ __forceinline__ T stored(float value) {
  return convert_to<T>(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 stored(float value) {
  return std::bit_cast<__nv_bfloat16>(round_away_to_bf16(__float_as_uint(value)));
}
template <>
__device__ __forceinline__ LowHalf stored(float value) {
  return {low_half_of(__float_as_uint(value))};
}

template <typename T>
__device__ __forceinline__ void fill_random(T* __restrict__ values, long long count, double mean, double deviation,
                                            unsigned long long stream) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const double p = random_probability(stream, static_cast<std::uint64_t>(i));
    const double value = is_in_tail(p) ? tail_quantile(p, sqrt(tail_square(p))) : central_quantile(p);
    values[i] = stored<T>(static_cast<float>(mean + deviation * value));
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_FILL_RANDOM(dtype, T)                                                                          \
  extern "C" __global__ void __launch_bounds__(256)                                                               \
      fill_random_##dtype(T* values, long long count, double mean, double deviation, unsigned long long stream) { \
    ridgepoint::cuda::fill_random<T>(values, count, mean, deviation, stream);                                     \
  }

RIDGEPOINT_FILL_RANDOM(fp64, double)
RIDGEPOINT_FILL_RANDOM(fp32, float)
RIDGEPOINT_FILL_RANDOM(bf16, __nv_bfloat16)
RIDGEPOINT_FILL_RANDOM(fp16, __half)
RIDGEPOINT_FILL_RANDOM(low_half, ridgepoint::cuda::LowHalf)
