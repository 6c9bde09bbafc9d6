#include "core/packed/float8_weights.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/packed/pieces.h"
#include "core/types/bf16.h"
#include "core/types/float8.h"

namespace ridgepoint {
namespace {

// A scale, and the factor that makes codes of elements.
struct CodeScale {
  float scale = 0, factor = 0;
};

CodeScale own_scale(const Float8Weight& weight) {
  if (weight.elements.empty()) {
    const float scale = read_float(weight.bytes.data(), weight.matrix.scales());
    return {scale, 1 / scale};
  }
  const float magnitude = std::max(weight.largest, static_cast<float>(kLeastFloat8Magnitude));
  const float largest = float8_format(DType::e4m3).largest;
  return {magnitude / largest, largest / magnitude};
}

std::vector<std::byte> packed_with(const Float8Weight& weight, const CodeScale& shared) {
  const PackedMatrix& matrix = weight.matrix;
  if (weight.elements.empty() && read_float(weight.bytes.data(), matrix.scales()) == shared.scale) return weight.bytes;
  std::vector<std::byte> packed(static_cast<std::size_t>(matrix.bytes()));
  parallel_for(matrix.elements(), kPackedPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float element = 0;
      if (weight.elements.empty()) {
        unpack_float8(matrix, weight.bytes.data(), i, 1, &element);
      } else {
        element = widen_bf16(weight.elements[static_cast<std::size_t>(i)]);
      }
      packed[static_cast<std::size_t>(i)] = std::byte{float8_code(DType::e4m3, element * shared.factor)};
    }
  });
  write_float(packed.data(), matrix.scales(), shared.scale);
  return packed;
}

}  // namespace

Float8Weight float8_weight(const PackedMatrix& matrix, const ElementSource& source) {
  Float8Weight weight{.matrix = matrix,
                      .elements = std::vector<std::uint16_t>(static_cast<std::size_t>(matrix.elements()))};
  std::atomic<std::uint16_t> largest{0};  // as the bits of a magnitude, which have the order of the numbers
  for_each_piece(matrix.elements(), [&](std::int64_t first, std::span<float> elements) {
    source(first, elements);
    require_finite(matrix, elements);
    std::uint16_t of_piece = 0;
    std::ranges::transform(elements, weight.elements.begin() + first, [&](float element) {
      const std::uint16_t bits = round_to_bf16(element);
      of_piece = std::max<std::uint16_t>(of_piece, bits & 0x7fffU);
      return bits;
    });
    std::uint16_t known = largest;
    while (of_piece > known && !largest.compare_exchange_weak(known, of_piece)) {
    }
  });
  weight.largest = widen_bf16(largest);
  require_finite(matrix, {&weight.largest, 1});
  return weight;
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

void pack_float8(const PackedMatrix& matrix, const ElementSource& source, std::span<std::byte> packed) {
  const Float8Weight weight = float8_weight(matrix, source);
  std::ranges::copy(packed_with(weight, own_scale(weight)), packed.begin());
}

void unpack_float8(const PackedMatrix& matrix, const std::byte* packed, std::int64_t first, std::int64_t count,
                   float* elements) {
  const float scale = read_float(packed, matrix.scales());
  const std::array<float, 256>& values = float8_values(DType::e4m3);
  for (std::int64_t i = first; i < first + count; ++i)
    *elements++ = values[std::to_integer<std::size_t>(packed[i])] * scale;
}

}  // namespace ridgepoint
