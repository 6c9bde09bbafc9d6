// A reader of CSV (RFC 4180): each row is a map from column name to cell.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace ridgepoint {

using CsvRow = std::map<std::string, std::string>;

// Throws std::runtime_error for a line with more or fewer cells than the heading, and for text after a closing quote.
inline std::vector<CsvRow> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> lines(1, std::vector<std::string>(1));
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& cell = lines.back().back();
    if (is_quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += text[++i];
    } else if (c == '"') {
      if (!is_quoted && !cell.empty()) throw std::runtime_error("a quotation mark within '" + cell + "'");
      is_quoted = !is_quoted;
    } else if (!is_quoted && c == ',') {
      lines.back().emplace_back();
    } else if (!is_quoted && c == '\n') {
      lines.emplace_back(1);
    } else {
      cell += c;
    }
  }
  lines.pop_back();  // the empty text after the last line break
  std::vector<CsvRow> rows;
  for (std::size_t line = 1; line < lines.size(); ++line) {
    if (lines[line].size() != lines[0].size()) throw std::runtime_error("a line of another length: " + lines[line][0]);
    CsvRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < lines[0].size(); ++i) row[lines[0][i]] = lines[line][i];
  }
  return rows;
}

}  // namespace ridgepoint
