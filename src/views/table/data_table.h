// A table of typed cells and its five forms: aligned text, Markdown, CSV, JSON and JSON Lines.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "views/table/format.h"

namespace ridgepoint::cli {

struct DataTable {
  // Numbers of tables for people follow `number_format`; files have all digits.
  struct Column {
    std::string key;      // in CSV and JSON
    std::string heading;  // in tables
    std::string number_format = "{}";
    bool is_right = false;  // text stands to the right in tables, as numbers do
    int rank = 0;           // of what does not fit a terminal the highest goes first; 0 stays
  };
  using Cell = std::variant<std::monostate, std::string, std::int64_t, double>;  // empty: nothing to say

  std::string caption;  // above tables for people
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note;  // below them
  // The first columns say what a row is: they stand again where a table continues below.
  std::size_t key_columns = 1;
};

// Ready to be a file; a table in at most `width` columns where leaving some out gives that.
std::string render(Format format, const DataTable& table, std::size_t width = SIZE_MAX);
// Tables for people stand one below the other; files take the columns of the first, which all have.
std::string render(Format format, std::span<const DataTable> tables, std::size_t width = SIZE_MAX);

}  // namespace ridgepoint::cli
