#include "core/packed/float8_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "core/rounding.h"
#include "core/threads/parallel.h"
#include "core/types/float8.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kFloat8Grain = 1 << 15;  // elements
constexpr std::uint16_t kInfinityInBf16 = 0x7f80;

// A scale, and the factor that makes codes of elements.
struct CodeScale {
  float scale = 0, factor = 0;
};

float widened_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

// To the nearest, of two the even one.
std::uint16_t rounded_to_bf16(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

// As its bits, which have the order of the numbers.
std::uint16_t largest_magnitude_in(std::span<const std::uint16_t> elements) {
  const auto count = static_cast<std::int64_t>(elements.size());
  std::vector<std::uint16_t> of_stretches(static_cast<std::size_t>(ceil_divide(count, kFloat8Grain)));
  parallel_for(static_cast<std::int64_t>(of_stretches.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t stretch = begin; stretch < end; ++stretch) {
      const std::int64_t first = stretch * kFloat8Grain;
      std::uint16_t largest = 0;
      for (const std::uint16_t bits : elements.subspan(static_cast<std::size_t>(first),
                                                       static_cast<std::size_t>(std::min(kFloat8Grain, count - first))))
        largest = std::max<std::uint16_t>(largest, bits & 0x7fffU);
      of_stretches[static_cast<std::size_t>(stretch)] = largest;
    }
  });
  return of_stretches.empty() ? std::uint16_t{0} : *std::ranges::max_element(of_stretches);
}

float scale_in(const PackedMatrix& matrix, const std::byte* packed) {
  float scale = 0;
  std::memcpy(&scale, packed + matrix.scales(), sizeof scale);
  return scale;
}

CodeScale own_scale(const Float8Weight& weight) {
  if (weight.elements.empty()) {
    const float scale = scale_in(weight.matrix, weight.bytes.data());
    return {scale, 1 / scale};
  }
  const float magnitude =
      std::max(widened_bf16(largest_magnitude_in(weight.elements)), static_cast<float>(kLeastFloat8Magnitude));
  const float largest = float8_format(DType::e4m3).largest;
  return {magnitude / largest, largest / magnitude};
}

std::vector<std::byte> packed_with(const Float8Weight& weight, const CodeScale& shared) {
  const PackedMatrix& matrix = weight.matrix;
  if (weight.elements.empty() && scale_in(matrix, weight.bytes.data()) == shared.scale) return weight.bytes;
  std::vector<std::byte> packed(static_cast<std::size_t>(matrix.bytes()));
  parallel_for(matrix.elements(), kFloat8Grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float element = 0;
      if (weight.elements.empty()) {
        unpack_float8(matrix, weight.bytes.data(), i, 1, &element);
      } else {
        element = widened_bf16(weight.elements[static_cast<std::size_t>(i)]);
      }
      packed[static_cast<std::size_t>(i)] = std::byte{float8_code(DType::e4m3, element * shared.factor)};
    }
  });
  std::memcpy(packed.data() + matrix.scales(), &shared.scale, sizeof shared.scale);
  return packed;
}

}  // namespace

Float8Weight float8_weight(const PackedMatrix& matrix, std::span<const std::uint16_t> elements) {
  if (largest_magnitude_in(elements) >= kInfinityInBf16)
    throw Error("a weight in " + std::string(name(matrix.format)) + " has an element that is not finite",
                ErrorKind::usage);
  return {matrix, {elements.begin(), elements.end()}};
}

std::vector<std::vector<std::byte>> packed_together(std::span<const Float8Weight* const> weights) {
  CodeScale shared;
  for (const Float8Weight* weight : weights) {
    const CodeScale own = own_scale(*weight);
    if (own.scale > shared.scale) shared = own;
  }
  std::vector<std::vector<std::byte>> packed;
  for (const Float8Weight* weight : weights) packed.push_back(packed_with(*weight, shared));
  return packed;
}

void pack_float8(const PackedMatrix& matrix, std::span<const float> elements, std::span<std::byte> packed) {
  std::vector<std::uint16_t> rounded(elements.size());
  std::ranges::transform(elements, rounded.begin(), rounded_to_bf16);
  const Float8Weight weight = float8_weight(matrix, rounded);
  std::ranges::copy(packed_with(weight, own_scale(weight)), packed.begin());
}

void unpack_float8(const PackedMatrix& matrix, const std::byte* packed, std::int64_t first, std::int64_t count,
                   float* elements) {
  const float scale = scale_in(matrix, packed);
  const std::array<float, 256>& values = float8_values(DType::e4m3);
  for (std::int64_t i = first; i < first + count; ++i)
    *elements++ = values[std::to_integer<std::size_t>(packed[i])] * scale;
}

}  // namespace ridgepoint
