// Fits a table to the terminal: columns of high rank are omitted, those of one rank together, long names shortened and
// long texts wrapped; columns that still do not fit continue below.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ridgepoint::tables {

// A table whose cells are text, of one line or several.
struct TextTable {
  struct Column {
    std::string heading;
    bool is_right = false;
    int rank = 0;
  };
  struct Row {
    std::vector<std::string> cells;
    std::string remark;
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::size_t key_columns = 1;
  std::size_t least_last_columns = 0;
};

// Lines are at most `width` long (except for very small widths) and do not end in a blank. A remark never widens a
// column. Appends the headings of omitted columns to `left_out`.
std::string lay_out(const TextTable& table, std::size_t width, std::vector<std::string>& left_out);

}  // namespace ridgepoint::tables
