#include "measure/compare/json_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/text.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// The rows of a document that is complete.
std::optional<std::vector<Json>> parse_whole(std::string_view text) {
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return std::nullopt;
  if (document.is_array()) return std::vector<Json>(document.begin(), document.end());
  return std::vector<Json>{std::move(document)};
}

// Without the brackets and commas of an array that has one row a line.
std::string_view row_of_line(std::string_view line, bool is_array) {
  line = trimmed(line);
  if (!is_array) return line;
  if (line.starts_with('[')) line = trimmed(line.substr(1));
  if (line.ends_with(',')) line = trimmed(line.substr(0, line.size() - 1));
  return line == "]" ? std::string_view() : line;
}

// Empty if the text ends in the middle. Throws Json::parse_error for other faults.
std::optional<Json> parse_row(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    if (error.byte <= text.size()) throw;
    return std::nullopt;
  }
}

}  // namespace

JsonRows parse_json_rows(std::string_view text) {
  if (std::optional<std::vector<Json>> rows = parse_whole(text)) return {std::move(*rows), std::nullopt};
  const bool is_array = trimmed(text).starts_with('[');
  JsonRows found;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = row_of_line(text.substr(begin, end - begin), is_array);
    begin = end + 1;
    ++line_number;
    if (line.empty()) continue;
    const bool is_last = begin >= text.size() || trimmed(text.substr(begin)).empty();
    try {
      std::optional<Json> row = parse_row(line);
      if (row) {
        found.rows.push_back(std::move(*row));
        continue;
      }
    } catch (const Json::parse_error& error) {
      throw Error(fmt::format("line {} is not JSON at byte {}", line_number, error.byte));
    }
    if (!is_last) throw Error(fmt::format("line {} is not JSON: it ends in the middle", line_number));
    found.cut_off = found.rows.size() + 1;
  }
  return found;
}

}  // namespace ridgepoint
