#include "inspect/calculations/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/text/units.h"
#include "inspect/calculations/formula.h"
#include "record/columns.h"
#include "record/record_table.h"

namespace ridgepoint::tables {
namespace {

// With its unit, in one that suits its size.
std::string shown(std::string_view unit, double value) {
  if (unit == "bytes") return format_byte_count(value);
  if (unit == "bytes/s") return fmt::format("{} GB/s", figure(value / 1e9));
  if (unit == "s") return value < 1e-3 ? fmt::format("{} us", figure(value * 1e6)) : format_ms(value * 1e3) + " ms";
  if (unit == "flop") return format_count(value) + "flop";
  if (unit == "flop/s") return fmt::format("{} Tflop/s", figure(value / 1e12));
  if (value == 1 && unit.ends_with('s')) unit.remove_suffix(1);
  const std::string number = figure(value);
  return unit.empty() ? number : fmt::format("{} {}", number, unit);
}

// "G = g E + h (P-E)"; of a value that was searched for, "k with the least ceil(L/k) r + k a".
std::string shown_formula(const ExplainedRow& row) {
  if (row.symbol.empty() || row.formula.empty()) return std::string(row.symbol.empty() ? row.formula : row.symbol);
  return fmt::format("{} {} {}", row.symbol, row.figures.empty() ? "with the least" : "=", row.formula);
}

Cell number_cell(const std::optional<double>& value) {
  constexpr double kMostExact = 9007199254740992;  // 2^53
  if (value && *value == std::round(*value) && std::abs(*value) < kMostExact) return static_cast<std::int64_t>(*value);
  return optional_cell(value);
}

Cell result_cell(const ExplainedRow& row) { return row.value ? shown(row.unit, *row.value) : std::string("never"); }

// Bytes that look alike may differ.
Cell planned_cell(const ExplainedRow& row) {
  if (!row.planned) return {};
  const std::string text = shown(row.unit, *row.planned);
  return row.unit == "bytes" && row.value == row.planned ? text + ", equal" : text;
}

Table symbol_table(const Explanation& explanation) {
  Table table;
  table.title = "Symbols";
  table.columns = {left("symbol"), right("value"), left("what it is"), left("from")};
  for (const ExplainedSymbol& row : explanation.symbols) {
    const bool has_small_bytes = row.unit == "bytes" && row.value < 1024;
    table.add({std::string(row.symbol), has_small_bytes ? figure(row.value) : shown(row.unit, row.value),
               std::string(row.meaning), text_cell(row.source)});
  }
  return table;
}

Table topic_table(const Explanation& explanation, const ExplainedTopic& topic) {
  Table table;
  table.title = topic.title;
  table.columns = {left("what"), left("formula"), left("with figures"), right("result"), right("planned")};
  for (const ExplainedRow& row : explanation.rows) {
    if (row.topic() != topic.topic) continue;
    table.add({std::string(row.name), shown_formula(row), text_cell(row.figures), result_cell(row), planned_cell(row)});
  }
  table.remark = topic.note;
  const bool has_plan = std::ranges::any_of(
      table.rows, [](const Row& row) { return !std::holds_alternative<std::monostate>(row.cells.back()); });
  if (has_plan) return table;
  table.columns.pop_back();
  for (Row& row : table.rows) row.cells.pop_back();
  return table;
}

Table data_table(std::span<const Explanation> explanations) {
  Table table;
  table.columns = {{"model", "model"},     {"batch", "batch"}, {"context", "context"}, {"dtype", "dtype"},
                   {"compile", "compile"}, {"card", "card"},   {"ranks", "ranks"},     {"key", "key"},
                   {"symbol", "symbol"},   {"what", "what"},   {"formula", "formula"}, {"figures", "figures"},
                   {"value", "value"},     {"unit", "unit"},   {"planned", "planned"}};
  std::vector<Record> runs;
  for (const Explanation& explanation : explanations) runs.push_back(explanation.run);
  std::vector<const Setting*> others = varying_settings(runs);
  std::erase_if(others, [&](const Setting* setting) {
    return setting->path == "parallel.data" ||
           std::ranges::count(table.columns, setting->heading, &Column::heading) > 0;
  });
  for (const Setting* setting : others)
    table.columns.push_back({std::string(setting->path), std::string(setting->heading)});
  const auto text = [](std::string_view words) { return text_cell(std::string(words)); };
  for (const Explanation& explanation : explanations) {
    const Record& run = explanation.run;
    const Cells configuration = {run.model.name,
                                 run.batch,
                                 run.context,
                                 std::string(name(run.dtype)),
                                 std::string(name(run.compile)),
                                 explanation.card,
                                 *run.training_step->parallel.data};
    const auto add = [&](Cells cells) {
      cells.insert(cells.begin(), configuration.begin(), configuration.end());
      for (const Setting* setting : others) cells.emplace_back(setting->cell(run));
      table.add(std::move(cells));
    };
    for (const ExplainedSymbol& row : explanation.symbols) {
      const std::string source = row.source.empty() ? row.source : fmt::format(" ({})", row.source);
      add({"symbol." + std::string(row.symbol), text(row.symbol), std::string(row.meaning) + source, Cell(), Cell(),
           number_cell(row.value), text(row.unit), Cell()});
    }
    for (const ExplainedRow& row : explanation.rows) {
      add({text(row.key), text(row.symbol), text(row.name), text(row.formula), text_cell(row.figures),
           number_cell(row.value), text(row.unit), number_cell(row.planned)});
    }
  }
  return table;
}

}  // namespace

Page explanation_page(std::span<const Explanation> explanations, Format format) {
  Page page;
  if (!is_for_people(format)) {
    page.tables.push_back(data_table(explanations));
    return page;
  }
  for (const Explanation& explanation : explanations) {
    page.tables.push_back(symbol_table(explanation));
    page.tables.back().caption = records_caption(std::span(&explanation.run, 1));
    for (const ExplainedTopic& topic : explained_topics()) {
      Table table = topic_table(explanation, topic);
      if (!table.rows.empty()) page.tables.push_back(std::move(table));
    }
  }
  return page;
}

}  // namespace ridgepoint::tables
