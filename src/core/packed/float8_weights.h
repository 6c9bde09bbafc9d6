// Weights in fp8 (packed_matrix.h), whose codes and scale are those that `quantise` makes of the weights in bf16.
// Weights that lie side by side are one matrix, and have one scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/packed/packed_matrix.h"

namespace ridgepoint {

// A weight as it was given: as the bits of its elements in bf16 and the largest magnitude, or as its bytes.
struct Float8Weight {
  PackedMatrix matrix;
  std::vector<std::uint16_t> elements = {};
  std::vector<std::byte> bytes = {};  // where there are no elements
  float largest = 0;
};

// Rounds the elements to bf16. Throws Error where one is not finite, or its rounded number.
Float8Weight float8_weight(const PackedMatrix& matrix, const ElementSource& source);

// The bytes of weights that have one scale, the largest of theirs. Given bytes with that scale stay; others are rounded
// once more.
std::vector<std::vector<std::byte>> packed_together(std::span<const Float8Weight* const> weights);

void pack_float8(const PackedMatrix& matrix, const ElementSource& source, std::span<std::byte> packed);
void unpack_float8(const PackedMatrix& matrix, const std::byte* packed, std::int64_t first, std::int64_t count,
                   float* elements);

}  // namespace ridgepoint
