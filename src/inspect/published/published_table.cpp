#include "inspect/published/published_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace ridgepoint::tables {
namespace {

// "4" if stated, "(4?)" if presumed, empty if neither.
std::string size_text(const PublishedRow& row, std::string_view field) {
  if (const auto stated = row.size(field)) return fmt::to_string(*stated);
  if (const auto presumed = row.size(fmt::format("{}_presumed", field))) return fmt::format("({}?)", *presumed);
  return "";
}

std::string text_of(const PublishedRow& row, std::string_view field) {
  if (const auto stated = row.text(field)) return *stated;
  if (const auto presumed = row.text(fmt::format("{}_presumed", field))) return fmt::format("({}?)", *presumed);
  return "";
}

std::string card_of(const PublishedRow& row) {
  if (!row.card) return row.card_basis.empty() ? "" : "not stated";
  return row.card_basis == "stated" ? *row.card : *row.card + " (stated elsewhere in the document)";
}

Cell figure_of(const PublishedRow& row, const PublishedFigure* figure, Format format) {
  if (figure != nullptr) return is_for_people(format) ? text_cell(figure->printed) : Cell(figure->value);
  if (row.status == "oom" && is_for_people(format)) return row.status;
  return Cell();
}

Cells cells(const PublishedLine& line, const PublishedFigure* figure, Format format) {
  const PublishedRow& row = *line.row;
  return {text_cell(line.beside),
          std::string(ridgepoint::name(row.kind)),
          text_cell(workload_of(row)),
          figure != nullptr ? text_cell(figure->quantity) : Cell(),
          figure_of(row, figure, format),
          figure != nullptr ? text_cell(figure->unit) : Cell(),
          row.status,
          row.study + ": " + row.table,
          text_cell(card_of(row)),
          text_cell(line.label),
          text_cell(row.note)};
}

void erase_column(Table& table, std::string_view key) {
  const auto column = std::ranges::find(table.columns, key, &Column::key);
  const auto index = column - table.columns.begin();
  table.columns.erase(column);
  for (Row& row : table.rows) row.cells.erase(row.cells.begin() + index);
}

}  // namespace

std::string workload_of(const PublishedRow& row) {
  std::vector<std::string> parts;
  for (const std::string_view field :
       {"model", "item", "claim", "component", "name", "range", "quantity", "accumulator_dtype", "addend_dtype"}) {
    if (const std::string text = text_of(row, field); !text.empty()) parts.push_back(text);
  }
  for (const std::string_view field : {"batch", "context", "sequence", "heads", "d"}) {
    if (const std::string text = size_text(row, field); !text.empty())
      parts.push_back(fmt::format("{} {}", field, text));
  }
  for (const std::string_view field : {"dtype", "mode"}) {
    if (const std::string text = text_of(row, field); !text.empty()) parts.push_back(text);
  }
  if (row.text("compile") == "torch_compile" || row.text("implementation") == "compiled") {
    parts.emplace_back("torch.compile");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Page published_page(std::span<const PublishedLine> lines, const std::vector<std::string>& quantities, Format format) {
  Page page;
  Table& table = page.tables.emplace_back();
  table.columns = {{"beside", "beside"},
                   {"kind", "kind", "{}", Align::by_content, 3},
                   {"workload", "workload"},
                   {"quantity", "quantity"},
                   {"figure", "figure", "{}", Align::right},
                   {"unit", "unit"},
                   {"status", "status"},
                   {"source", "source"},
                   {"device", "device", "{}", Align::by_content, 2},
                   {"label", "label", "{}", Align::by_content, 1},
                   {"note", "note", "{}", Align::by_content, 4}};
  table.note = "Figures are as printed in their sources. A value like (4?) is presumed: the source does not state it.";
  const auto is_wanted = [&](const PublishedFigure& figure) {
    return quantities.empty() || std::ranges::find(quantities, figure.quantity) != quantities.end();
  };
  for (const PublishedLine& line : lines) {
    const bool says_no_number = line.row->figures.empty() && quantities.empty();
    if (line.row->status == "oom" || says_no_number) table.add(cells(line, nullptr, format));
    for (const PublishedFigure& figure : line.row->figures) {
      if (is_wanted(figure)) table.add(cells(line, &figure, format));
    }
  }
  const bool has_runs = std::ranges::any_of(lines, [](const PublishedLine& line) { return !line.beside.empty(); });
  if (!has_runs) erase_column(table, "beside");
  if (is_for_people(format)) erase_column(table, "status");
  return page;
}

}  // namespace ridgepoint::tables
