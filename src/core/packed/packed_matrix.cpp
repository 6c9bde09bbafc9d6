#include "core/packed/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/dynamic_code.h"
#include "core/packed/float8_weights.h"
#include "core/packed/pieces.h"
#include "core/rounding.h"
#include "core/threads/parallel.h"
#include "core/types/enum_names.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

constexpr auto kNames = enum_names<BaseWeights>("as-is", "nf4", "nf4-single", "int8", "fp8");

constexpr std::int64_t kAlignment = 16;
constexpr float kMostInt8 = 127;
constexpr float kInt8Step = 1 / kMostInt8;

std::int64_t aligned(std::int64_t bytes) { return ceil_divide(bytes, kAlignment) * kAlignment; }

float largest_magnitude(std::span<const float> elements) {
  float largest = 0;
  for (const float element : elements) largest = std::max(largest, std::abs(element));
  return largest;
}

// The middle between each number and the next.
constexpr std::array<float, 15> kNf4Borders = [] {
  std::array<float, 15> borders{};
  for (std::size_t i = 0; i < borders.size(); ++i) borders[i] = (kNf4Levels[i] + kNf4Levels[i + 1]) / 2;
  return borders;
}();

// The code of the nearest number, the lower of two at the same distance.
unsigned nf4_code(float value) {
  unsigned code = 0;
  for (const float border : kNf4Borders) code += value > border ? 1U : 0U;
  return code;
}

void pack_magnitudes(const PackedMatrix& matrix, std::vector<float> magnitudes, std::byte* packed) {
  if (matrix.format == BaseWeights::nf4_single) {
    std::ranges::copy(std::as_bytes(std::span(magnitudes)), packed + matrix.scales());
    return;
  }
  const double sum = std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0);
  const auto mean = static_cast<float>(sum / static_cast<double>(magnitudes.size()));
  write_float(packed, matrix.mean(), mean);
  for (float& magnitude : magnitudes) magnitude -= mean;
  const auto pack_outer = [&](std::int64_t outer) {
    const auto begin = static_cast<std::size_t>(outer * kNf4BlocksOfBlocks);
    const auto count = std::min<std::size_t>(kNf4BlocksOfBlocks, magnitudes.size() - begin);
    const float largest = largest_magnitude(std::span(magnitudes).subspan(begin, count));
    write_float(packed, matrix.outer_scales() + outer * static_cast<std::int64_t>(sizeof(float)), largest);
    const float factor = 1 / largest;
    for (std::size_t i = begin; i < begin + count; ++i) {
      const float value = largest == 0 ? 0 : magnitudes[i] * factor;
      packed[static_cast<std::size_t>(matrix.scales()) + i] = std::byte{dynamic_code(DType::dynamic8, value)};
    }
  };
  constexpr std::int64_t kOuterGrain = 16;
  parallel_for(matrix.blocks_of_blocks(), kOuterGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t outer = begin; outer < end; ++outer) pack_outer(outer);
  });
}

// The elements in the order of the packed rows.
class RowsOfFile {
 public:
  RowsOfFile(const PackedMatrix& matrix, const ElementSource& source) : matrix_(matrix), source_(source) {
    if (matrix.order.rotated == 0) return;
    rows_.resize(static_cast<std::size_t>(matrix.rows));
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      rows_[static_cast<std::size_t>(matrix.order.file_row(row))] = row;
  }

  void read(std::int64_t first, std::span<float> elements) const {
    if (rows_.empty()) {
      source_(first, elements);
    } else {
      for (std::size_t done = 0; done < elements.size();) {
        const std::int64_t at = first + static_cast<std::int64_t>(done), column = at % matrix_.columns;
        const std::int64_t row = rows_[static_cast<std::size_t>(at / matrix_.columns)];
        const auto of_row = static_cast<std::size_t>(matrix_.columns - column);
        const std::span<float> part = elements.subspan(done, std::min(of_row, elements.size() - done));
        source_(row * matrix_.columns + column, part);
        done += part.size();
      }
    }
    require_finite(matrix_, elements);
  }

 private:
  const PackedMatrix& matrix_;
  const ElementSource& source_;
  std::vector<std::int64_t> rows_;  // of this program, for each row of the file; empty where the order is the same
};

// Returns the largest magnitude.
float pack_nf4_block(std::span<const float> block, std::byte* codes) {
  const float largest = largest_magnitude(block);
  // A block of zeros keeps the code of 0, though the mean of the magnitudes makes its own a small number.
  const float factor = largest == 0 ? 0 : 1 / largest;
  for (std::size_t i = 0; i < block.size(); i += 2) {
    const unsigned upper = nf4_code(block[i] * factor);
    const unsigned lower = nf4_code(i + 1 < block.size() ? block[i + 1] * factor : 0);
    codes[i / 2] = static_cast<std::byte>(upper << 4U | lower);
  }
  return largest;
}

void pack_nf4(const PackedMatrix& matrix, const RowsOfFile& rows, std::byte* packed) {
  std::vector<float> magnitudes(static_cast<std::size_t>(matrix.blocks()));
  for_each_piece(matrix.elements(), [&](std::int64_t first, std::span<float> elements) {
    rows.read(first, elements);
    for (std::size_t i = 0; i < elements.size(); i += kNf4Block) {
      const std::size_t at = static_cast<std::size_t>(first) + i;
      const auto block = elements.subspan(i, std::min<std::size_t>(kNf4Block, elements.size() - i));
      magnitudes[at / kNf4Block] = pack_nf4_block(block, packed + at / 2);
    }
  });
  pack_magnitudes(matrix, std::move(magnitudes), packed);
}

