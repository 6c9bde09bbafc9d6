#include "views/table/fitted_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace ridgepoint::cli {
namespace {

constexpr std::size_t kGapColumns = 2;  // as TextTable sets them apart
constexpr std::string_view kDots = "...";
constexpr std::size_t kLeastWrappedColumns = 12;

std::size_t total(const std::vector<std::size_t>& columns, const std::vector<std::size_t>& widths) {
  std::size_t sum = columns.empty() ? 0 : kGapColumns * (columns.size() - 1);
  for (const std::size_t column : columns) sum += widths[column];
  return sum;
}

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

std::string left_out_note(std::span<const std::string> left_out, std::size_t width, std::string_view shown_by) {
  if (left_out.empty()) return "";
  std::vector<std::string> once;
  for (const std::string& heading : left_out) {
    if (std::ranges::find(once, heading) == once.end()) once.push_back(heading);
  }
  return wrap(fmt::format("Too narrow for {}; {} shows everything.", fmt::join(once, ", "), shown_by), width) + '\n';
}

void FittedTable::add_column(std::string heading, Align align, int rank) {
  columns_.push_back({std::move(heading), align, rank});
}

FittedTable::Widths FittedTable::natural_widths() const {
  Widths widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.heading));
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) widths[i] = std::max(widths[i], display_width(row.cells[i]));
  }
  if (least_last_columns_ > 0) widths.back() = std::min(widths.back(), least_last_columns_);
  return widths;
}

FittedTable::Indices FittedTable::fitting_columns(std::size_t width) const {
  const Widths widths = natural_widths();
  Indices kept(columns_.size());
  std::iota(kept.begin(), kept.end(), 0);
  const auto rank_of = [&](std::size_t column) { return columns_[column].rank; };
  while (total(kept, widths) > width) {
    const int highest = rank_of(*std::ranges::max_element(kept, {}, rank_of));
    if (highest == 0) break;
    std::erase_if(kept, [&](std::size_t column) { return rank_of(column) == highest; });
  }
  return kept;
}

// Takes columns of text from the widest down. False where that does not suffice.
bool FittedTable::wrap_columns(const Indices& columns, std::size_t width, Widths& widths) const {
  while (total(columns, widths) > width) {
    std::optional<std::size_t> widest;
    for (const std::size_t column : columns) {
      if (columns_[column].align != Align::left || is_cut(column) || widths[column] <= kLeastWrappedColumns) continue;
      if (!widest || widths[column] > widths[*widest]) widest = column;
    }
    if (!widest) return false;
    --widths[*widest];
  }
  return true;
}

std::string FittedTable::cell_text(const std::string& cell, std::size_t column, const Widths& widths) const {
  if (is_cut(column)) return cut_text(cell, widths[column]);
  return columns_[column].align == Align::left ? wrap_cell(cell, widths[column]) : cell;
}

TextTable FittedTable::table_of(const Indices& columns, const Widths& widths, RowNumbers numbers,
                                bool with_remarks) const {
  TextTable table;
  if (numbers == RowNumbers::shown) table.add_column("row", Align::right);
  for (const std::size_t column : columns) {
    table.add_column(cell_text(columns_[column].heading, column, widths), columns_[column].align);
  }
  for (std::size_t number = 1; const Row& row : rows_) {
    std::vector<std::string> cells;
    if (numbers == RowNumbers::shown) cells.push_back(fmt::format("{}", number));
    ++number;
    for (const std::size_t column : columns) {
      if (column < row.cells.size()) cells.push_back(cell_text(row.cells[column], column, widths));
    }
    if (row.remark.empty()) {
      table.add_row(std::move(cells));
    } else if (with_remarks) {
      table.add_remark(std::move(cells), row.remark);
    }
  }
  return table;
}

// Tables below one another, each with the columns that say what a row is, or with its number where those take too much
// room.
std::string FittedTable::continued_text(const Indices& columns, std::size_t width) const {
  Widths widths = natural_widths();
  Indices keys;
  for (const std::size_t column : columns) {
    if (column < keys_) keys.push_back(column);
  }
  std::size_t widest = 0;
  for (std::size_t i = keys.size(); i < columns.size(); ++i) widest = std::max(widest, widths[columns[i]]);
  const bool repeats = !keys.empty() && total(keys, widths) + kGapColumns + std::min(widest, width / 3) <= width;
  if (!repeats) keys.clear();
  const std::string last_number = fmt::format("{}", rows_.size());
  const std::size_t first_width = repeats ? total(keys, widths) : std::max<std::size_t>(last_number.size(), 3);
  const std::size_t room = width > first_width + kGapColumns ? width - first_width - kGapColumns : 1;
  for (std::size_t i = keys.size(); i < columns.size(); ++i) {
    if (columns_[columns[i]].align == Align::left) widths[columns[i]] = std::min(widths[columns[i]], room);
  }
  std::string text;
  for (std::size_t next = keys.size(); next < columns.size();) {
    Indices shown = keys;
    std::size_t used = 0;
    while (next < columns.size() && (used == 0 || used + kGapColumns + widths[columns[next]] <= room)) {
      used += (used == 0 ? 0 : kGapColumns) + widths[columns[next]];
      shown.push_back(columns[next++]);
    }
    const bool is_first = text.empty();
    text += (is_first ? "" : "\n") +
            table_of(shown, widths, repeats ? RowNumbers::none : RowNumbers::shown, is_first).text(width);
  }
  return text;
}

std::string FittedTable::text(std::size_t width, std::vector<std::string>& left_out) const {
  const Indices kept = fitting_columns(width);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (std::ranges::find(kept, i) == kept.end()) left_out.push_back(columns_[i].heading);
  }
  Widths widths = natural_widths();
  if (!wrap_columns(kept, width, widths)) return continued_text(kept, width);
  if (is_cut(kept.back())) widths.back() += width - std::min(width, total(kept, widths));
  return table_of(kept, widths, RowNumbers::none, true).text(width);
}

std::string FittedTable::markdown() const {
  Indices all(columns_.size());
  std::iota(all.begin(), all.end(), 0);
  return table_of(all, Widths(columns_.size(), SIZE_MAX), RowNumbers::none, true).markdown();
}

}  // namespace ridgepoint::cli
