// A table that leaves out its least telling columns where it would be wider than the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/text_table.h"

namespace ridgepoint::cli {

class FittedTable {
 public:
  using Align = TextTable::Align;

  // Where not all fit, the columns of the highest rank go first, together; those of rank 0 stay.
  void add_column(std::string heading, Align align, int rank = 0);
  // The last column's cells are cut to what is left of the width, though not below this.
  void cut_last_column(std::size_t least_columns) { least_last_columns_ = least_columns; }
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Headings of the columns left out are appended to `left_out`.
  std::string text(std::size_t width, std::vector<std::string>& left_out) const;
  std::string markdown() const;

 private:
  struct Column {
    std::string heading;
    Align align;
    int rank;
  };
  std::vector<std::size_t> fitting_columns(std::size_t width) const;
  std::size_t width_of(std::size_t column) const;
  TextTable table_of(const std::vector<std::size_t>& columns, std::size_t last_width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::size_t least_last_columns_ = 0;  // 0: not cut
};

// At most `columns` wide; what is cut off is replaced by three dots.
std::string cut_text(const std::string& text, std::size_t columns);

}  // namespace ridgepoint::cli
