// A table of text cells, as aligned columns for a terminal or as Markdown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint::cli {

// Columns a person can read text down.
std::size_t display_width(std::string_view utf8);

// `text` broken at blanks into lines of at most `width` columns where its words allow; lines after the first are
// indented. Line breaks in it stay. No newline at the end.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent = 0);

// `text` broken into lines of at most `width` columns, whatever is in it: behind a blank where there is one, or else
// punctuation.
std::string wrap_cell(std::string_view text, std::size_t width);

class TextTable {
 public:
  enum class Align { left, right };
  void add_column(std::string heading, Align align);
  std::size_t columns() const { return headings_.size(); }

  // A cell may have several lines; so does the row then.
  void add_row(std::vector<std::string> cells);
  // A row whose first cells are given and whose rest is one remark across the remaining columns. The remark never
  // widens a column.
  void add_remark(std::vector<std::string> cells, std::string remark);

  // Both end in a newline; the terminal form has no blanks at the end of a line. Remarks are wrapped to `width`; in
  // Markdown they have a last column of their own.
  std::string text(std::size_t width = SIZE_MAX) const;
  std::string markdown() const;
  std::size_t width() const;  // of text(), remarks aside

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string remark;
  };
  std::vector<std::size_t> widths() const;
  std::string row_text(const Row& row, const std::vector<std::size_t>& widths, std::size_t width) const;
  std::string cells_text(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<std::string> headings_;
  std::vector<Align> alignments_;
  std::vector<Row> rows_;
};

}  // namespace ridgepoint::cli
