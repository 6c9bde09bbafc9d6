#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstdint>
#include <span>

#include "backends/cuda/generator/prelude.h"
#include "core/dynamic_code.h"

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

// The levels, and the starts (core/dynamic_code.h) of positive and then of negative numbers up to 1.
std::string tables_of(DType dtype) {
  std::string levels;
  for (const float level : dynamic_levels(dtype)) levels += fmt::format("{}{:.9e}f", levels.empty() ? "" : ",", level);
  const std::uint32_t first = first_start(dtype);
  const std::span all = dynamic_starts(dtype);
  return fmt::format(
      "__device__ const float {0}_levels[{1}] = {{{2}}};\n"
      "__device__ const unsigned char {0}_starts[{3}] = {{{4},{5}}};\n",
      name(dtype), kDynamicCodes, levels, 2 * (kOne + 1 - first), fmt::join(all.subspan(first, kOne + 1 - first), ","),
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

}  // namespace

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
