#include "tables/table/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::size_t kLeastWrappedColumns = 12;
// A remark with less room than this beside its cells is printed below them.
constexpr std::size_t kLeastRemarkColumns = 32;
constexpr std::size_t kRemarkIndent = 4;

using Indices = std::vector<std::size_t>;
using Widths = std::vector<std::size_t>;

std::size_t width_of(std::string_view cell) {
  std::size_t width = 0;
  for (const std::string_view line : lines_of(cell)) width = std::max(width, display_width(line));
  return width;
}

std::string finish_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// The width of each column; remarks do not count.
Widths widths_of(const TextTable& table) {
  Widths widths;
  for (const TextTable::Column& column : table.columns) widths.push_back(width_of(column.heading));
  for (const TextTable::Row& row : table.rows) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) widths[i] = std::max(widths[i], width_of(row.cells[i]));
  }
  return widths;
}

// Prints all columns of a table. Only remarks are wrapped to `width`.
class Printer {
 public:
  Printer(const TextTable& table, std::size_t width) : table_(table), width_(width), widths_(widths_of(table)) {}

  std::string print() const {
    std::vector<std::string> headings;
    for (const TextTable::Column& column : table_.columns) headings.push_back(column.heading);
    std::string text = print(headings);
    for (const TextTable::Row& row : table_.rows) text += print(row);
    return text;
  }

 private:
  std::string padded(std::string_view text, std::size_t column) const {
    const std::string blanks(widths_[column] - std::min(widths_[column], display_width(text)), ' ');
    return table_.columns[column].is_right ? blanks + std::string(text) : std::string(text) + blanks;
  }

  std::string print(const std::vector<std::string>& cells) const {
    std::vector<std::vector<std::string_view>> lines;
    std::size_t height = 1;
    for (const std::string& cell : cells) height = std::max(height, lines.emplace_back(lines_of(cell)).size());
    std::string text;
    for (std::size_t row = 0; row < height; ++row) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i)
        line += padded(row < lines[i].size() ? lines[i][row] : "", i).append(kGap);
      text += finish_line(std::move(line));
    }
    return text;
  }

  std::string print(const TextTable::Row& row) const {
    std::string line = print(row.cells);
    if (row.remark.empty()) return line;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < row.cells.size(); ++i) begin += widths_[i] + kGap.size();
    const bool is_one_line = line.find('\n') + 1 == line.size();
    if (!is_one_line || width_ < begin + kLeastRemarkColumns)
      return line + std::string(kRemarkIndent, ' ') + wrap(row.remark, width_, kRemarkIndent) + '\n';
    line.pop_back();
    line.resize(line.size() + begin - std::min(begin, display_width(line)), ' ');
    return finish_line(line + wrap(row.remark, width_, begin));
  }

  const TextTable& table_;
  std::size_t width_;
  Widths widths_;
};

class Layout {
 public:
  Layout(const TextTable& table, std::size_t width) : table_(table), width_(width), natural_(widths_of(table)) {
    if (table.least_last_columns > 0) natural_.back() = std::min(natural_.back(), table.least_last_columns);
  }

