#include "ir/packed_weight.h"

#include <algorithm>
#include <string>

#include "core/checked.h"
#include "ir/stored_tensors.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {

std::vector<RowOrder> row_orders(const Attributes& attributes, std::span<const std::int64_t> rows) {
  std::vector<RowOrder> orders(rows.size());
  const auto numbers = attributes.get_or<std::vector<std::int64_t>>(kRowOrder, {});
  if (numbers.empty()) return orders;
  constexpr std::size_t kEach = 3;
  bool is_order = numbers.size() == rows.size() * kEach;
  for (std::size_t i = 0; is_order && i < rows.size(); ++i) {
    RowOrder& order = orders[i];
    order = {numbers[i * kEach], numbers[i * kEach + 1], numbers[i * kEach + 2]};
    const bool has_heads = order.head_size > 0 && rows[i] % order.head_size == 0 && order.kept >= 0 &&
                           order.rotated % 2 == 0 && order.rotated <= order.head_size - order.kept;
    is_order = order == RowOrder{} || (order.rotated > 0 && has_heads);
  }
  if (!is_order) throw Error("the order of the rows of a packed weight is none of its heads", ErrorKind::usage);
  return orders;
}

std::vector<std::int64_t> numbers_of(const RowOrder& order) { return {order.head_size, order.rotated, order.kept}; }

std::vector<PackedPart> packed_parts(BaseWeights format, std::span<const std::int64_t> rows, std::int64_t columns,
                                     std::span<const RowOrder> orders) {
  std::vector<PackedPart> parts;
  PackedPart next;
  for (const std::int64_t count : rows) {
    next.matrix = {format, count, columns, orders.empty() ? RowOrder{} : orders[parts.size()]};
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
  if (format == BaseWeights::as_is || format == BaseWeights::fp8 || !is_matrix || columns < 1)
    throw Error("a packed weight is in nf4 or int8 and has rows and columns", ErrorKind::usage);
  for (const std::int64_t count : rows) checked_product({count, columns, 2}, "the number of bytes of a packed weight");
  return packed_parts(format, rows, columns, row_orders(attributes, rows));
}

std::int64_t packed_bytes(std::span<const PackedPart> parts) {
  return parts.empty() ? 0 : parts.back().first_byte + parts.back().matrix.bytes();
}

}  // namespace ridgepoint
