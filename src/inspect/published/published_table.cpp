#include "inspect/published/published_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/text/units.h"
#include "inspect/published/compare.h"
#include "record/columns.h"

namespace ridgepoint::tables {
namespace {

constexpr const char* kNotStated = "not stated";

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
  if (!row.card) return row.card_basis.empty() ? "" : kNotStated;
  return row.card_basis == "stated" ? *row.card : *row.card + " (stated elsewhere in the document)";
}

using Quantities = std::vector<std::string>;

bool is_wanted(const Quantities& quantities, const PublishedFigure& figure) {
  return quantities.empty() || std::ranges::find(quantities, figure.quantity) != quantities.end();
}

// The figures of a row that are wanted; one null for a row that is shown without.
std::vector<const PublishedFigure*> figures_of(const PublishedRow& row, const Quantities& quantities) {
  std::vector<const PublishedFigure*> figures;
  const bool says_no_number = row.figures.empty() && quantities.empty();
  if (row.status == "oom" || says_no_number) figures.push_back(nullptr);
  for (const PublishedFigure& figure : row.figures) {
    if (is_wanted(quantities, figure)) figures.push_back(&figure);
  }
  return figures;
}

// NaN where the run has none.
double own_of(const PublishedLine& line, const PublishedFigure* figure) {
  if (line.run == nullptr || figure == nullptr) return std::nan("");
  return own_figure(*line.run, figure->quantity).value_or(std::nan(""));
}

// " ~ throttled": of a time whose samples are in doubt.
std::string doubt_of(const Record& run, const PublishedFigure& figure) {
  const bool is_time = figure.unit == "ms" || figure.unit == "s" || figure.unit == "tokens/s";
  const std::string mark = timing_mark(run);
  return is_time && mark.starts_with('~') ? " " + mark : "";
}

std::string source_of(const PublishedRow& row) { return row.study + ": " + row.table; }

// A row for each figure.
Table table_for_files(std::span<const PublishedLine> lines, const Quantities& quantities, bool has_runs) {
  Table table;
  for (const char* key : {"beside", "kind", "workload", "quantity", "figure", "unit", "here", "ratio", "status",
                          "source", "device", "label", "note"}) {
    const bool is_of_runs =
        key == std::string_view("beside") || key == std::string_view("here") || key == std::string_view("ratio");
    if (has_runs || !is_of_runs) table.columns.push_back({key, key});
  }
  for (const PublishedLine& line : lines) {
    const PublishedRow& row = *line.row;
    for (const PublishedFigure* figure : figures_of(row, quantities)) {
      const double own = own_of(line, figure);
      const double ratio = figure == nullptr ? own : own / figure->value;
      Cells cells;
      if (has_runs) cells.push_back(text_cell(line.beside));
      cells.insert(cells.end(), {std::string(ridgepoint::name(row.kind)), text_cell(workload_of(row, Format::csv)),
                                 figure != nullptr ? text_cell(figure->quantity) : Cell(),
                                 figure != nullptr ? Cell(figure->value) : Cell(),
                                 figure != nullptr ? text_cell(figure->unit) : Cell()});
      if (has_runs) {
        cells.push_back(std::isfinite(own) ? Cell(own) : Cell());
        cells.push_back(std::isfinite(ratio) ? Cell(ratio) : Cell());
      }
      cells.insert(cells.end(),
                   {row.status, source_of(row), text_cell(card_of(row)), text_cell(line.label), text_cell(row.note)});
      table.add(std::move(cells));
    }
  }
  return table;
}

// The figures beside one run.
Table table_beside(std::span<const PublishedLine> lines, const Quantities& quantities) {
  Table table;
  table.caption = lines.front().beside;
  table.columns = {left("source"), left("quantity"),  right("figure"),  right("here"),
                   right("ratio"), left("device", 2), left("label", 1), left("note", 3)};
  for (const PublishedLine& line : lines) {
    const PublishedRow& row = *line.row;
    for (const PublishedFigure* figure : figures_of(row, quantities)) {
      const double own = own_of(line, figure);
      const double ratio = figure == nullptr ? own : own / figure->value;
      table.add({source_of(row), figure != nullptr ? text_cell(figure->quantity) : Cell(),
                 figure != nullptr ? figure->printed : row.status,
                 std::isfinite(own) ? Cell(format_ms(own) + doubt_of(*line.run, *figure)) : Cell(),
                 std::isfinite(ratio) ? Cell(fmt::format("{:.2f}x", ratio)) : Cell(), text_cell(card_of(row)),
                 text_cell(line.label), text_cell(row.note)});
    }
  }
  return table;
}

// A row for each row of a table of a source. Quantities are columns where most rows have most of them, and otherwise
// stand in one.
Table table_of_source(std::span<const PublishedLine> lines, const Quantities& quantities) {
  Quantities columns;
  std::size_t figures = 0;
  for (const PublishedLine& line : lines) {
    for (const PublishedFigure& figure : line.row->figures) {
      if (!is_wanted(quantities, figure)) continue;
      ++figures;
      if (std::ranges::find(columns, figure.quantity) == columns.end()) columns.push_back(figure.quantity);
    }
  }
  const auto shared = [&](auto text) {
    const std::string first = text(lines.front());
    return std::ranges::all_of(lines, [&](const PublishedLine& line) { return text(line) == first; });
  };
  const auto device = [](const PublishedLine& line) { return card_of(*line.row); };
  const auto label = [](const PublishedLine& line) { return line.label; };
  const bool is_pivoted = 3 * figures >= 2 * columns.size() * lines.size();
  Table table;
  std::vector<std::string> captions = {source_of(*lines.front().row)};
  if (const std::string card = device(lines.front()); shared(device) && !card.empty())
    captions.push_back(card == kNotStated ? fmt::format("card {}", card) : card);
  if (const std::string of_all = label(lines.front()); shared(label) && !of_all.empty()) captions.push_back(of_all);
  table.caption = fmt::format("{}", fmt::join(captions, "; "));
  table.columns = {left("workload")};
  constexpr std::size_t kNarrow = 6;
  for (std::size_t i = 0; is_pivoted && i < columns.size(); ++i)
    table.columns.push_back(right(columns[i], i < kNarrow ? 0 : 4));
  if (!is_pivoted) table.columns.push_back(left("figures"));
  if (!shared(device)) table.columns.push_back(left("device", 2));
  if (!shared(label)) table.columns.push_back(left("label", 1));
  const bool has_notes = std::ranges::any_of(lines, [](const PublishedLine& line) { return !line.row->note.empty(); });
  if (has_notes) table.columns.push_back(left("note", 3));
  for (const PublishedLine& line : lines) {
    const PublishedRow& row = *line.row;
    Cells cells = {text_cell(workload_of(row, Format::table))};
    std::vector<std::string> texts;
    for (const std::string& quantity : columns) {
      const auto figure = std::ranges::find(row.figures, quantity, &PublishedFigure::quantity);
      const bool is_there = figure != row.figures.end();
      if (is_there) texts.push_back(fmt::format("{} {}", quantity, figure->printed));
      if (is_pivoted) cells.push_back(is_there ? text_cell(figure->printed) : row.status == "oom" ? "oom" : Cell());
    }
    if (!is_pivoted)
      cells.push_back(texts.empty() && row.status == "oom" ? "oom"
                                                           : text_cell(fmt::format("{}", fmt::join(texts, ", "))));
    if (!shared(device)) cells.push_back(text_cell(device(line)));
    if (!shared(label)) cells.push_back(text_cell(line.label));
    if (has_notes) cells.push_back(text_cell(row.note));
    table.add(std::move(cells));
  }
  return table;
}

// "vectorized_elementwise_kernel (MulFunctor)": without the namespaces and types of a template, whose name fills lines.
std::string cut_kernel(const std::string& name) {
  const std::size_t arguments = name.find('<');
  if (arguments == std::string::npos || name.find('(') == std::string::npos) return name;
  const std::string function = name.substr(0, arguments);
  std::string cut = function.substr(function.find_last_of(" :") + 1);
  constexpr std::string_view kFunctor = "Functor";
  const std::size_t functor = name.rfind(kFunctor);
  if (functor == std::string::npos) return cut;
  const std::size_t first = name.find_last_of(":<(, ", functor) + 1;
  return fmt::format("{} ({})", cut, name.substr(first, functor + kFunctor.size() - first));
}

}  // namespace

