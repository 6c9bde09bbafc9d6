// Where what a command shows goes: --format and --output, registered once for every command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/record.h"
#include "views/table/render.h"

namespace CLI {
class App;
}

namespace ridgepoint::cli {

using views::Format;
using views::is_for_people;

// Throws Error (usage) naming the nearest.
Format format_from_name(std::string_view text);

struct OutputOptions {
  enum class Rows : std::uint8_t { models, attention_calls };

  std::string format;        // empty: by the file's ending, else a table
  std::string path;          // empty: standard output
  std::string columns = {};  // empty: the usual ones
  Rows rows = Rows::models;

  void add_to(CLI::App& app);
  void add_columns_to(CLI::App& app, Rows of);
  Format resolved_format() const;
  // Throws Error (usage) for a name there is no column of, and for a format that has them all.
  std::vector<std::string> resolved_columns() const;
};

// Puts a page out as what it shows grows. A file is replaced, whole, after each item; standard output gets the rows of
// an item at once where the format allows (csv, jsonl) and its rows stand apart from those of others, the rest with
// finish().
class PageWriter {
 public:
  // Of the items from `first` on.
  using MakePage = std::function<views::Page(Format, std::size_t first)>;
  enum class Items : std::uint8_t { stand_apart, make_one_table };
  // Throws Error when the file cannot be written.
  PageWriter(const OutputOptions& options, MakePage make_page, Items items);
  void item_added();
  void finish();
  const std::string& path() const { return path_; }

 private:
  bool streams() const;
  std::string all(std::size_t width) const { return render(format_, make_page_(format_, 0), width); }

  Format format_;
  std::string path_;
  MakePage make_page_;
  Items items_;
  std::size_t item_count_ = 0;
  bool is_special_file_ = false;  // a pipe or /dev/stdout: written once, by finish()
};

// One table, complete.
void write(const OutputOptions& options, const views::Table& table);

class RecordWriter {
 public:
  // Throws Error when the file cannot be written.
  explicit RecordWriter(const OutputOptions& options);
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void add(Record record) {
    records_.push_back(std::move(record));
    writer_.item_added();
  }
  void finish() { writer_.finish(); }
  const std::vector<Record>& records() const { return records_; }
  const std::string& path() const { return writer_.path(); }

 private:
  std::vector<Record> records_;
  std::vector<std::string> columns_;
  PageWriter writer_;
};

// Of a sweep: running out of memory is an answer; an error is none, nor is a sweep that nothing here can run.
int exit_code(std::span<const Record> records);
// Columns of the terminal on standard output; SIZE_MAX where it is none.
std::size_t output_width();
// Throws the Error that writing the file would, and leaves it as it is: found out now, not after the run.
void check_writable(const std::string& path);
// Writes to standard output and flushes. Throws Error when that fails (a full disk behind a redirection).
void print_output(std::string_view text);
// One line on standard error: `ridgepoint: message`.
void print_error(std::string_view message);

}  // namespace ridgepoint::cli
