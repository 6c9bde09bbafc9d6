#include "cli/data_table.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"

namespace ridgepoint::cli {
namespace {

using Json = nlohmann::ordered_json;
using Cell = DataTable::Cell;

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::string for_people(const Cell& cell, const std::string& number_format) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("-"); }, [](const std::string& text) { return text; },
                 [](std::int64_t number) { return fmt::format("{}", number); },
                 [&](double number) { return fmt::format(fmt::runtime(number_format), number); }},
      cell);
}

// Not finite becomes null, as in records.
Json as_json(const Cell& cell) {
  return std::visit(
      Overloaded{[](std::monostate) { return Json(); }, [](const std::string& text) { return Json(text); },
                 [](std::int64_t number) { return Json(number); },
                 [](double number) { return std::isfinite(number) ? Json(number) : Json(); }},
      cell);
}

std::string as_csv(const Cell& cell) {
  std::string text = for_people(cell, "{}");
  if (std::holds_alternative<std::monostate>(cell)) return "";
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

Json row_object(const DataTable& table, const std::vector<Cell>& row) {
  Json object = Json::object();
  for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i].key] = as_json(row[i]);
  return object;
}

std::string render_csv(std::span<const DataTable> tables) {
  std::string text;
  const std::vector<DataTable::Column>& columns = tables.front().columns;
  for (std::size_t i = 0; i < columns.size(); ++i) text += (i == 0 ? "" : ",") + columns[i].key;
  text += '\n';
  for (const DataTable& table : tables) {
    for (const std::vector<Cell>& row : table.rows) {
      for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + as_csv(row[i]);
      text += '\n';
    }
  }
  return text;
}

std::string render_json(std::span<const DataTable> tables, bool lines) {
  std::string text;
  for (const DataTable& table : tables) {
    for (const std::vector<Cell>& row : table.rows) {
      if (!lines) text += text.empty() ? "\n" : ",\n";
      text += row_object(table, row).dump() + (lines ? "\n" : "");
    }
  }
  return lines ? text : "[" + text + "\n]\n";
}

std::string render_for_people(const DataTable& table, bool markdown) {
  TextTable text;
  for (const DataTable::Column& column : table.columns) {
    bool has_text = false;
    const auto index = static_cast<std::size_t>(&column - table.columns.data());
    for (const std::vector<Cell>& row : table.rows)
      has_text = has_text || std::holds_alternative<std::string>(row[index]);
    text.add_column(column.heading, has_text && !column.is_right ? TextTable::Align::left : TextTable::Align::right);
  }
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(for_people(row[i], table.columns[i].number_format));
    text.add_row(std::move(cells));
  }
  std::string result = table.caption.empty() ? "" : table.caption + "\n\n";
  result += markdown ? text.markdown() : text.text();
  return table.note.empty() ? result : result + "\n" + table.note + "\n";
}

}  // namespace

std::string render(Format format, const DataTable& table) { return render(format, std::span(&table, 1)); }

std::string render(Format format, std::span<const DataTable> tables) {
  if (tables.empty()) return format == Format::json ? "[\n]\n" : "";
  if (format == Format::csv) return render_csv(tables);
  if (!is_for_people(format)) return render_json(tables, format == Format::jsonl);
  std::string text;
  for (const DataTable& table : tables) {
    text += (text.empty() ? "" : "\n") + render_for_people(table, format == Format::markdown);
  }
  return text;
}

void write(const OutputOptions& options, const DataTable& table) {
  TablesWriter(options, [&](Format) { return std::vector{table}; }).finish();
}

TablesWriter::TablesWriter(const OutputOptions& options, const MakeTables& tables)
    : writer_(options, {[tables](Format format, std::size_t) { return render(format, tables(format)); },
                        [tables](Format format) { return render(format, tables(format)); }}) {}

void TablesWriter::table_changed() {
  if (!writer_.path().empty()) writer_.row_added();
}

void TablesWriter::finish() {
  writer_.row_added();
  writer_.finish();
}

}  // namespace ridgepoint::cli
