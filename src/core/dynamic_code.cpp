#include "core/dynamic_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ridgepoint {
namespace {

constexpr int kDecades = 7;

using Levels = std::array<float, kDynamicCodes>;

// The middles of equal parts of [0.1, 1], times a power of ten; 0 and 1 are there too.
Levels make_levels(bool is_signed) {
  Levels levels{};
  std::size_t count = 0;
  levels[count++] = 0;
  levels[count++] = 1;
  for (int decade = 0; decade < kDecades; ++decade) {
    const double power = std::pow(10.0, decade - (kDecades - 1));
    const int parts = 1 << (is_signed ? decade : decade + 1);
    for (int part = 0; part < parts; ++part) {
      const double middle = 0.1 + 0.9 * (part + 0.5) / parts;
      levels[count++] = static_cast<float>(power * middle);
      if (is_signed) levels[count++] = static_cast<float>(-power * middle);
    }
  }
  std::ranges::sort(levels);
  return levels;
}

using Borders = std::array<float, kDynamicCodes>;

Borders make_borders(const Levels& levels) {
  Borders borders{};
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) borders[i] = (levels[i] + levels[i + 1]) / 2;
  borders.back() = std::numeric_limits<float>::infinity();
  return borders;
}

using Starts = std::array<std::uint8_t, kDynamicStarts>;

// The least number with these bits is nearest to 0 where it is positive, and farthest from it where it is negative.
Starts make_starts(const Borders& borders) {
  Starts starts{};
  for (std::uint32_t bits = 0; bits < kDynamicStarts; ++bits) {
    const bool is_negative = bits >> 15U != 0;
    const auto least = std::bit_cast<float>(bits << 16U | (is_negative ? 0xFFFFU : 0U));
    starts[bits] = static_cast<std::uint8_t>(std::ranges::lower_bound(borders, least) - borders.begin());
  }
  return starts;
}

struct Codes {
  explicit Codes(bool is_signed) : levels(make_levels(is_signed)) {}
  Levels levels;
  Borders borders = make_borders(levels);
  Starts starts = make_starts(borders);
};

const Codes& codes_of(DType dtype) {
  static const Codes with_sign(true);
  static const Codes without_sign(false);
  return dtype == DType::dynamic8 ? with_sign : without_sign;
}

}  // namespace

const std::array<float, kDynamicCodes>& dynamic_levels(DType dtype) { return codes_of(dtype).levels; }
const std::array<float, kDynamicCodes>& dynamic_borders(DType dtype) { return codes_of(dtype).borders; }
const std::array<std::uint8_t, kDynamicStarts>& dynamic_starts(DType dtype) { return codes_of(dtype).starts; }

std::uint8_t dynamic_code(DType dtype, float value) {
  const Codes& codes = codes_of(dtype);
  if (std::isnan(value)) value = 0;
  const std::uint8_t start = codes.starts[std::bit_cast<std::uint32_t>(value) >> 16U];
  return static_cast<std::uint8_t>(start + (codes.borders[start] < value ? 1 : 0));
}

}  // namespace ridgepoint
