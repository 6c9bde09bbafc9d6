#include "inspect/compare/files/csv_rows.h"

#include <fmt/format.h>

#include <string>

#include "core/text/text.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using Cells = std::vector<std::string>;

std::vector<Cells> split(std::string_view text) {
  std::vector<Cells> lines(1, Cells(1));
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& cell = lines.back().back();
    if (is_quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += text[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && c == ',') {
      lines.back().emplace_back();
    } else if (!is_quoted && c == '\n') {
      lines.emplace_back(1);
    } else if (is_quoted || c != '\r') {
      cell += c;
    }
  }
  if (is_quoted) throw Error(fmt::format("row {} has a quotation mark that is not closed", lines.size() - 1));
  std::erase_if(lines, [](const Cells& cells) { return cells.size() == 1 && trimmed(cells.front()).empty(); });
  return lines;
}

}  // namespace

std::vector<Json> parse_csv_rows(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::vector<Cells> lines = split(text);
  std::vector<Json> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].size() != lines[0].size()) {
      throw Error(fmt::format("row {} has {} cells and the heading has {}; every row needs one for each column", i,
                              lines[i].size(), lines[0].size()));
    }
    Json& row = rows.emplace_back(Json::object());
    for (std::size_t c = 0; c < lines[0].size(); ++c) row[std::string(trimmed(lines[0][c]))] = trimmed(lines[i][c]);
  }
  return rows;
}

}  // namespace ridgepoint
