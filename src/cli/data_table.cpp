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

std::string render_csv(const DataTable& table) {
  std::string text;
  for (std::size_t i = 0; i < table.columns.size(); ++i) text += (i == 0 ? "" : ",") + table.columns[i].key;
  text += '\n';
  for (const std::vector<Cell>& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + as_csv(row[i]);
    text += '\n';
  }
  return text;
}

std::string render_json(const DataTable& table, bool lines) {
  std::string text = lines ? "" : "[";
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (!lines) text += i == 0 ? "\n" : ",\n";
    text += row_object(table, table.rows[i]).dump() + (lines ? "\n" : "");
  }
  return lines ? text : text + "\n]\n";
}

std::string render_for_people(const DataTable& table, bool markdown) {
  TextTable text;
  for (const DataTable::Column& column : table.columns) {
    bool has_text = false;
    const auto index = static_cast<std::size_t>(&column - table.columns.data());
    for (const std::vector<Cell>& row : table.rows)
      has_text = has_text || std::holds_alternative<std::string>(row[index]);
    text.add_column(column.heading, has_text ? TextTable::Align::left : TextTable::Align::right);
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

std::string render(Format format, const DataTable& table) {
  switch (format) {
    case Format::table:
    case Format::markdown:
      return render_for_people(table, format == Format::markdown);
    case Format::csv:
      return render_csv(table);
    case Format::json:
    case Format::jsonl:
      return render_json(table, format == Format::jsonl);
  }
  return "";
}

void write(const OutputOptions& options, const DataTable& table) {
  const auto everything = [&](Format format, std::size_t) { return render(format, table); };
  RowWriter writer(options, {everything, [&](Format format) { return render(format, table); }});
  writer.row_added();
  writer.finish();
}

}  // namespace ridgepoint::cli