void pack_int8(const PackedMatrix& matrix, const RowsOfFile& rows, std::byte* packed) {
  const std::int64_t grain = std::max<std::int64_t>(kPackedPiece / matrix.columns, 1);
  parallel_for(matrix.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(static_cast<std::size_t>(matrix.columns));
    for (std::int64_t row = begin; row < end; ++row) {
      rows.read(row * matrix.columns, values);
      const float largest = largest_magnitude(values);
      write_float(packed, matrix.scales() + row * static_cast<std::int64_t>(sizeof(float)), largest);
      const float factor = largest == 0 ? 0 : kMostInt8 / largest;
      std::ranges::transform(values, packed + row * matrix.columns, [factor](float value) {
        const float code = std::clamp(std::nearbyint(value * factor), -kMostInt8, kMostInt8);
        return static_cast<std::byte>(static_cast<std::int8_t>(code));
      });
    }
  });
}

float magnitude_of(const PackedMatrix& matrix, const std::byte* packed, std::int64_t block) {
  if (matrix.format == BaseWeights::nf4_single)
    return read_float(packed, matrix.scales() + block * static_cast<std::int64_t>(sizeof(float)));
  const auto code = std::to_integer<std::size_t>(packed[matrix.scales() + block]);
  const std::int64_t outer = block / kNf4BlocksOfBlocks * static_cast<std::int64_t>(sizeof(float));
  const float scaled = dynamic_levels(DType::dynamic8)[code] * read_float(packed, matrix.outer_scales() + outer);
  return scaled + read_float(packed, matrix.mean());
}

void unpack_nf4(const PackedMatrix& matrix, const std::byte* packed, std::int64_t first, std::int64_t count,
                float* elements) {
  for (std::int64_t i = first; i < first + count;) {
    const std::int64_t end = std::min((i / kNf4Block + 1) * kNf4Block, first + count);
    const float magnitude = magnitude_of(matrix, packed, i / kNf4Block);
    for (; i < end; ++i) {
      const auto pair = std::to_integer<unsigned>(packed[i / 2]);
      *elements++ = kNf4Levels[i % 2 == 0 ? pair >> 4U : pair & 0xFU] * magnitude;
    }
  }
}

void unpack_int8(const PackedMatrix& matrix, const std::byte* packed, std::int64_t first, std::int64_t count,
                 float* elements) {
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::int64_t row = i / matrix.columns;
    const float largest = read_float(packed, matrix.scales() + row * static_cast<std::int64_t>(sizeof(float)));
    *elements++ = static_cast<float>(static_cast<std::int8_t>(packed[i])) * largest * kInt8Step;
  }
}

}  // namespace

std::string_view name(BaseWeights weights) { return kNames[weights]; }
BaseWeights base_weights_from_name(std::string_view text) { return kNames.parse(text, "'{}' is unknown"); }

std::int64_t PackedMatrix::blocks() const { return ceil_divide(elements(), kNf4Block); }
std::int64_t PackedMatrix::blocks_of_blocks() const { return ceil_divide(blocks(), kNf4BlocksOfBlocks); }

std::int64_t PackedMatrix::scales() const {
  if (format == BaseWeights::fp8) return elements();
  return aligned(is_of_4_bits(format) ? ceil_divide(elements(), std::int64_t{2}) : elements());
}
std::int64_t PackedMatrix::outer_scales() const { return scales() + aligned(blocks()); }
std::int64_t PackedMatrix::mean() const {
  return outer_scales() + blocks_of_blocks() * static_cast<std::int64_t>(sizeof(float));
}
std::int64_t PackedMatrix::bytes() const {
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  if (format == BaseWeights::fp8) return scales() + kFloat;
  if (format == BaseWeights::nf4) return aligned(mean() + kFloat);
  return scales() + aligned((format == BaseWeights::int8 ? rows : blocks()) * kFloat);
}

void require_finite(const PackedMatrix& matrix, std::span<const float> elements) {
  if (!std::ranges::all_of(elements, [](float element) { return std::isfinite(element); }))
    throw Error("a weight in " + std::string(name(matrix.format)) + " has an element that is not finite",
                ErrorKind::usage);
}

ElementSource elements_of(std::span<const float> elements) {
  return [elements](std::int64_t first, std::span<float> into) {
    std::ranges::copy(elements.subspan(static_cast<std::size_t>(first), into.size()), into.begin());
  };
}

void pack(const PackedMatrix& matrix, const ElementSource& source, std::span<std::byte> packed) {
  if (static_cast<std::int64_t>(packed.size()) != matrix.bytes())
    throw Error("a packed matrix has another size than its elements", ErrorKind::usage);
  if (matrix.format == BaseWeights::fp8) return pack_float8(matrix, source, packed);
  // What the codes leave between the parts is 0.
  std::ranges::fill(packed.subspan(static_cast<std::size_t>(std::max<std::int64_t>(matrix.scales() - kAlignment, 0))),
                    std::byte{0});
  (is_of_4_bits(matrix.format) ? pack_nf4 : pack_int8)(matrix, RowsOfFile(matrix, source), packed.data());
}

void unpack(const PackedMatrix& matrix, const std::byte* packed, std::int64_t first, std::int64_t count,
            float* elements) {
  const auto read = matrix.format == BaseWeights::fp8 ? unpack_float8
                    : is_of_4_bits(matrix.format)     ? unpack_nf4
                                                      : unpack_int8;
  if (matrix.order.rotated == 0) return read(matrix, packed, first, count, elements);
  for (std::int64_t i = first; i < first + count;) {
    const std::int64_t row = i / matrix.columns;
    const std::int64_t end = std::min((row + 1) * matrix.columns, first + count);
    const std::int64_t moved = (matrix.order.file_row(row) - row) * matrix.columns;
    read(matrix, packed, i + moved, end - i, elements);
    elements += end - i;
    i = end;
  }
}

}  // namespace ridgepoint
