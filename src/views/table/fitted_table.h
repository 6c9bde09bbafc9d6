// A table that fits the terminal: columns that tell little are left out, long names are cut, long texts wrapped, and
// what still has no room continues below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "views/table/text_table.h"

namespace ridgepoint::cli {

class FittedTable {
 public:
  using Align = TextTable::Align;

  // Where not all fit, the columns of the highest rank go first, together; those of rank 0 stay.
  void add_column(std::string heading, Align align, int rank = 0);
  // The last column's cells are cut to what is left of the width, though not below this.
  void cut_last_column(std::size_t least_columns) { least_last_columns_ = least_columns; }
  // The first `count` columns say what a row is, and stand again where the table continues below. One unless told.
  void repeat_columns(std::size_t count) { keys_ = count; }
  void add_row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), ""}); }
  // A row whose first cells are given and whose rest is one remark.
  void add_remark(std::vector<std::string> cells, std::string remark) {
    rows_.push_back({std::move(cells), std::move(remark)});
  }
  bool empty() const { return rows_.empty(); }

  // No line is longer than `width`, unless that is next to nothing. Headings of the columns left out are appended to
  // `left_out`.
  std::string text(std::size_t width, std::vector<std::string>& left_out) const;
  std::string markdown() const;

 private:
  struct Column {
    std::string heading;
    Align align;
    int rank;
  };
  struct Row {
    std::vector<std::string> cells;
    std::string remark;
  };
  using Indices = std::vector<std::size_t>;
  using Widths = std::vector<std::size_t>;  // by column, of which cells take no more

  Indices fitting_columns(std::size_t width) const;
  Widths natural_widths() const;
  bool wrap_columns(const Indices& columns, std::size_t width, Widths& widths) const;
  bool is_cut(std::size_t column) const { return least_last_columns_ > 0 && column + 1 == columns_.size(); }
  std::string cell_text(const std::string& cell, std::size_t column, const Widths& widths) const;
  enum class RowNumbers : std::uint8_t { none, shown };
  TextTable table_of(const Indices& columns, const Widths& widths, RowNumbers numbers, bool with_remarks) const;
  std::string continued_text(const Indices& columns, std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  std::size_t keys_ = 1;
  std::size_t least_last_columns_ = 0;  // 0: not cut
};

// At most `columns` wide; what is cut off is replaced by three dots.
std::string cut_text(const std::string& text, std::size_t columns);

// "Too narrow for cv, max; --format csv or a wider terminal shows everything.", wrapped, with its newline; empty where
// nothing was left out.
std::string left_out_note(std::span<const std::string> left_out, std::size_t width,
                          std::string_view shown_by = "--format csv or a wider terminal");

}  // namespace ridgepoint::cli
