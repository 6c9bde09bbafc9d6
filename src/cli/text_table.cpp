#include "cli/text_table.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace ridgepoint::cli {
namespace {

constexpr std::string_view kGap = "  ";

std::string padded(const std::string& cell, std::size_t width, TextTable::Align align) {
  const std::string blanks(width - std::min(width, display_width(cell)), ' ');
  return align == TextTable::Align::left ? cell + blanks : blanks + cell;
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

}  // namespace

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (column > indent && column + 1 + display_width(word) > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += display_width(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return result;
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
  for (const std::string& heading : headings_) result.push_back(display_width(heading));
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) result[i] = std::max(result[i], display_width(row.cells[i]));
  }
  return result;
}

std::size_t TextTable::width() const {
  const std::vector<std::size_t> each = widths();
  return std::accumulate(each.begin(), each.end(), kGap.size() * (each.size() - std::min<std::size_t>(each.size(), 1)));
}

std::string TextTable::text() const {
  const std::vector<std::size_t> each = widths();
  const auto line = [&](const std::vector<std::string>& cells, const std::string& remark) {
    std::string result;
    for (std::size_t i = 0; i < cells.size(); ++i) result += padded(cells[i], each[i], alignments_[i]).append(kGap);
    return finish_line(result + remark);
  };
  std::string result = line(headings_, "");
  for (const Row& row : rows_) result += line(row.cells, row.remark);
  return result;
}

std::string TextTable::markdown() const {
  std::string result = markdown_line(headings_) + "|";
  for (const Align align : alignments_) result += align == Align::left ? "---|" : "---:|";
  result += '\n';
  for (const Row& row : rows_) {
    std::vector<std::string> cells = row.cells;
    if (!row.remark.empty() && cells.size() < headings_.size()) cells.push_back(row.remark);
    cells.resize(headings_.size());
    result += markdown_line(cells);
  }
  return result;
}

}  // namespace ridgepoint::cli
