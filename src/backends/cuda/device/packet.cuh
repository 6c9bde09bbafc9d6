// Elements that one aligned memory access of up to 16 bytes moves.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace ridgepoint::cuda {

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Packet {
  T values[kCount];
};

inline constexpr int kVectorBytes = 16;
inline constexpr int kWarpLanes = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// The type in which elements of type T are summed.
template <typename T>
struct AccumulatorOf {
  using Type = float;
};
template <>
struct AccumulatorOf<double> {
  using Type = double;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::Type;

template <typename To, typename From>
__device__ __forceinline__ To convert_to(From value) {
  return static_cast<To>(value);
}

// Whether every address is a multiple of 16 bytes.
template <typename... Pointers>
__device__ __forceinline__ bool are_vector_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) | ...) % kVectorBytes) == 0;
}

}  // namespace ridgepoint::cuda
