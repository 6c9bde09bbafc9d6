// A weight that is stored in 4 or 8 bits (core/packed/packed_matrix.h): an input of dtype packed, and the attributes by
// which it and `dequantise` describe its bytes; in fp8, an input of codes and a state with their scale (kScaleOf).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/packed/packed_matrix.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// The name of the format: nf4, nf4-single, int8 or fp8.
inline constexpr std::string_view kFormat = "format";
// The attribute of a weight that a later pass packs: the name of the format.
inline constexpr std::string_view kPackedAs = "packed_as";
// The attribute of dequantise: the columns of the weight. Its attribute kRows has the rows of each part.
inline constexpr std::string_view kColumns = "columns";

// The attribute of a packed weight and of dequantise: three numbers for each part, those of its RowOrder. Absent where
// all rows are in this program's order.
inline constexpr std::string_view kRowOrder = "row_order";
// An order a part. Throws Error where the attribute has other numbers than orders of these rows.
std::vector<RowOrder> row_orders(const Attributes& attributes, std::span<const std::int64_t> rows);
std::vector<std::int64_t> numbers_of(const RowOrder& order);

// Weights that lie one after another, each packed by itself, are the rows of one matrix.
struct PackedPart {
  PackedMatrix matrix;
  std::int64_t first_row = 0;
  std::int64_t first_byte = 0;
};
std::vector<PackedPart> packed_parts(BaseWeights format, std::span<const std::int64_t> rows, std::int64_t columns,
                                     std::span<const RowOrder> orders = {});
// Those that a dequantise describes. Throws Error where the attributes describe no matrices.
std::vector<PackedPart> packed_parts(const Attributes& attributes);
std::int64_t packed_bytes(std::span<const PackedPart> parts);

}  // namespace ridgepoint
