#include "ir/packed_weight.h"

#include <algorithm>
#include <string>

#include "core/checked.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

std::vector<PackedPart> packed_parts(BaseWeights format, std::span<const std::int64_t> rows, std::int64_t columns) {
  std::vector<PackedPart> parts;
  PackedPart next;
  for (const std::int64_t count : rows) {
    next.matrix = {format, count, columns};
    parts.push_back(next);
    next.first_row += count;
    next.first_byte += next.matrix.bytes();
  }
  return parts;
}

std::vector<PackedPart> packed_parts(const Attributes& attributes) {
  const BaseWeights format = base_weights_from_name(attributes.get<std::string>(kFormat));
  const auto& rows = attributes.get<std::vector<std::int64_t>>(kRows);
  const auto columns = attributes.get<std::int64_t>(kColumns);
  const bool is_matrix = !rows.empty() && std::ranges::all_of(rows, [](std::int64_t count) { return count > 0; });
  if (format == BaseWeights::as_is || !is_matrix || columns < 1)
    throw Error("a packed weight is in nf4 or int8 and has rows and columns", ErrorKind::usage);
  for (const std::int64_t count : rows) checked_product({count, columns, 2}, "the number of bytes of a packed weight");
  return packed_parts(format, rows, columns);
}

std::int64_t packed_bytes(std::span<const PackedPart> parts) {
  return parts.empty() ? 0 : parts.back().first_byte + parts.back().matrix.bytes();
}

}  // namespace ridgepoint
