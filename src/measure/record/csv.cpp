#include "measure/record/csv.h"

#include <fmt/format.h>

#include <cmath>
#include <type_traits>

#include "core/text.h"
#include "measure/record/fields.h"

namespace ridgepoint {
namespace {

std::string cell(const std::string& text) { return csv_field(text); }
std::string cell(std::int64_t value) { return fmt::format("{}", value); }
std::string cell(bool value) { return value ? "true" : "false"; }
std::string cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }
template <typename Enum>
requires std::is_enum_v<Enum> std::string cell(Enum value) { return std::string(name(value)); }
std::string cell(std::span<const double> values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ";") + cell(values[i]);
  return text;
}
template <typename T>
std::string cell(const std::optional<T>& value) {
  return value ? cell(*value) : "";
}

}  // namespace

std::string csv_heading() {
  std::string line;
  const Record record;
  visit_fields(record, [&](std::string_view prefix, std::string_view key, const auto&) {
    if (!line.empty()) line += ',';
    line += prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
  });
  return line + '\n';
}

std::string csv_row(const Record& record) {
  std::string line;
  bool first = true;
  visit_fields(record, [&](std::string_view, std::string_view, const auto& member) {
    if (!first) line += ',';
    first = false;
    line += cell(member);
  });
  return line + '\n';
}

}  // namespace ridgepoint
