#include "views/table/text_table.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace ridgepoint::cli {
namespace {

constexpr std::string_view kGap = "  ";
// A remark with less room than this beside its cells stands below them.
constexpr std::size_t kLeastRemarkColumns = 32;
constexpr std::size_t kRemarkIndent = 4;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::size_t width_of(std::string_view cell) {
  std::size_t width = 0;
  for (const std::string_view line : lines_of(cell)) width = std::max(width, display_width(line));
  return width;
}

std::string padded(std::string_view cell, std::size_t width, TextTable::Align align) {
  const std::string blanks(width - std::min(width, display_width(cell)), ' ');
  return align == TextTable::Align::left ? std::string(cell) + blanks : blanks + std::string(cell);
}

std::string finish_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// A bar or a line break in a cell would end it.
std::string markdown_cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + markdown_cell(cell) + " |";
  return line + '\n';
}

// Bytes of the first `columns` characters.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    if (begins_character(text[bytes]) && columns-- == 0) break;
  }
  return bytes;
}

}  // namespace

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(utf8, begins_character));
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  for (const std::string_view line : lines_of(text)) {
    if (line.data() != text.data()) result += '\n' + std::string(indent, ' ');
    std::size_t column = indent;
    for (std::string_view rest = line; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      if (column > indent && column + 1 + display_width(word) > width) {
        result += '\n' + std::string(indent, ' ');
        column = indent;
      } else if (column > indent) {
        result += ' ';
        ++column;
      }
      result += word;
      column += display_width(word);
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    }
  }
  return result;
}

std::string wrap_cell(std::string_view text, std::size_t width) {
  std::string result;
  while (width > 0 && display_width(text) > width) {
    std::size_t end = bytes_of(text, width);
    for (const std::string_view marks : {" ", "._,;:/("}) {
      const std::size_t mark = text.substr(0, end).find_last_of(marks);
      if (mark == std::string_view::npos || mark == 0) continue;
      end = mark + 1;
      break;
    }
    result.append(text.substr(0, end)) += '\n';
    text.remove_prefix(end);
  }
  return result.append(text);
}

void TextTable::add_column(std::string heading, Align align) {
  headings_.push_back(std::move(heading));
  alignments_.push_back(align);
}

void TextTable::add_row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), ""}); }

void TextTable::add_remark(std::vector<std::string> cells, std::string remark) {
  rows_.push_back({std::move(cells), std::move(remark)});
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> result;
  for (const std::string& heading : headings_) result.push_back(width_of(heading));
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) result[i] = std::max(result[i], width_of(row.cells[i]));
  }
  return result;
}

std::size_t TextTable::width() const {
  const std::vector<std::size_t> each = widths();
  return std::accumulate(each.begin(), each.end(), kGap.size() * (each.size() - std::min<std::size_t>(each.size(), 1)));
}

std::string TextTable::cells_text(const std::vector<std::string>& cells, const std::vector<std::size_t>& each) const {
  std::vector<std::vector<std::string_view>> lines;
  std::size_t height = 1;
  for (const std::string& cell : cells) height = std::max(height, lines.emplace_back(lines_of(cell)).size());
  std::string result;
  for (std::size_t row = 0; row < height; ++row) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line += padded(row < lines[i].size() ? lines[i][row] : "", each[i], alignments_[i]).append(kGap);
    }
    result += finish_line(std::move(line));
  }
  return result;
}

std::string TextTable::row_text(const Row& row, const std::vector<std::size_t>& each, std::size_t width) const {
  if (row.remark.empty()) return cells_text(row.cells, each);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < row.cells.size(); ++i) begin += each[i] + kGap.size();
  std::string line = cells_text(row.cells, each);
  const bool is_one_line = line.find('\n') + 1 == line.size();
  if (!is_one_line || width < begin + kLeastRemarkColumns) {
    return line + std::string(kRemarkIndent, ' ') + wrap(row.remark, width, kRemarkIndent) + '\n';
  }
  line.pop_back();
  line.resize(line.size() + begin - std::min(begin, display_width(line)), ' ');
  return finish_line(line + wrap(row.remark, width, begin));
}

std::string TextTable::text(std::size_t width) const {
  const std::vector<std::size_t> each = widths();
  std::string result = cells_text(headings_, each);
  for (const Row& row : rows_) result += row_text(row, each, width);
  return result;
}

std::string TextTable::markdown() const {
  const bool has_remarks = std::ranges::any_of(rows_, [](const Row& row) { return !row.remark.empty(); });
  const bool needs_column =
      has_remarks && std::ranges::any_of(rows_, [&](const Row& row) { return row.cells.size() == headings_.size(); });
  std::vector<std::string> headings = headings_;
  if (needs_column) headings.emplace_back("remark");
  std::string result = markdown_line(headings) + "|";
  for (const Align align : alignments_) result += align == Align::left ? "---|" : "---:|";
  result += needs_column ? "---|\n" : "\n";
  for (const Row& row : rows_) {
    std::vector<std::string> cells = row.cells;
    cells.resize(headings.size());
    if (!row.remark.empty()) cells.back() = row.remark;
    result += markdown_line(cells);
  }
  return result;
}

}  // namespace ridgepoint::cli