  std::string text(std::vector<std::string>& left_out) const {
    const Indices kept = fitting_columns();
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      if (std::ranges::find(kept, i) == kept.end()) left_out.push_back(table_.columns[i].heading);
    }
    Widths widths = natural_;
    if (!wrap_columns(kept, widths)) return continued(kept);
    if (is_cut(kept.back())) widths.back() += width_ - std::min(width_, total(kept, widths));
    return Printer(section(kept, widths, false, true), width_).print();
  }

 private:
  bool is_cut(std::size_t column) const { return table_.least_last_columns > 0 && column + 1 == table_.columns.size(); }

  static std::size_t total(const Indices& columns, const Widths& widths) {
    std::size_t sum = columns.empty() ? 0 : kGap.size() * (columns.size() - 1);
    for (const std::size_t column : columns) sum += widths[column];
    return sum;
  }

  Indices fitting_columns() const {
    Indices kept(table_.columns.size());
    std::iota(kept.begin(), kept.end(), 0);
    const auto rank_of = [&](std::size_t column) { return table_.columns[column].rank; };
    while (total(kept, natural_) > width_) {
      const int highest = rank_of(*std::ranges::max_element(kept, {}, rank_of));
      if (highest == 0) break;
      std::erase_if(kept, [&](std::size_t column) { return rank_of(column) == highest; });
    }
    return with_those_that_fit(std::move(kept));
  }

  // A group of columns that was omitted before a wider one may have room after all.
  Indices with_those_that_fit(Indices kept) const {
    const auto is_kept = [&](std::size_t column) { return std::ranges::find(kept, column) != kept.end(); };
    std::map<int, Indices> omitted;  // by rank
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      if (!is_kept(i)) omitted[table_.columns[i].rank].push_back(i);
    }
    for (const auto& [rank, group] : omitted) {
      Indices more = kept;
      more.insert(more.end(), group.begin(), group.end());
      if (total(more, natural_) > width_) continue;
      std::ranges::sort(more);
      kept = std::move(more);
    }
    return kept;
  }

  // Narrows the widest text columns until the table fits. Returns false if it cannot fit.
  bool wrap_columns(const Indices& columns, Widths& widths) const {
    while (total(columns, widths) > width_) {
      std::optional<std::size_t> widest;
      for (const std::size_t column : columns) {
        if (table_.columns[column].is_right || is_cut(column) || widths[column] <= kLeastWrappedColumns) continue;
        if (!widest || widths[column] > widths[*widest]) widest = column;
      }
      if (!widest) return false;
      --widths[*widest];
    }
    return true;
  }

  std::string fitted(const std::string& cell, std::size_t column, const Widths& widths) const {
    if (is_cut(column)) return cut_text(cell, widths[column]);
    return table_.columns[column].is_right ? cell : wrap_cell(cell, widths[column]);
  }

  // The table with only these columns in these widths, and with row numbers in front if `numbered`.
  TextTable section(const Indices& columns, const Widths& widths, bool numbered, bool with_remarks) const {
    TextTable part;
    if (numbered) part.columns.push_back({"row", true});
    for (const std::size_t column : columns)
      part.columns.push_back({fitted(table_.columns[column].heading, column, widths), table_.columns[column].is_right});
    for (std::size_t number = 1; const TextTable::Row& row : table_.rows) {
      TextTable::Row shown{{}, row.remark};
      if (numbered) shown.cells.push_back(fmt::format("{}", number));
      ++number;
      for (const std::size_t column : columns) {
        if (column < row.cells.size()) shown.cells.push_back(fitted(row.cells[column], column, widths));
      }
      if (row.remark.empty() || with_remarks) part.rows.push_back(std::move(shown));
    }
    return part;
  }

  // Splits the columns over several tables. Each begins with the key columns, or with row numbers if the key columns
  // are too wide.
  std::string continued(const Indices& columns) const {
    Widths widths = natural_;
    Indices keys;
    for (const std::size_t column : columns) {
      if (column < table_.key_columns) keys.push_back(column);
    }
    std::size_t widest = 0;
    for (std::size_t i = keys.size(); i < columns.size(); ++i) widest = std::max(widest, widths[columns[i]]);
    const bool repeats = !keys.empty() && total(keys, widths) + kGap.size() + std::min(widest, width_ / 3) <= width_;
    if (!repeats) keys.clear();
    const std::string last_number = fmt::format("{}", table_.rows.size());
    const std::size_t first_width = repeats ? total(keys, widths) : std::max<std::size_t>(last_number.size(), 3);
    const std::size_t room = width_ > first_width + kGap.size() ? width_ - first_width - kGap.size() : 1;
    for (std::size_t i = keys.size(); i < columns.size(); ++i) {
      if (!table_.columns[columns[i]].is_right) widths[columns[i]] = std::min(widths[columns[i]], room);
    }
    std::string text;
    for (std::size_t next = keys.size(); next < columns.size();) {
      Indices shown = keys;
      std::size_t used = 0;
      while (next < columns.size() && (used == 0 || used + kGap.size() + widths[columns[next]] <= room)) {
        used += (used == 0 ? 0 : kGap.size()) + widths[columns[next]];
        shown.push_back(columns[next++]);
      }
      const bool is_first = text.empty();
      const TextTable part = section(shown, widths, !repeats, is_first);
      // Rows that failed stand in the first part alone.
      if (!is_first && part.rows.empty() && !table_.rows.empty()) break;
      text += (is_first ? "" : "\n") + Printer(part, width_).print();
    }
    return text;
  }

  const TextTable& table_;
  std::size_t width_;
  Widths natural_;  // without any wrapping
};

}  // namespace

std::string lay_out(const TextTable& table, std::size_t width, std::vector<std::string>& left_out) {
  return Layout(table, width).text(left_out);
}

}  // namespace ridgepoint::tables
