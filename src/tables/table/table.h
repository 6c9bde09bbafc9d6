// Tables of typed cells, and pages of tables. All views of records, profiles and devices are pages; render.h prints a
// page in five formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/types/enum_names.h"

namespace ridgepoint::tables {

using Cell = std::variant<std::monostate, std::string, std::int64_t, double, bool>;  // monostate: no value
using Cells = std::vector<Cell>;

inline Cell text_cell(const std::string& text) { return text.empty() ? Cell() : Cell(text); }
template <typename T>
Cell optional_cell(const std::optional<T>& value) {
  return value ? Cell(*value) : Cell();
}

enum class Align : std::uint8_t { by_content, left, right };  // by_content: text left, numbers right

constexpr const char* kPercent = "percent";  // a format for shares: 0.05 is 5.0%

// `number_format` (of {fmt}, or kPercent) applies to table and markdown; CSV and JSON have all digits.
struct Column {
  std::string key;      // in CSV and JSON
  std::string heading;  // in tables
  std::string number_format = "{}";
  Align align = Align::by_content;
  int rank = 0;  // a narrow terminal omits the columns of the highest rank first; rank 0 is never omitted
};

// Columns of tables that are never written to CSV or JSON.
inline Column left(std::string heading, int rank = 0) { return {heading, heading, "{}", Align::left, rank}; }
inline Column right(std::string heading, int rank = 0) { return {heading, heading, "{}", Align::right, rank}; }

struct Row {
  Cells cells;         // with a remark: the first cells only, the remark fills the other columns
  std::string remark;  // shown in table and markdown
};

struct Table {
  std::string caption;  // above the table; a no-break space (U+00A0) keeps words on one line
  std::string title;    // between caption and headings
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string remark;  // directly below the rows
  std::string note;    // below the remark, after an empty line
  // The first columns identify a row; they are repeated where a wide table continues below.
  std::size_t key_columns = 1;
  // The cells of the last column are shortened to fit the terminal, to this width at least; 0: they are never
  // shortened.
  std::size_t least_last_columns = 0;

  void add(Cells cells) { rows.push_back({std::move(cells), ""}); }
  void add(Cells cells, std::string row_remark) { rows.push_back({std::move(cells), std::move(row_remark)}); }
};

// In CSV all tables of a page must have the same columns. JSON has the documents, one a line, or if there are none, the
// rows of the tables.
struct Page {
  std::vector<Table> tables = {};
  std::vector<std::string> documents = {};
  std::string shown_by = "A wider terminal or --format csv";  // how to see omitted columns
};

enum class Format : std::uint8_t { table, markdown, csv, json, jsonl };
inline constexpr auto kFormatNames = enum_names<Format>("table", "markdown", "csv", "json", "jsonl");

constexpr std::string_view name(Format format) { return kFormatNames[format]; }
constexpr bool is_for_people(Format format) { return format == Format::table || format == Format::markdown; }

}  // namespace ridgepoint::tables
