#include "cli/options/output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "cli/options/choices.h"
#include "cli/options/sweep.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/growing_page.h"
#include "cli/terminal/messages.h"
#include "cli/terminal/width.h"
#include "core/files/file.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "core/warning.h"
#include "record/columns.h"
#include "record/record_plot.h"
#include "record/record_table.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

bool is_special_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

}  // namespace

void OutputOptions::add_to(CLI::App& app) {
  const OptionGroup output(app, "Output");
  output.add("--format", format, "NAME",
             "table, markdown, csv, json or jsonl [by the extension of --output, else table]",
             {tables::kFormatNames.all().begin(), tables::kFormatNames.all().end()}, Takes::one);
  output.add("--output", path, "FILE", "write to this file; it is rewritten as rows finish [standard output]");
  output.add(
      "--unit", unit, "NAME",
      fmt::format("print bytes of tables in this unit: {} [one that suits each]", fmt::join(kPrintedByteUnits, ", ")),
      {kPrintedByteUnits.begin(), kPrintedByteUnits.end()}, Takes::one);
}

void OutputOptions::add_columns_to(CLI::App& app, Experiment of) {
  experiment = of;
  const std::vector<std::string_view> names = column_names(of);
  OptionGroup(app, "Output")
      .add("--columns", columns, "NAMES",
           fmt::format("print these measurements and settings instead of the usual ones: {}, and any heading of a "
                       "setting; docs/record.md explains them",
                       fmt::join(names, ", ")),
           names, Takes::list);
}

void OutputOptions::add_plot_to(CLI::App& app) {
  OptionGroup(app, "Output")
      .add_flag("--plot", plot,
                "below the table, draw time and peak memory over the size that takes the most values (three at least)");
}

void OutputOptions::check_plot() const {
  if (!plot || resolved_format() == Format::table) return;
  refuse("--plot draws with characters below a table; leave --format {} out", name(resolved_format()));
}

void OutputOptions::check() const {
  resolved_columns();
  resolved_format();
  if (!unit.empty()) parse_option("--unit", unit, [](std::string_view text) { return write_bytes_in(text); });
  if (!path.empty() && is_first_rank()) check_writable(path);
}

std::vector<std::string> OutputOptions::resolved_columns() const {
  if (columns.empty()) return {};
  if (const Format to = resolved_format(); !is_for_people(to)) {
    warn_once("columns",
              fmt::format("--columns chooses columns of table and markdown; {} always has every field", name(to)));
  }
  const std::vector<std::string_view> known = column_names(experiment);
  std::vector<std::string> names = parse_option("--columns", columns, split_list);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end() || find_setting(name) != nullptr) continue;
    const std::string near = nearest(name, known);
    refuse(
        "--columns: '{}' is unknown; {}", name,
        near.empty() ? fmt::format("available: {}", fmt::join(known, ", ")) : fmt::format("did you mean '{}'?", near));
  }
  return names;
}

Format OutputOptions::resolved_format() const {
  if (!format.empty()) return tables::kFormatNames.parse(format, "--format: '{}' is unknown");
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".md") return Format::markdown;
  constexpr std::array<std::string_view, 6> kOthers = {".svg", ".png", ".pdf", ".html", ".xlsx", ".pickle"};
  if (std::ranges::find(kOthers, ending) != kOthers.end()) {
    refuse(
        "--output: no table is written as {0}; it may end in .md, .csv, .json, .jsonl or .txt. memory --timeline "
        "writes .svg, memory --snapshot .pickle, report --output .html; --format table writes text into a file of any "
        "name",
        ending);
  }
  return tables::kFormatNames.find(ending.empty() ? ending : ending.substr(1)).value_or(Format::table);
}

PageWriter::PageWriter(const OutputOptions& options, MakePage make_page, Items items)
    : format_(options.resolved_format()), path_(options.path), make_page_(std::move(make_page)), items_(items) {
  options.check();
  if (!is_first_rank()) path_.clear();  // what the others print goes nowhere
  if (!path_.empty()) is_special_file_ = is_special_file(path_);
}

