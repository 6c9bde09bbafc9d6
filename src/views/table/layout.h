// A table that fits the terminal: columns that tell little are left out, long names are cut, long texts wrapped, and
// what still has no room continues below.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ridgepoint::views {

// A table whose cells are text. A cell of several lines makes a row of as many.
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

// No line is longer than `width`, unless that is next to nothing, nor ends in a blank; a remark never widens a column.
// Headings of the columns left out are appended to `left_out`.
std::string lay_out(const TextTable& table, std::size_t width, std::vector<std::string>& left_out);

}  // namespace ridgepoint::views
