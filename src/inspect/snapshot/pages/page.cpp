#include "inspect/snapshot/pages/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/text/text.h"
#include "core/text/units.h"
#include "inspect/snapshot/pages/parts.h"

namespace ridgepoint::views {
namespace {

std::string caption_of(const SnapshotFileView& file, const SnapshotReport& report) {
  std::string text = fmt::format("{} ({}), device {}", printable(file.path), file.format, report.device);
  text += fmt::format("\n{} events", report.events);
  if (report.end_us > report.begin_us) {
    text += fmt::format(" in {} ms", format_ms(static_cast<double>(report.end_us - report.begin_us) / 1e3));
  }
  text += fmt::format("; {} segment{} and {} live block{} at the end", report.segments, report.segments == 1 ? "" : "s",
                      report.blocks, report.blocks == 1 ? "" : "s");
  return text + '\n' + history_sentence(report);
}

class Sections {
 public:
  Sections(const SnapshotReport& report, std::size_t top) : report_(report), top_(top == 0 ? SIZE_MAX : top) {}

  std::vector<Table> all() {
    add("Memory (active: allocated, or freed while a stream may still use it; reserved: all segments)",
        level_table(report_));
    tables_.back().remark = fragmentation_sentence(report_);
    if (report_.contents.categories.empty()) return finish();
    const std::uint64_t whole = report_.at_peak.allocated_bytes;
    add(report_.categories_inferred ? "At the peak, by category (inferred from lifetimes and frames)"
                                    : "At the peak, by category",
        category_table(report_.contents, whole));
    add("At the peak, by frame (the first that is not hidden)", origin_table(report_.contents, whole, top_));
    if (!report_.phases.empty()) add("Phases", phase_table(report_));
    return finish();
  }

 private:
  std::vector<Table> finish() {
    failures();
    add("Growth between repetitions", report_.leaks.groups.empty() ? Table{} : leak_table(report_.leaks, top_));
    tables_.back().remark = leak_sentence(report_.leaks);
    add("Rise and fall", {});
    tables_.back().remark = sawtooth_sentence(report_.sawtooth);
    if (report_.retries.count > 0) {
      add("Allocator retries", {});
      tables_.back().remark = retry_sentence(report_.retries);
    }
    if (!report_.remarks.empty()) {
      add("Remarks", {});
      tables_.back().remark = fmt::format("{}", fmt::join(report_.remarks, "\n"));
    }
    return std::move(tables_);
  }

  void failures() {
    const std::size_t shown = std::min(report_.out_of_memory.size(), top_);
    for (std::size_t i = 0; i < shown; ++i) {
      const SnapshotOutOfMemory& failure = report_.out_of_memory[i];
      add(fmt::format("Out of memory {} of {}", i + 1, report_.out_of_memory.size()),
          category_table(failure.held, failure.levels.allocated_bytes));
      tables_.back().remark = failure_sentence(failure, report_.begin_us);
      constexpr std::size_t kMostFrames = 5;
      add("Held then, by frame",
          origin_table(failure.held, failure.levels.allocated_bytes, std::min(kMostFrames, top_)));
    }
  }

  void add(std::string title, Table table) {
    table.title = std::move(title);
    tables_.push_back(std::move(table));
  }

  const SnapshotReport& report_;
  std::size_t top_;
  std::vector<Table> tables_;
};

}  // namespace

Page snapshot_page(const SnapshotFileView& file, std::size_t top, Format format) {
  Page page;
  page.shown_by = "A wider terminal or --format json";
  if (format == Format::csv) {
    page.tables.push_back(snapshot_rows(file));
    return page;
  }
  for (const SnapshotReport& report : file.devices) {
    if (!is_for_people(format)) {
      page.documents.push_back(dump_json(snapshot_json(file, report)));
      continue;
    }
    std::vector<Table> tables = Sections(report, top).all();
    tables.front().caption = caption_of(file, report);
    std::ranges::move(tables, std::back_inserter(page.tables));
  }
  if (file.devices.empty() && is_for_people(format)) {
    page.tables.emplace_back().caption =
        fmt::format("{} ({})\nThe snapshot has no segments and no events.", printable(file.path), file.format);
  }
  return page;
}

}  // namespace ridgepoint::views
