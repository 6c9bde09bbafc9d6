#include "inspect/published/published_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/text/units.h"
#include "record/columns.h"
#include "record/record_table.h"
#include "tables/table/render.h"

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

// Null where the source does not have it.
const PublishedFigure* figure_of(const PublishedLine& line, std::string_view quantity) {
  const std::vector<PublishedFigure>& figures = line.found.row->figures;
  const auto found = std::ranges::find(figures, quantity, &PublishedFigure::quantity);
  return found == figures.end() ? nullptr : &*found;
}

// NaN where the run has none.
double own_of(const PublishedLine& line, const PublishedFigure* figure) {
  if (line.run == nullptr || figure == nullptr) return std::nan("");
  return own_figure(*line.run, figure->quantity).value_or(std::nan(""));
}

bool has_own(const PublishedLine& line, const PublishedFigure* figure) { return std::isfinite(own_of(line, figure)); }

bool is_time(const PublishedFigure& figure) {
  return figure.unit == "ms" || figure.unit == "s" || figure.unit == "tokens/s";
}

// " ~ throttled": of a time whose samples are in doubt.
std::string doubt_of(const Record& run, const PublishedFigure& figure) {
  const std::string mark = timing_mark(run);
  return is_time(figure) && mark.starts_with('~') ? " " + mark : "";
}

// Why the figure does not compare with the run's figure; empty if it does. Another device changes times, but not
// allocations.
std::string why_not(const PublishedLine& line, const PublishedFigure* figure) {
  const Comparable& found = line.found;
  if (figure == nullptr) return found.row->status == "oom" ? "oom in the source" : "no figure in the source";
  if (!has_own(line, figure)) {
    const RunStatus status = line.run->status;
    return status == RunStatus::ok ? "nothing to compare here" : fmt::format("{} here", name(status));
  }
  if (!is_time(*figure)) return "";
  if (found.card != SameCard::yes) return found.card == SameCard::no ? "another device" : "device not stated";
  return doubt_of(*line.run, *figure).empty() ? "" : "timing in doubt";
}

std::string comparison_text(const std::string& why_not) { return why_not.empty() ? "yes" : "no: " + why_not; }

// Of all figures of a row: "yes", "no: another device", "memory alone: another device".
std::string comparison_of(const PublishedLine& line, const Quantities& quantities) {
  std::string why, missing;
  bool compares = false;
  for (const PublishedFigure* figure : figures_of(*line.found.row, quantities)) {
    const std::string reason = why_not(line, figure);
    compares = compares || reason.empty();
    std::string& first = has_own(line, figure) ? why : missing;
    if (first.empty()) first = reason;
  }
  if (compares && !why.empty()) return "memory alone: " + why;
  return comparison_text(compares || !why.empty() ? why : missing);
}

// A row for each figure.
Table table_for_files(std::span<const PublishedLine> lines, const Quantities& quantities) {
  const bool has_runs = !lines.empty() && lines.front().run != nullptr;
  Table table;
  const auto add = [&](std::initializer_list<const char*> keys) { append_columns(table, keys); };
  if (has_runs) add({"beside"});
  add({"kind", "workload", "quantity", "figure", "unit"});
  if (has_runs) add({"here", "ratio", "compares"});
  add({"status", "source", "device", "label", "note"});
  for (const PublishedLine& line : lines) {
    const PublishedRow& row = *line.found.row;
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
        cells.insert(cells.end(), {std::isfinite(own) ? Cell(own) : Cell(), std::isfinite(ratio) ? Cell(ratio) : Cell(),
                                   comparison_text(why_not(line, figure))});
      }
      cells.insert(cells.end(), {row.status, fmt::format("{}: {}", row.study, row.table), text_cell(card_of(row)),
                                 text_cell(line.found.label), text_cell(row.note)});
      table.add(std::move(cells));
    }
  }
  return table;
}

// A source's statement on a row in words: in the caption if all rows have the same, else in a column.
struct Remark {
  const char* heading;
  int rank;
  std::string (*of)(const PublishedLine& line);
};
constexpr Remark kRemarks[] = {{"device", 2, [](const PublishedLine& line) { return card_of(*line.found.row); }},
                               {"condition", 1, [](const PublishedLine& line) { return line.found.conditions; }},
                               {"note", 3, [](const PublishedLine& line) { return line.found.row->note; }}};

// The source, and what it says of all rows. Adds columns for the other remarks, which are returned.
std::vector<const Remark*> add_caption(Table& table, std::span<const PublishedLine> lines) {
  const PublishedRow& first = *lines.front().found.row;
  table.caption = fmt::format("{}: {}", study_words(first.study), first.table);
  std::vector<const Remark*> others;
  for (const Remark& remark : kRemarks) {
    const std::string text = remark.of(lines.front());
    if (std::ranges::all_of(lines, [&](const PublishedLine& line) { return remark.of(line) == text; })) {
      if (!text.empty()) table.caption += (text == kNotStated ? "; card " : "; ") + text;
    } else {
      others.push_back(&remark);
      table.columns.push_back(left(remark.heading, remark.rank));
    }
  }
  return others;
}

// The figures of a row of a source beside those of a run.
void add_figures(Cells& cells, const PublishedLine& line, const std::string& quantity, bool with_own) {
  const PublishedFigure* figure = figure_of(line, quantity);
  const bool is_oom = line.found.row->status == "oom";
  cells.push_back(figure != nullptr ? text_cell(figure->printed) : is_oom ? "oom" : Cell());
  if (!with_own) return;
  const double own = own_of(line, figure);
  if (std::isfinite(own)) {
    cells.emplace_back(format_ms(own) + doubt_of(*line.run, *figure));
    cells.emplace_back(fmt::format("{:.2f}x", own / figure->value));
  } else {
    cells.push_back(line.run->status == RunStatus::oom ? "oom" : Cell());
    cells.emplace_back();
  }
}

