#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "backends/cuda/generator/source.h"
#include "core/dynamic_code.h"
#include "core/types/float8.h"

namespace ridgepoint::cuda {
namespace {

// The upper 16 bits of a magnitude, without its sign.
constexpr std::uint32_t kSign = 0x8000;
constexpr std::uint32_t kOne = std::bit_cast<std::uint32_t>(1.0F) >> 16U;

// Where the codes of magnitudes begin to differ, for either sign. All smaller ones have the code of this one.
std::uint32_t first_start(DType dtype) {
  const auto& starts = dynamic_starts(dtype);
  std::uint32_t bits = 0;
  while (starts[bits + 1] == starts[0] && starts[kSign + bits + 1] == starts[kSign]) ++bits;
  return bits;
}

// The numbers as literals; those that have none, infinity and NaN, as 0.
std::string list_of(std::span<const float> numbers) {
  std::string list;
  for (const float number : numbers)
    list += fmt::format("{}{:.9e}f", list.empty() ? "" : ",", std::isfinite(number) ? number : 0.0F);
  return list;
}

// The levels, and the starts (core/dynamic_code.h) of positive and then of negative numbers up to 1.
std::string tables_of(DType dtype) {
  const std::uint32_t first = first_start(dtype);
  const std::span all = dynamic_starts(dtype);
  return fmt::format(
      "__device__ const float {0}_levels[{1}] = {{{2}}};\n"
      "__device__ const unsigned char {0}_starts[{3}] = {{{4},{5}}};\n",
      name(dtype), kDynamicCodes, list_of(dynamic_levels(dtype)), 2 * (kOne + 1 - first),
      fmt::join(all.subspan(first, kOne + 1 - first), ","),
      fmt::join(all.subspan(kSign + first, kOne + 1 - first), ","));
}

std::string conversions_of(DType dtype) {
  return fmt::format(R"cuda(
struct {0} {{ unsigned char bits; }};
{1}__device__ inline float widen({0} x) {{ return {0}_levels[x.bits]; }}
template <> struct Narrow<{0}> {{
  template <typename S> __device__ static {0} of(S x) {{
    return {0}{{nearest_code<{2}, {3}>({0}_levels, {0}_starts, static_cast<float>(x))}};
  }}
}};
)cuda",
                     name(dtype), tables_of(dtype), first_start(dtype), kOne);
}

// The codes of a float8 dtype up to that of its largest number are in the table.
std::string float8_of(DType dtype) {
  const Float8Format format = float8_format(dtype);
  return fmt::format(R"cuda(
struct {0} {{ unsigned char bits; }};
__device__ const float {0}_values[256] = {{{1}}};
__device__ inline float widen({0} x) {{
  const unsigned magnitude = x.bits & 0x7f;
  if (magnitude <= {2}) return {0}_values[x.bits];
  if (magnitude > {3}) return not_a_number(0.0f);
  return x.bits == magnitude ? positive_infinity(0.0f) : -positive_infinity(0.0f);
}}
template <> struct Narrow<{0}> {{
  __device__ static {0} of(float x) {{
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.{0}x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return {0}{{static_cast<unsigned char>(pair)}};
#else
    return {0}{{float8_code<{4}, {5}>(x, {6:.1f}f)}};
#endif
  }}
  __device__ static {0} of(long long x) {{ return of(to_odd(x)); }}
  template <typename S> __device__ static {0} of(S x) {{ return of(to_odd(static_cast<double>(x))); }}
}};
template <int count> __device__ inline Packet<{0}, count> narrow_all(const float (&from)[count], {0}) {{
  Packet<{0}, count> packet;
#if __CUDA_ARCH__ >= 890
  if constexpr (count % 4 == 0) {{
#pragma unroll
    for (int i = 0; i < count; i += 4)
      asm("{{ .reg .b16 low, high; cvt.rn.satfinite.{0}x2.f32 low, %2, %1; cvt.rn.satfinite.{0}x2.f32 high, %4, %3;"
          " mov.b32 %0, {{low, high}}; }}"
          : "=r"(packet.fours[i / 4]) : "f"(from[i]), "f"(from[i + 1]), "f"(from[i + 2]), "f"(from[i + 3]));
    return packet;
  }}
#endif
#pragma unroll
  for (int i = 0; i < count; ++i) packet.items[i] = Narrow<{0}>::of(from[i]);
  return packet;
}}
)cuda",
                     name(dtype), list_of(float8_values(dtype)), float8_code(dtype, INFINITY),
                     dtype == DType::e4m3 ? kFloat8NaN - 1 : float8_code(dtype, INFINITY) + 1, format.mantissa,
                     format.bias, format.largest);
}

}  // namespace

std::string generated_float8() {
  return R"cuda(
// The code of a floating-point number of 8 bits, rounded to nearest even and saturating; as src/core/types/float8.h.
template <int kMantissa, int kBias>
__device__ inline unsigned char float8_code(float x, float largest) {
  constexpr int kShift = 23 - kMantissa;
  constexpr float kSteps = 1u << (kBias - 1 + kMantissa);  // subnormal numbers between 0 and 1
  if (x != x) return 0x7f;
  const float magnitude = fminf(fabsf(x), largest);
  const unsigned sign = bits_of(x) >> 31 << 7;
  const unsigned bits = bits_of(magnitude);
  if (bits < (128u - kBias) << 23) {  // subnormal: a sum with 2^23 steps has their number in its mantissa
    return static_cast<unsigned char>(sign | (bits_of(magnitude * kSteps + 8388608.0f) & 0xff));
  }
  const unsigned rounded = bits + ((1u << (kShift - 1)) - 1) + (bits >> kShift & 1);
  return static_cast<unsigned char>(sign | ((rounded >> kShift) - ((127u - kBias) << kMantissa)));
}
)cuda" + float8_of(DType::e4m3) +
         float8_of(DType::e5m2);
}

std::string generated_codes() {
  return R"cuda(
// The code of the nearest level, the lower of two at the same distance; NaN counts as 0. As src/core/dynamic_code.cpp:
// the upper bits of a number, kFirst to kLast without the sign, give its code or the one before.
template <unsigned kFirst, unsigned kLast>
__device__ inline unsigned char nearest_code(const float* levels, const unsigned char* starts, float x) {
  if (x != x) x = 0.0f;
  const unsigned bits = bits_of(x) >> 16;
  unsigned magnitude = bits & 0x7fff;
  magnitude = magnitude < kFirst ? kFirst : magnitude > kLast ? kLast : magnitude;
  const int start = starts[(bits >> 15) * (kLast + 1 - kFirst) + magnitude - kFirst];
  const bool is_above = start < 255 && (levels[start] + levels[start + 1]) * 0.5f < x;
  return static_cast<unsigned char>(is_above ? start + 1 : start);
}
)cuda" + conversions_of(DType::dynamic8) +
         conversions_of(DType::udynamic8);
}

}  // namespace ridgepoint::cuda