std::string workload_of(const PublishedRow& row, Format format) {
  std::vector<std::string> parts;
  for (const std::string_view field : {"model", "item", "claim", "component", "name", "range", "quantity"}) {
    if (const std::string text = text_of(row, field); !text.empty())
      parts.push_back(is_for_people(format) ? cut_kernel(text) : text);
  }
  if (const std::string statement = statement_of(row); !statement.empty()) parts.push_back(statement);
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
  std::vector<PublishedLine> shown;
  for (const PublishedLine& line : lines) {
    if (!figures_of(*line.row, quantities).empty()) shown.push_back(line);
  }
  const bool has_runs = std::ranges::any_of(shown, [](const PublishedLine& line) { return !line.beside.empty(); });
  Page page;
  if (!is_for_people(format)) return {.tables = {table_for_files(shown, quantities, has_runs)}};
  const auto group_of = [&](const PublishedLine& line) { return has_runs ? line.beside : source_of(*line.row); };
  for (std::size_t first = 0, end = 0; first < shown.size(); first = end) {
    while (end < shown.size() && group_of(shown[end]) == group_of(shown[first])) ++end;
    const std::span group = std::span(shown).subspan(first, end - first);
    page.tables.push_back(has_runs ? table_beside(group, quantities) : table_of_source(group, quantities));
  }
  if (page.tables.empty()) return page;
  page.tables.back().note =
      "Figures are as printed in their sources. A value like (4?) is presumed: the source does not state it.";
  if (has_runs) page.tables.back().note += "\nratio: the figure here over that of the source.";
  return page;
}

}  // namespace ridgepoint::tables