// The wanted quantities of the lines, in the order in which they first appear.
Quantities quantities_of(std::span<const PublishedLine> lines, const Quantities& wanted) {
  Quantities quantities;
  for (const PublishedLine& line : lines) {
    for (const PublishedFigure& figure : line.found.row->figures) {
      const bool is_new = std::ranges::find(quantities, figure.quantity) == quantities.end();
      if (is_new && is_wanted(wanted, figure)) quantities.push_back(figure.quantity);
    }
  }
  return quantities;
}

// A table of a source. Each quantity is a column beside runs, and if most rows have most quantities; otherwise all
// quantities are in one column. `settings`: the settings in which the runs differ.
Table table_of_source(std::span<const PublishedLine> lines, const Quantities& wanted,
                      std::span<const Setting* const> settings) {
  constexpr std::size_t kNarrow = 6;
  constexpr int kOmittedFirst = 4;
  const bool has_runs = lines.front().run != nullptr;
  const Quantities quantities = quantities_of(lines, wanted);
  const auto is_own = [&](const std::string& quantity) {
    return std::ranges::any_of(lines,
                               [&](const PublishedLine& line) { return has_own(line, figure_of(line, quantity)); });
  };
  const bool has_any_own = std::ranges::any_of(quantities, is_own);
  std::ptrdiff_t figures = 0;
  for (const std::string& quantity : quantities)
    figures +=
        std::ranges::count_if(lines, [&](const PublishedLine& line) { return figure_of(line, quantity) != nullptr; });
  const bool is_pivoted = has_runs || 3 * figures >= 2 * std::ssize(quantities) * std::ssize(lines);

  Table table;
  for (const Setting* setting : settings) table.columns.push_back(setting_column(*setting));
  if (!has_runs) table.columns.push_back(left("workload"));
  table.key_columns = table.columns.size();
  for (std::size_t i = 0; is_pivoted && i < quantities.size(); ++i) {
    const bool stays = has_any_own ? is_own(quantities[i]) : i < kNarrow;
    table.columns.push_back(right(quantities[i], stays ? 0 : kOmittedFirst));
    if (is_own(quantities[i])) table.columns.insert(table.columns.end(), {right("here"), right("ratio")});
  }
  if (!is_pivoted) table.columns.push_back(left("figures"));
  if (has_runs) table.columns.push_back(left("compares"));
  const std::vector<const Remark*> remarks = add_caption(table, lines);
  for (const PublishedLine& line : lines) {
    Cells cells;
    for (const Setting* setting : settings) cells.emplace_back(setting->cell(*line.run));
    if (!has_runs) cells.push_back(text_cell(workload_of(*line.found.row, Format::table)));
    std::vector<std::string> texts;
    for (const std::string& quantity : quantities) {
      if (is_pivoted) add_figures(cells, line, quantity, is_own(quantity));
      if (const PublishedFigure* figure = figure_of(line, quantity))
        texts.push_back(fmt::format("{} {}", quantity, figure->printed));
    }
    if (!is_pivoted && texts.empty() && line.found.row->status == "oom") texts.emplace_back("oom");
    if (!is_pivoted) cells.push_back(text_cell(fmt::format("{}", fmt::join(texts, ", "))));
    if (has_runs) cells.emplace_back(comparison_of(line, wanted));
    for (const Remark* remark : remarks) cells.push_back(text_cell(remark->of(line)));
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
    if (!figures_of(*line.found.row, quantities).empty()) shown.push_back(line);
  }
  if (!is_for_people(format)) return {.tables = {table_for_files(shown, quantities)}};
  std::vector<std::vector<PublishedLine>> sources;  // in the order in which they first appear
  std::vector<Record> runs;
  const Record* last = nullptr;
  for (const PublishedLine& line : shown) {
    const auto is_same = [&](const std::vector<PublishedLine>& source) {
      const PublishedRow &row = *line.found.row, &other = *source.front().found.row;
      return row.kind == other.kind && row.study == other.study && row.table == other.table;
    };
    const auto source = std::ranges::find_if(sources, is_same);
    (source == sources.end() ? sources.emplace_back() : *source).push_back(line);
    if (line.run != last) runs.push_back(*line.run);
    last = line.run;
  }
  std::vector<const Setting*> settings;
  if (!runs.empty()) settings = leading_settings(runs);
  if (!runs.empty() && settings.empty())
    settings.push_back(&setting_of_option("sequence"));  // a single call of attention
  Page page;
  for (const std::vector<PublishedLine>& source : sources)
    page.tables.push_back(table_of_source(source, quantities, settings));
  if (page.tables.empty()) return page;
  std::string& note = page.tables.back().note;
  if (runs.empty()) {
    note = "Figures are as printed in their sources. A value like (4?) is presumed: the source does not state it.";
    return page;
  }
  page.tables.front().caption = fmt::format("{}\n{}", records_caption(runs), page.tables.front().caption);
  note =
      "Figures of the sources are as they print them. here: the figure of the run in that row; ratio: here over the "
      "source's. Times compare on the same device alone, bytes on any.";
  if (const std::string marks = timing_notes(runs); !marks.empty()) note += "\n" + marks;
  return page;
}

}  // namespace ridgepoint::tables
