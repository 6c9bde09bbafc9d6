#include "study/study_rows.h"

#include <limits>

namespace ridgepoint {

const Json& field(const Json& row, std::string_view path) {
  static const Json nothing = nullptr;
  if (!row.is_object()) return nothing;
  if (const auto own = row.find(path); own != row.end()) return *own;
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nothing;
  const auto found = row.find(path.substr(0, dot));
  return found == row.end() ? nothing : field(*found, path.substr(dot + 1));
}

double number_at(const Json& row, std::string_view path) {
  const Json& value = field(row, path);
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string text_at(const Json& row, std::string_view path) {
  const Json& value = field(row, path);
  return value.is_string() ? value.get<std::string>() : "";
}

bool is_planned(const Json& row) { return text_at(row, "device.kind") == "null" || text_at(row, "device") == "null"; }

}  // namespace ridgepoint
