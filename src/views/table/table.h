// What is shown, as data: tables of typed cells, and pages of them. Everything that views say of records, profiles and
// devices is one of these; render.h prints any of them in five forms.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ridgepoint::views {

using Cell = std::variant<std::monostate, std::string, std::int64_t, double, bool>;  // empty: nothing to say
using Cells = std::vector<Cell>;

enum class Align : std::uint8_t { by_content, left, right };  // by_content: text to the left, numbers to the right

// Numbers of tables for people follow `number_format`; files have all digits.
struct Column {
  std::string key;      // in CSV and JSON
  std::string heading;  // in tables
  std::string number_format = "{}";
  Align align = Align::by_content;
  int rank = 0;  // of what does not fit a terminal the highest goes first, together; 0 stays
};

// Of tables that only people read.
inline Column left(std::string heading, int rank = 0) { return {heading, heading, "{}", Align::left, rank}; }
inline Column right(std::string heading, int rank = 0) { return {heading, heading, "{}", Align::right, rank}; }

struct Row {
  Cells cells;         // with a remark the first of them; it stands across the rest
  std::string remark;  // of tables for people
};

struct Table {
  std::string caption;  // above it; a blank that does not separate (U+00A0) keeps words on one line
  std::string title;    // between caption and headings
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string remark;  // right below the rows
  std::string note;    // below that, apart
  // The first columns say what a row is: they stand again where a table continues below.
  std::size_t key_columns = 1;
  // The last column's cells are cut to what is left of the width, though not below this; 0: they are not cut.
  std::size_t least_last_columns = 0;

  void add(Cells cells) { rows.push_back({std::move(cells), ""}); }
  void add(Cells cells, std::string row_remark) { rows.push_back({std::move(cells), std::move(row_remark)}); }
};

// For people the tables stand one below the other. CSV has the columns of the first, which all have then; JSON has
// the documents, one a line, where there are any, and otherwise the rows.
struct Page {
  std::vector<Table> tables = {};
  std::vector<std::string> documents = {};
  std::string shown_by = "--format csv or a wider terminal";  // where else the columns are that have no room
};

}  // namespace ridgepoint::views
