#include "inspect/compare/files/json_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/text.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// The rows of a document that is complete.
std::optional<std::vector<Json>> parse_whole(std::string_view text) {
  try {
    Json document = parse_json(text);
    if (document.is_array()) return std::vector<Json>(document.begin(), document.end());
    return std::vector<Json>{std::move(document)};
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

// Without the brackets and commas of an array that has one row a line.
std::string_view row_of_line(std::string_view line, bool is_array) {
  line = trimmed(line);
  if (!is_array) return line;
  if (line.starts_with('[')) line = trimmed(line.substr(1));
  if (line.ends_with(',')) line = trimmed(line.substr(0, line.size() - 1));
  return line == "]" ? std::string_view() : line;
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
      found.rows.push_back(parse_json(line, fmt::format("line {}", line_number)));
    } catch (const JsonError& error) {
      if (!error.is_cut_off()) throw;
      if (!is_last) throw Error(fmt::format("line {} is not JSON: it ends in the middle", line_number));
      found.cut_off = found.rows.size() + 1;
    }
  }
  return found;
}

}  // namespace ridgepoint
