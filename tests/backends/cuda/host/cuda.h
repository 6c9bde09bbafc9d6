// CUDA C++ for a kernel that is compiled as C++: what its language and its headers have and the kernels use. Each
// compilation of a .cu file begins with this header (host_kernels.cmake).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "block.h"
#include "core/types/float8.h"

// NOLINTBEGIN(readability-identifier-naming,google-explicit-constructor): NVIDIA's names and conversions

#define __device__
#define __host__
#define __global__ __attribute__((used))
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __shared__ static  // blocks run one after another
#define __expf std::exp    // the C library has functions of these names
#define __log2f std::log2
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN

extern emulated::Index threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }

// Rounded to nearest, ties to even.
struct __nv_bfloat16 {
  std::uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float x) {
    const unsigned wide = __float_as_uint(x);
    bits = static_cast<std::uint16_t>(x != x ? 0x7fffU : (wide + 0x7fffU + (wide >> 16 & 1U)) >> 16);
  }
  operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};
struct __half {
  std::uint16_t bits;
  __half() = default;
  explicit __half(float x) {
    const unsigned sign = __float_as_uint(x) >> 16 & 0x8000U;
    const float size = std::fabs(x);
    unsigned found = 0x7fffU;  // NaN
    if (size >= 65520) found = 0x7c00U;
    // Adding a number whose last bit is that of the result rounds to it.
    if (size < 0x1p-14F) found = __float_as_uint(size + 0.5F) - __float_as_uint(0.5F);
    if (size >= 0x1p-14F && size < 65520) {
      const unsigned wide = __float_as_uint(size) - (112U << 23);
      found = (wide + 0xfffU + (wide >> 13 & 1U)) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | found);
  }
  operator float() const {
    const float sign = (bits & 0x8000U) != 0 ? -1 : 1;
    if ((bits & 0x7c00U) == 0x7c00U) return (bits & 0x3ffU) != 0 ? NAN : sign * INFINITY;
    return sign * 0x1p112F * __uint_as_float((bits & 0x7fffU) << 13);
  }
};
template <class Low>
struct PairOf {
  Low x, y;
};
using __nv_bfloat162 = PairOf<__nv_bfloat16>;
using __half2 = PairOf<__half>;
template <class Low>
PairOf<Low> __habs2(PairOf<Low> a) {
  return {Low(std::fabs(static_cast<float>(a.x))), Low(std::fabs(static_cast<float>(a.y)))};
}
template <class Low>
PairOf<Low> __hmax2_nan(PairOf<Low> a, PairOf<Low> b) {
  const auto larger = [](float x, float y) { return Low(x != x || y != y ? NAN : std::max(x, y)); };
  return {larger(a.x, b.x), larger(a.y, b.y)};
}
template <class Low>
unsigned __heq2_mask(PairOf<Low> a, PairOf<Low> b) {
  const auto is_equal = [](float x, float y) { return x == y ? 0xffffU : 0U; };
  return is_equal(a.x, b.x) | is_equal(a.y, b.y) << 16;
}

enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_SATFINITE };
inline unsigned __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t, __nv_fp8_interpretation_t codes) {
  const auto dtype = codes == __NV_E4M3 ? ridgepoint::DType::e4m3 : ridgepoint::DType::e5m2;
  return ridgepoint::float8_code(dtype, x.x) | unsigned{ridgepoint::float8_code(dtype, x.y)} << 8;
}

using __nv_fp8x2_storage_t = std::uint16_t;
inline __half2 __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t codes) {
  const auto& values =
      ridgepoint::float8_values(codes == __NV_E4M3 ? ridgepoint::DType::e4m3 : ridgepoint::DType::e5m2);
  return {__half(values[x & 0xffU]), __half(values[x >> 8U])};
}
inline unsigned __nv_cvt_halfraw2_to_fp8x2(__half2 x, __nv_saturation_t how, __nv_fp8_interpretation_t codes) {
  return __nv_cvt_float2_to_fp8x2({x.x, x.y}, how, codes);
}
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__half(a.x * b.x), __half(a.y * b.y)}; }