bool PageWriter::streams() const {
  return path_.empty() && items_ == Items::independent && (format_ == Format::jsonl || format_ == Format::csv);
}

bool PageWriter::draws() const { return path_.empty() && format_ == Format::table && can_draw_pages(); }

std::optional<PageWriter::FileVersion> PageWriter::version_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return FileVersion{status.st_ino, status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
}

void PageWriter::rewrite_file() {
  if (written_ && version_of(path_) != written_) {
    warn_once("written by another: " + path_,
              fmt::format("another program wrote '{}' too, or removed it; it has the rows of the one that writes last: "
                          "give each run a file of its own",
                          path_));
  }
  write_file(path_, all(SIZE_MAX));
  written_ = version_of(path_);
}

void PageWriter::show_all() {
  constexpr int kLeastTimesAsLong = 9;  // between two versions, as it takes to write one
  const Clock::time_point begin = Clock::now();
  if (!path_.empty() && !is_special_file_) rewrite_file();
  if (draws()) draw_page(all(output_width()));
  shown_count_ = item_count_;
  next_show_ = Clock::now() + kLeastTimesAsLong * (Clock::now() - begin);
}

PageWriter::~PageWriter() {
  if (shown_count_ == item_count_) return;
  try {
    show_all();
  } catch (const std::exception&) {  // another one is on its way
  }
}

void PageWriter::item_added() {
  ++item_count_;
  if (Clock::now() >= next_show_) show_all();
  if (!streams()) return;
  const tables::Page page = make_page_(format_, item_count_ - 1);
  print_output(item_count_ == 1 ? render(format_, page) : render_continued(format_, page));
}

void PageWriter::finish() {
  if (shown_count_ < item_count_) show_all();
  if (is_special_file_) {
    write_file(path_, all(SIZE_MAX));
  } else if (draws()) {
    draw_last_page(all(output_width()));
  } else if (path_.empty() && !streams()) {
    print_output(all(output_width()));
  }
}

void write(const OutputOptions& options, PageWriter::MakePage make_page) {
  PageWriter writer(options, std::move(make_page));
  writer.item_added();
  writer.finish();
}

RecordWriter::RecordWriter(const OutputOptions& options)
    : columns_(options.resolved_columns()),
      plot_(options.plot),
      writer_(
          options,
          [this](Format format, std::size_t first) {
            tables::Page page = tables::records_page(std::span(records_).subspan(first), format, columns_, baseline_);
            if (plot_) add_plots(page);
            return page;
          },
          PageWriter::Items::independent) {
  options.check_plot();
}

void RecordWriter::add_plots(tables::Page& page) const {
  std::vector<tables::Table> plots = tables::record_plots(records_, output_width());
  if (plots.empty() && !page.tables.empty()) {
    std::string& note = page.tables.back().note;
    if (!note.empty()) note += "\n\n";
    note +=
        "There is nothing to plot: no size has three values. Give one a list or a range, such as --context "
        "128:1024:*2.";
  }
  std::ranges::move(plots, std::back_inserter(page.tables));
}

int exit_code(std::span<const Record> records, Fitting wanted) {
  const auto is = [](RunStatus status) { return [status](const Record& record) { return record.status == status; }; };
  const bool failed = std::ranges::any_of(records, is(RunStatus::error));
  if (failed || std::ranges::all_of(records, is(RunStatus::unsupported))) return kExitFailure;
  const auto fits = [](const Record& record) {
    return record.status == RunStatus::ok && (!record.plan || record.plan->fits.value_or(true));
  };
  const bool is_enough =
      wanted == Fitting::all_rows ? std::ranges::all_of(records, fits) : std::ranges::any_of(records, fits);
  return is_enough ? kExitOk : kExitNothingFits;
}

}  // namespace ridgepoint::cli
