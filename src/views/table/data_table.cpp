#include "views/table/data_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "views/table/fitted_table.h"
#include "views/table/text_table.h"

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
      Overloaded{
          [](std::monostate) { return std::string("-"); }, [](const std::string& text) { return printable(text); },
          [](std::int64_t number) { return fmt::format("{}", number); },
          [&](double number) { return std::isnan(number) ? "NaN" : fmt::format(fmt::runtime(number_format), number); }},
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
  return std::visit(
      Overloaded{[](std::monostate) { return std::string(); }, [](const std::string& text) { return csv_field(text); },
                 [](std::int64_t number) { return fmt::format("{}", number); },
                 [](double number) { return std::isfinite(number) ? fmt::format("{}", number) : std::string(); }},
      cell);
}

// Text that is not UTF-8 (the name of a module in a graph file, say) is replaced rather than refused.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

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
      text += dump(row_object(table, row)) + (lines ? "\n" : "");
    }
  }
  return lines ? text : "[" + text + "\n]\n";
}

FittedTable fitted(const DataTable& table) {
  FittedTable text;
  text.repeat_columns(table.key_columns);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const DataTable::Column& column = table.columns[i];
    const bool has_text = std::ranges::any_of(
        table.rows, [&](const std::vector<Cell>& row) { return std::holds_alternative<std::string>(row[i]); });
    const bool is_left = has_text && !column.is_right;
    text.add_column(column.heading, is_left ? TextTable::Align::left : TextTable::Align::right, column.rank);
  }
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(for_people(row[i], table.columns[i].number_format));
    text.add_row(std::move(cells));
  }
  return text;
}

std::string render_for_people(const DataTable& table, bool markdown, std::size_t width) {
  const std::size_t prose_width = markdown ? SIZE_MAX : std::min(width, kProseWidth);
  std::vector<std::string> left_out;
  std::string result = table.caption.empty() ? "" : wrap(table.caption, prose_width) + "\n\n";
  result += markdown ? fitted(table).markdown() : fitted(table).text(width, left_out);
  if (!table.note.empty()) result += "\n" + wrap(table.note, prose_width) + "\n";
  const std::string note = left_out_note(left_out, prose_width);
  return result + (note.empty() ? "" : "\n" + note);
}

}  // namespace

std::string render(Format format, const DataTable& table, std::size_t width) {
  return render(format, std::span(&table, 1), width);
}

std::string render(Format format, std::span<const DataTable> tables, std::size_t width) {
  if (tables.empty()) return format == Format::json ? "[\n]\n" : "";
  if (format == Format::csv) return render_csv(tables);
  if (!is_for_people(format)) return render_json(tables, format == Format::jsonl);
  std::string text;
  for (const DataTable& table : tables) {
    text += (text.empty() ? "" : "\n") + render_for_people(table, format == Format::markdown, width);
  }
  return text;
}

}  // namespace ridgepoint::cli
