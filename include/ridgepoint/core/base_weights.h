// How the frozen weights of linear layers are stored.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridgepoint {

// as_is: in the low type of the step. fp8: as codes of e4m3 and their scale, which products in 8 bits read. The others:
// as bitsandbytes stores them (src/core/packed/packed_matrix.h).
enum class BaseWeights : std::uint8_t { as_is, nf4, nf4_single, int8, fp8 };

inline constexpr std::array kAllBaseWeights = {BaseWeights::as_is, BaseWeights::nf4, BaseWeights::nf4_single,
                                               BaseWeights::int8, BaseWeights::fp8};

// Codes of 4 bits, whose scales are codes (nf4) or fp32 (nf4_single).
constexpr bool is_of_4_bits(BaseWeights weights) {
  return weights == BaseWeights::nf4 || weights == BaseWeights::nf4_single;
}

// as-is nf4 nf4-single int8 fp8
std::string_view name(BaseWeights weights);
// The inverse of name(). Throws Error (usage) naming the nearest.
BaseWeights base_weights_from_name(std::string_view text);

// The rows of rotated heads in files of transformers, which rotates the elements i and i + r/2 of the r rotated
// elements of a head, where this program rotates 2i and 2i + 1 (docs/decisions/0027-rows-of-rotary-heads.md).
struct RowOrder {
  std::int64_t head_size = 0;
  std::int64_t rotated = 0;  // rows of each head; 0: the file has this program's order
  std::int64_t kept = 0;     // rows of each head before those

  bool operator==(const RowOrder&) const = default;
  // The row of the file that is row `row` of this program's.
  std::int64_t file_row(std::int64_t row) const {
    const std::int64_t within = rotated == 0 ? -1 : row % head_size - kept;
    if (within < 0 || within >= rotated) return row;
    return row - within + within / 2 + (within % 2) * (rotated / 2);
  }
};

// A weight of a model that has files: packed rows are in their order, so that a packed weight has the bytes of the
// file.
struct PublishedWeight {
  std::string parameter;
  RowOrder rows = {};
  bool stays_wide = false;  // the files have it unpacked, or in bytes that are no packed matrix of its own
};

}  // namespace ridgepoint
