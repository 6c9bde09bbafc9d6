// A table of typed cells and its five forms: aligned text, Markdown, CSV, JSON and JSON Lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/output.h"

namespace ridgepoint::cli {

struct DataTable {
  // Numbers of tables for people follow `number_format`; files have all digits.
  struct Column {
    std::string key;      // in CSV and JSON
    std::string heading;  // in tables
    std::string number_format = "{}";
  };
  using Cell = std::variant<std::monostate, std::string, std::int64_t, double>;  // empty: nothing to say

  std::string caption;  // above tables for people
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note;  // below them
};

// Ready to be a file.
std::string render(Format format, const DataTable& table);
// By --format and --output. Throws Error when the file cannot be written.
void write(const OutputOptions& options, const DataTable& table);

}  // namespace ridgepoint::cli
