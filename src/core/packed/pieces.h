// How the matrices of this folder read the elements that they pack: in pieces, so that no matrix is in memory as fp32;
// and numbers in fp32 among packed bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/packed/packed_matrix.h"
#include "core/rounding.h"
#include "core/threads/parallel.h"

namespace ridgepoint {

// The elements of a piece: whole blocks of nf4.
inline constexpr std::int64_t kPackedPiece = 1 << 15;

// Calls body(first, elements) for each piece of `count` elements, in parallel, with memory for its elements.
template <typename Body>
void for_each_piece(std::int64_t count, const Body& body) {
  parallel_for(ceil_divide(count, kPackedPiece), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> elements(static_cast<std::size_t>(kPackedPiece));
    for (std::int64_t first = begin * kPackedPiece; first < std::min(end * kPackedPiece, count); first += kPackedPiece)
      body(first, std::span(elements).first(static_cast<std::size_t>(std::min(kPackedPiece, count - first))));
  });
}

// At an offset in bytes.
inline float read_float(const std::byte* packed, std::int64_t offset) {
  float value = 0;
  std::memcpy(&value, packed + offset, sizeof value);
  return value;
}
inline void write_float(std::byte* packed, std::int64_t offset, float value) {
  std::memcpy(packed + offset, &value, sizeof value);
}

// Throws Error where an element is not finite.
void require_finite(const PackedMatrix& matrix, std::span<const float> elements);

}  // namespace ridgepoint
