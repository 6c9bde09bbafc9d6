// The options --format, --output and --columns, and the writers of a command's results.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "record/record_table.h"
#include "ridgepoint/record/record.h"
#include "tables/table/render.h"

namespace CLI {
class App;
}

namespace ridgepoint::cli {

using tables::Format;
using tables::is_for_people;

struct OutputOptions {
  std::string format;                         // empty: by the file's extension, else table
  std::string path;                           // empty: standard output
  std::string unit = {};                      // of bytes in tables; empty: one that suits each
  std::string columns = {};                   // empty: the usual ones
  Experiment experiment = Experiment::bench;  // whose columns there are
  bool plot = false;

  void add_to(CLI::App& app);
  void add_columns_to(CLI::App& app, Experiment of);
  void add_plot_to(CLI::App& app);
  Format resolved_format() const;  // throws Error (usage) with the nearest name
  // Throws Error (usage) for an unknown column. Warns of a format that always has all columns.
  std::vector<std::string> resolved_columns() const;
  void check_plot() const;  // throws Error (usage) for a format that has no plots
  // What is wrong with the options, before anything runs, and before --ranks starts processes. Throws Error.
  void check() const;
};

// Writes a page while its items (runs, profiles) are being added. A file is rewritten after each item, except that
// rewriting takes at most a tenth of the time: a sweep of thousands of short rows stays linear. A warning says if
// another program wrote the file in between. Standard output gets an item at once if the format is csv or jsonl and the
// items are independent, and a terminal gets versions of a table, each over the one before, as often as a file
// (growing_page.h). Otherwise it gets the whole page at the end. What is not written yet is written by the destructor.
class PageWriter {
 public:
  // Makes the page of the items from `first` on.
  using MakePage = std::function<tables::Page(Format, std::size_t first)>;
  enum class Items : std::uint8_t { independent, one_table };
  // Throws Error when the file cannot be written.
  PageWriter(const OutputOptions& options, MakePage make_page, Items items = Items::one_table);
  ~PageWriter();
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;
  void item_added();
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  // Tells one version of a file from the next.
  struct FileVersion {
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const FileVersion&) const = default;
  };
  static std::optional<FileVersion> version_of(const std::string& path);
  void rewrite_file();
  void show_all();  // in the file or on the terminal
  bool streams() const;
  bool draws() const;
  std::string all(std::size_t width) const { return render(format_, make_page_(format_, 0), width); }

  Format format_;
  std::string path_;
  MakePage make_page_;
  Items items_;
  std::size_t item_count_ = 0;
  std::optional<FileVersion> written_;  // of the file, by this object
  bool is_special_file_ = false;        // a pipe or /dev/stdout: written only by finish()
  std::size_t shown_count_ = 0;         // of the items, by show_all()
  Clock::time_point next_show_;         // not before
};

// Writes one complete page.
void write(const OutputOptions& options, PageWriter::MakePage make_page);

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
  // Tables get columns of speedups over the baseline; call it before the first row.
  void compare_with(tables::RecordBaseline baseline) { baseline_ = std::move(baseline); }
  void finish() { writer_.finish(); }
  const std::vector<Record>& records() const { return records_; }

 private:
  void add_plots(tables::Page& page) const;

  std::vector<Record> records_;
  std::vector<std::string> columns_;
  std::optional<tables::RecordBaseline> baseline_;
  bool plot_;
  PageWriter writer_;
};

// The exit code of a sweep: a failure if a row is an error or all rows are unsupported, kExitNothingFits if no row fits
// into memory, or where all are wanted, if one does not.
enum class Fitting : std::uint8_t { any_row, all_rows };
int exit_code(std::span<const Record> records, Fitting wanted = Fitting::any_row);

}  // namespace ridgepoint::cli
