#include "study/pages/json_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/units.h"
#include "study/study_rows.h"

namespace ridgepoint::tables {
namespace {

constexpr std::size_t kMostColumns = 8;

std::string people_text(double value, JsonKind kind) {
  switch (kind) {
    case JsonKind::ms: return format_ms(value);
    case JsonKind::us: return fmt::format("{:.1f}", value);
    case JsonKind::bytes: return value < 0 ? "-" + format_byte_count(-value) : format_byte_count(value);
    case JsonKind::share: return fmt::format("{:.1f} %", 100 * value);
    case JsonKind::count: return format_count(value);
    case JsonKind::sum: return fmt::format("{:.8f}", value);
    case JsonKind::error: return fmt::format("{:.2e}", value);
    case JsonKind::text:
    case JsonKind::number: break;
  }
  return fmt::format("{:.6g}", value);
}

Cell cell_of(const Json& value, JsonKind kind, Format format) {
  if (value.is_string()) return text_cell(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_number()) return {};
  if (is_for_people(format) && kind != JsonKind::text) return people_text(value.get<double>(), kind);
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.get<double>();
}

JsonKind kind_of(std::string_view key) {
  if (key == "result") return JsonKind::sum;
  if (key == "relative_error" || key.ends_with(".forward") || key.ends_with(".gradient")) return JsonKind::error;
  if (key.ends_with("_bytes")) return JsonKind::bytes;
  if (key.ends_with("_ms")) return JsonKind::ms;
  if (key.starts_with("share")) return JsonKind::share;
  if (key.ends_with("_per_second")) return JsonKind::count;
  return JsonKind::number;
}

std::string heading_of(std::string key) {
  std::ranges::replace(key, '_', ' ');
  std::ranges::replace(key, '.', ' ');
  if (key.ends_with(" bytes")) key.resize(key.size() - 6);
  return key;
}

void add_flat(Json& flat, const std::string& prefix, const Json& value) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add_flat(flat, prefix.empty() ? key : prefix + "." + key, inner);
  } else if (!value.is_array()) {
    flat[prefix] = value;
  }
}

// "causal no", "batch 8".
std::string phrase_of(const JsonColumn& column, const Json& value) {
  const Cell cell = cell_of(value, column.kind, Format::markdown);
  if (const auto* text = std::get_if<std::string>(&cell)) return fmt::format("{} {}", column.heading, *text);
  if (const auto* flag = std::get_if<bool>(&cell)) return fmt::format("{} {}", column.heading, *flag ? "yes" : "no");
  return "";
}

}  // namespace

JsonRows pointers(const Json& array) {
  JsonRows rows;
  if (!array.is_array()) return rows;
  for (const Json& row : array) {
    if (row.is_object()) rows.push_back(&row);
  }
  return rows;
}

JsonRows pointers(const std::vector<Json>& rows) {
  JsonRows all;
  for (const Json& row : rows) all.push_back(&row);
  return all;
}

Table json_table(std::string caption, const JsonRows& rows, const std::vector<JsonColumn>& columns, Format format) {
  Table table;
  table.caption = std::move(caption);
  for (const auto& [path, heading, kind] : columns) {
    const bool is_number = kind != JsonKind::text && is_for_people(format);
    table.columns.push_back({path, heading, "{}", is_number ? Align::right : Align::by_content});
  }
  for (const Json* row : rows) {
    Cells cells;
    for (const JsonColumn& column : columns) cells.push_back(cell_of(field(*row, column.path), column.kind, format));
    table.add(std::move(cells));
  }
  return table;
}

Table flat_table(std::string caption, const JsonRows& rows, Format format) {
  std::vector<Json> flat;
  for (const Json* row : rows) flat.push_back(flat_row(*row));
  std::vector<JsonColumn> columns, all;
  for (const Json& row : flat) {
    for (const auto& [key, value] : row.items()) {
      if (value.is_null()) continue;
      auto column = std::ranges::find(all, key, &JsonColumn::path);
      if (column == all.end()) column = all.insert(all.end(), {key, is_for_people(format) ? heading_of(key) : key});
      if (value.is_number()) column->kind = kind_of(key);
    }
  }
  const bool is_wide = flat.size() > 1 && all.size() > kMostColumns && is_for_people(format);
  for (const JsonColumn& column : all) {
    const auto agrees = [&](const Json& row) { return field(row, column.path) == field(flat.front(), column.path); };
    if (!is_wide || !std::ranges::all_of(flat, agrees)) {
      columns.push_back(column);
    } else if (const std::string phrase = phrase_of(column, field(flat.front(), column.path)); !phrase.empty()) {
      caption += (caption.empty() ? "" : ", ") + phrase;
    }
  }
  return json_table(std::move(caption), pointers(flat), columns, format);
}

Json flat_row(const Json& row) {
  Json flat = Json::object();
  add_flat(flat, "", row);
  return flat;
}

}  // namespace ridgepoint::tables
