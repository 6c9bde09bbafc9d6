#include "tables/table/render.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/text/text.h"
#include "tables/table/layout.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

constexpr std::size_t kProseWidth = 100;  // the maximum for captions and notes

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::string for_people(const Cell& cell, const std::string& number_format) {
  return std::visit(Overloaded{[](std::monostate) { return std::string("-"); },
                               [](const std::string& text) { return printable(text); },
                               [&](double number) {
                                 if (std::isnan(number)) return std::string("NaN");
                                 if (number_format == kPercent) return fmt::format("{:.1f}%", number * 100);
                                 return fmt::format(fmt::runtime(number_format), number);
                               },
                               [](auto value) { return fmt::format("{}", value); }},
                    cell);
}

std::string as_csv(const Cell& cell) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string(); }, [](const std::string& text) { return csv_field(text); },
                 [](double number) { return std::isfinite(number) ? fmt::format("{}", number) : std::string(); },
                 [](auto value) { return fmt::format("{}", value); }},
      cell);
}

std::string csv_rows(const Page& page) {
  std::string text;
  for (const Table& table : page.tables) {
    for (const Row& row : table.rows) {
      for (std::size_t i = 0; i < row.cells.size(); ++i) text += (i == 0 ? "" : ",") + as_csv(row.cells[i]);
      text += '\n';
    }
  }
  return text;
}

std::string csv(const Page& page) {
  if (page.tables.empty()) return "";
  std::string heading;
  for (const Column& column : page.tables.front().columns)
    heading += (heading.empty() ? "" : ",") + csv_field(column.key);
  return heading + '\n' + csv_rows(page);
}

std::vector<std::string> json_lines(const Page& page) {
  if (!page.documents.empty()) return page.documents;
  std::vector<std::string> lines;
  for (const Table& table : page.tables) {
    for (const Json& row : to_json(table)) lines.push_back(dump_json(row));
  }
  return lines;
}

TextTable as_text(const Table& table) {
  TextTable text{{}, {}, table.key_columns, table.least_last_columns};
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    const bool has_text = std::ranges::any_of(table.rows, [&](const Row& row) {
      return i < row.cells.size() && std::holds_alternative<std::string>(row.cells[i]);
    });
    const bool is_right = column.align == Align::right || (column.align == Align::by_content && !has_text);
    text.columns.push_back({printable(column.heading), is_right, column.rank});
  }
  for (const Row& row : table.rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      cells.push_back(for_people(row.cells[i], table.columns[i].number_format));
    text.rows.push_back({std::move(cells), row.remark});
  }
  return text;
}

std::string left_out_note(const std::vector<std::string>& left_out, const std::string& shown_by) {
  std::vector<std::string> once;
  for (const std::string& heading : left_out) {
    if (std::ranges::find(once, heading) == once.end()) once.push_back(heading);
  }
  return fmt::format("Omitted for lack of width: {}. {} shows all columns.", fmt::join(once, ", "), shown_by);
}

std::string terminal(const Page& page, std::size_t width) {
  const std::size_t prose_width = std::min(width, kProseWidth);
  const auto prose = [&](const std::string& words) { return wrap(words, prose_width) + '\n'; };
  std::string text;
  std::vector<std::string> left_out;
  for (const Table& table : page.tables) {
    if (!text.empty()) text += '\n';
    if (!table.caption.empty()) text += prose(table.caption) + (table.columns.empty() ? "" : "\n");
    if (!table.title.empty()) text += prose(table.title);
    if (!table.columns.empty()) text += lay_out(as_text(table), width, left_out);
    if (!table.remark.empty()) text += prose(table.remark);
    if (!table.note.empty()) text += '\n' + prose(table.note);
  }
  return left_out.empty() ? text : text + '\n' + prose(left_out_note(left_out, page.shown_by));
}

std::string markdown_line(std::vector<std::string> cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + markdown_cell(cell) + " |";
  return line + '\n';
}

// Remarks go into the last column, or into an extra column if a row with a remark fills all columns.
std::string markdown_table(const TextTable& table) {
  const bool needs_column =
      std::ranges::any_of(table.rows, [](const TextTable::Row& row) { return !row.remark.empty(); }) &&
      std::ranges::any_of(table.rows,
                          [&](const TextTable::Row& row) { return row.cells.size() == table.columns.size(); });
  std::vector<std::string> headings;
  std::string rule = "|";
  for (const TextTable::Column& column : table.columns) {
    headings.push_back(column.heading);
    rule += column.is_right ? "---:|" : "---|";
  }
  if (needs_column) {
    headings.emplace_back("remark");
    rule += "---|";
  }
  std::string text = markdown_line(headings) + rule + '\n';
  for (const TextTable::Row& row : table.rows) {
    std::vector<std::string> cells = row.cells;
    cells.resize(headings.size());
    if (!row.remark.empty()) cells.back() = row.remark;
    text += markdown_line(std::move(cells));
  }
  return text;
}

// Markdown joins consecutive lines, so each becomes a paragraph.
std::string paragraphs(const std::string& words) {
  std::string text;
  for (const std::string_view line : lines_of(words)) {
    if (!line.empty()) text += (text.empty() ? "" : "\n") + wrap(line, SIZE_MAX) + '\n';
  }
  return text;
}

std::string markdown(const Page& page) {
  std::string text;
  for (const Table& table : page.tables) {
    if (!text.empty()) text += '\n';
    if (!table.caption.empty()) text += paragraphs(markdown_text(table.caption)) + (table.columns.empty() ? "" : "\n");
    if (!table.title.empty()) text += fmt::format("### {}\n\n", markdown_text(table.title));
    if (!table.columns.empty()) text += markdown_table(as_text(table));
    for (const std::string& words : {table.remark, table.note}) {
      if (!words.empty()) text += '\n' + markdown_text(words) + '\n';
    }
  }
  return text;
}

}  // namespace

Json to_json(const Cell& cell) {
  return std::visit(Overloaded{[](std::monostate) { return Json(); }, [](double number) { return json_number(number); },
                               [](const auto& value) { return Json(value); }},
                    cell);
}

Json to_json(const Table& table) {
  Json rows = Json::array();
  for (const Row& row : table.rows) {
    Json& object = rows.emplace_back(Json::object());
    for (std::size_t i = 0; i < row.cells.size(); ++i) object[table.columns[i].key] = to_json(row.cells[i]);
  }
  return rows;
}

std::string render(Format format, const Page& page, std::size_t width) {
  switch (format) {
    case Format::table: return printable_lines(terminal(page, width));
    case Format::markdown: return printable_lines(markdown(page));
    case Format::csv: return csv(page);
    case Format::json: {
      const std::vector<std::string> lines = json_lines(page);
      return fmt::format("[{}{}\n]\n", lines.empty() ? "" : "\n", fmt::join(lines, ",\n"));
    }
    case Format::jsonl: return render_continued(format, page);
  }
  return "";
}

std::string render_continued(Format format, const Page& page) {
  if (format == Format::csv) return csv_rows(page);
  std::string text;
  for (const std::string& line : json_lines(page)) text += line + '\n';
  return text;
}

}  // namespace ridgepoint::tables
