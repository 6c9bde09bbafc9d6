#include "cli/fitted_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ridgepoint::cli {
namespace {

constexpr std::size_t kGapColumns = 2;  // as TextTable sets them apart
constexpr std::string_view kDots = "...";

}  // namespace

std::string cut_text(const std::string& text, std::size_t columns) {
  if (display_width(text) <= columns || columns <= kDots.size()) return text;
  std::string kept;
  std::size_t width = 0;
  for (const char c : text) {
    const bool begins_character = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (begins_character && ++width > columns - kDots.size()) break;
    kept += c;
  }
  return kept.append(kDots);
}

void FittedTable::add_column(std::string heading, Align align, int rank) {
  columns_.push_back({std::move(heading), align, rank});
}

std::size_t FittedTable::width_of(std::size_t column) const {
  std::size_t width = display_width(columns_[column].heading);
  for (const std::vector<std::string>& row : rows_) width = std::max(width, display_width(row[column]));
  const bool is_cut = least_last_columns_ > 0 && column + 1 == columns_.size();
  return is_cut ? std::min(width, least_last_columns_) : width;
}

std::vector<std::size_t> FittedTable::fitting_columns(std::size_t width) const {
  std::vector<std::size_t> kept(columns_.size());
  std::iota(kept.begin(), kept.end(), 0);
  const auto total = [&] {
    std::size_t sum = kGapColumns * (kept.size() - 1);
    for (const std::size_t column : kept) sum += width_of(column);
    return sum;
  };
  const auto rank_of = [&](std::size_t column) { return columns_[column].rank; };
  while (total() > width) {
    const int highest = rank_of(*std::ranges::max_element(kept, {}, rank_of));
    if (highest == 0) break;
    std::erase_if(kept, [&](std::size_t column) { return rank_of(column) == highest; });
  }
  return kept;
}

TextTable FittedTable::table_of(const std::vector<std::size_t>& columns, std::size_t last_width) const {
  TextTable table;
  for (const std::size_t column : columns) table.add_column(columns_[column].heading, columns_[column].align);
  for (const std::vector<std::string>& row : rows_) {
    std::vector<std::string> cells;
    for (const std::size_t column : columns) cells.push_back(row[column]);
    cells.back() = cut_text(cells.back(), last_width);
    table.add_row(std::move(cells));
  }
  return table;
}

std::string FittedTable::text(std::size_t width, std::vector<std::string>& left_out) const {
  const std::vector<std::size_t> kept = fitting_columns(width);
  std::size_t before_last = 0;
  for (std::size_t i = 0; i + 1 < kept.size(); ++i) before_last += width_of(kept[i]) + kGapColumns;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (std::ranges::find(kept, i) == kept.end()) left_out.push_back(columns_[i].heading);
  }
  const std::size_t room = width > before_last ? width - before_last : 0;
  const std::size_t last_width = least_last_columns_ > 0 ? std::max(room, least_last_columns_) : SIZE_MAX;
  return table_of(kept, last_width).text();
}

std::string FittedTable::markdown() const {
  std::vector<std::size_t> all(columns_.size());
  std::iota(all.begin(), all.end(), 0);
  return table_of(all, SIZE_MAX).markdown();
}

}  // namespace ridgepoint::cli