template <class A, class B>
constexpr auto min(A a, B b) -> std::common_type_t<A, B> {
  return b < a ? b : a;
}
template <class A, class B>
constexpr auto max(A a, B b) -> std::common_type_t<A, B> {
  return a < b ? b : a;
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(unsigned x) { return x == 0 ? 0 : std::countr_zero(x) + 1; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selected) {
  unsigned found = 0;
  for (unsigned i = 0; i < 4; ++i)
    found |= static_cast<unsigned>((std::uint64_t{b} << 32 | a) >> (selected >> 4 * i & 7U) * 8 & 0xffU) << 8 * i;
  return found;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
T atomicAdd(T* to, T value) {
  return std::exchange(*to, *to + value);
}
template <class T>
T atomicMax(T* to, T value) {
  return std::exchange(*to, std::max(*to, value));
}
inline unsigned atomicInc(unsigned* to, unsigned last) { return std::exchange(*to, *to >= last ? 0 : *to + 1); }

inline void __syncthreads() { emulated::meet(0, 0); }
// Two barriers, between which nobody begins the next count.
inline int __syncthreads_or(int value) {
  static int any;
  static int counted;
  if (counted == 0) any = 0;
  ++counted;
  any |= value != 0 ? 1 : 0;
  __syncthreads();
  const int found = any;
  counted = 0;
  __syncthreads();
  return found;
}
inline void __syncwarp(unsigned mask = ~0U) {
  emulated::exchange(mask, 0, [](auto) {});
}

// What each lane of the mask makes of the operands of all.
template <class T, class Make>
auto from_all_lanes(unsigned mask, T value, Make make) {
  using Result = decltype(make(0U, [](unsigned) { return T{}; }));
  struct Both {
    T operand;
    Result result;
  };
  const auto each = [&](auto operands) {
    for (unsigned lane = 0; lane < 32; ++lane)
      if ((mask >> lane & 1U) != 0)
        operands[lane].result = make(lane, [&](unsigned other) { return operands[other].operand; });
  };
  return emulated::exchange(mask, Both{value, {}}, each).result;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  return from_all_lanes(mask, value,
                        [=](unsigned lane, auto of) -> T { return of(lane ^ static_cast<unsigned>(distance)); });
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance) {
  const auto below = static_cast<unsigned>(distance);
  return from_all_lanes(mask, value,
                        [=](unsigned lane, auto of) -> T { return of(lane >= below ? lane - below : lane); });
}
// Each lane may name another one.
template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
  struct Asked {
    T value;
    unsigned from;
  };
  return from_all_lanes(mask, Asked{value, static_cast<unsigned>(from) % 32},
                        [](unsigned lane, auto of) -> T { return of(of(lane).from).value; });
}
template <class T, class Combine>
T reduced(unsigned mask, T value, Combine combine) {
  return from_all_lanes(mask, value, [=](unsigned, auto of) -> T {
    T sum = of(static_cast<unsigned>(std::countr_zero(mask)));
    for (auto lane = static_cast<unsigned>(std::countr_zero(mask)) + 1; lane < 32; ++lane)
      if ((mask >> lane & 1U) != 0) sum = combine(sum, of(lane));
    return sum;
  });
}
template <class T>
T __reduce_add_sync(unsigned mask, T value) {
  return reduced(mask, value, [](T a, T b) { return a + b; });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value) {
  return reduced(mask, value, [](T a, T b) { return std::max(a, b); });
}
inline unsigned __ballot_sync(unsigned mask, int value) {
  return reduced(mask, value != 0 ? 1U << emulated::lane() : 0U, [](unsigned a, unsigned b) { return a | b; });
}
inline bool __any_sync(unsigned mask, int value) { return __ballot_sync(mask, value) != 0; }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return from_all_lanes(mask, value, [=](unsigned lane, auto of) {
    unsigned same = 0;
    for (unsigned other = 0; other < 32; ++other)
      if ((mask >> other & 1U) != 0 && of(other) == of(lane)) same |= 1U << other;
    return same;
  });
}

namespace emulated {

// Calls the kernel with arguments as the driver gets them.
template <class... Parameters>
void call(void (*kernel)(Parameters...), void** arguments) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    kernel(*static_cast<std::remove_cv_t<Parameters>*>(arguments[kIndex])...);
  }
  (std::index_sequence_for<Parameters...>{});
}

}  // namespace emulated
// NOLINTEND(readability-identifier-naming,google-explicit-constructor)
