#include "inspect/memory/pages/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/memory_category.h"
#include "core/text/text.h"
#include "core/text/units.h"
#include "inspect/memory/pages/parts.h"
#include "record/record_table.h"

namespace ridgepoint::tables {
namespace {

constexpr const char* kRanksTitle = "Each rank: allocated, in the last iteration around the optimizer";
constexpr std::string_view kUsualColumns[] = {"peak_allocated", "peak_reserved", "before_backward", "peak_phase"};

// The sections of a page for people. Those that have nothing to show are left out.
class Sections {
 public:
  // `run` is null for a file, `timeline` where none is drawn, and `replay` where none was made.
  Sections(const MemoryReport& report, const Timeline* timeline, const MemoryRun* run, std::size_t top,
           const MemoryReplay* replay = nullptr)
      : report_(report), timeline_(timeline), run_(run), replay_(replay), top_(top == 0 ? SIZE_MAX : top) {}

  // What was held when requests failed.
  std::vector<Table> failures() {
    of_failures();
    return std::move(tables_);
  }

  std::vector<Table> all() {
    levels();
    if (run_ != nullptr && !run_->ranks.empty()) add(kRanksTitle, rank_table(std::span(run_, 1)));
    if (timeline_ != nullptr && report_.events > 0) add("Timeline", timeline_chart(*timeline_));
    contents();
    if (run_ == nullptr) of_file();
    if (run_ == nullptr || report_.sawtooth.cycles > 0) {
      remark("Rise and fall",
             sawtooth_sentence(report_, run_ != nullptr, run_ != nullptr ? run_->work_problem : std::string()));
    }
    if (run_ == nullptr && report_.retries.count > 0) remark("Allocator retries", retry_sentence(report_.retries));
    if (run_ == nullptr && !report_.remarks.empty()) {
      remark("Remarks", fmt::format("{}", fmt::join(report_.remarks, "\n")));
    }
    return std::move(tables_);
  }

 private:
  void add(std::string title, Table table) {
    table.title = std::move(title);
    tables_.push_back(std::move(table));
  }
  void remark(std::string title, std::string text) {
    add(std::move(title), {});
    tables_.back().remark = std::move(text);
  }

  void levels() {
    add(run_ != nullptr ? "Memory (requested: before rounding; reserved: taken from the device)"
                        : "Memory (active: allocated, or freed while a stream may still use it; requested: before "
                          "rounding; reserved: all segments)",
        level_table(report_, run_ != nullptr));
    Table& table = tables_.back();
    table.remark = viewer_sentence(report_);
    const auto add_sentence = [&](const std::string& more) {
      if (!more.empty()) table.remark += '\n' + more;
    };
    add_sentence(run_ != nullptr ? device_sentence(run_->run) : fragmentation_sentence(report_));
    if (run_ != nullptr) add_sentence(host_sentence(run_->run));
    if (run_ == nullptr) return;
    table.caption = records_caption(std::span(&run_->run, 1));
    table.note = parallel_choice_notes(std::span(&run_->run, 1)) + schedule_notes(std::span(&run_->run, 1));
    if (std::optional<Table> parts = schedule_table(std::span(&run_->run, 1))) tables_.push_back(std::move(*parts));
  }

  void contents() {
    const MemoryContents& peak = report_.contents;
    if (peak.categories.empty()) return;
    if (!report_.phase_peaks.empty()) add("What each phase's peak is made of", phase_peak_table(report_.phase_peaks));
    if (run_ == nullptr) {
      add(report_.categories_inferred ? "At the peak, by category (inferred from lifetimes and frames)"
                                      : "At the peak, by category",
          category_table(peak));
    }
    if (!report_.has_modules) {
      add("At the peak, by frame (the innermost of your own files)", origin_table(peak, top_));
    } else {
      if (report_.before_backward)
        saved("Saved for backward, before it begins", *report_.before_backward);
      else if (run_ != nullptr && run_->run.mode == Mode::training_forward)
        saved("Saved for backward, at the peak", peak);
      if (report_.block) of_block(*report_.block);
      add("At the peak, by op and module", group_table(peak, std::nullopt, top_));
    }
    if (run_ != nullptr) {
      add("The largest allocations of an iteration", request_table(run_->requests, top_));
      tables_.back().remark = residual_sentence(*run_);
    } else if (!report_.phases.empty()) {
      add("Phases", annotation_table(report_));
    }
  }

  void saved(const char* title, const MemoryContents& contents) {
    Table table = group_table(contents, "activation", top_);
    if (!table.rows.empty()) add(title, std::move(table));
  }

  void of_block(const BlockContents& block) {
    add(fmt::format("Saved for backward by one block, {}", block.name),
        group_table(block.saved, name(MemoryCategory::activation), fewer_rows()));
    tables_.back().remark = block_sentence(block);
  }

  // Of a table that stands beside larger ones.
  std::size_t fewer_rows() const {
    constexpr std::size_t kFewer = 5;
    return top_ == SIZE_MAX ? top_ : std::min(kFewer, top_);
  }

  void of_failures() {
    const std::size_t shown = std::min(report_.out_of_memory.size(), top_);
    for (std::size_t i = 0; i < shown; ++i) {
      const OutOfMemoryEvent& failure = report_.out_of_memory[i];
      add(fmt::format("Out of memory {} of {}", i + 1, report_.out_of_memory.size()), category_table(failure.held));
      tables_.back().remark = failure_sentence(failure, report_.begin_us);
      const std::size_t rows = fewer_rows();
      if (report_.has_modules) {
        add("Held then, by op and module", group_table(failure.held, std::nullopt, rows));
      } else {
        add("Held then, by frame", origin_table(failure.held, rows));
      }
    }
  }

  void of_file() {
    of_failures();
    if (!report_.out_of_memory.empty()) {
      const std::string avoided = replay_ != nullptr ? avoidance_sentence(*replay_) : std::string();
      remark("What would have avoided it",
             avoided + (avoided.empty() ? "" : "\n") +
                 "`ridgepoint snapshot FILE --replay` shows the figures of each setting of the allocator, and how much "
                 "memory suffices.");
    }
    const MemoryLeaks& leaks = report_.leaks;
    if (leaks.basis == MemoryLeaks::Basis::none) return;
    add(leaks.basis == MemoryLeaks::Basis::window ? "Growth" : "Growth between repetitions",
        leaks.groups.empty() ? Table{} : leak_table(leaks, top_));
    tables_.back().remark = leak_sentence(leaks);
  }

  const MemoryReport& report_;
  const Timeline* timeline_;
  const MemoryRun* run_;
  const MemoryReplay* replay_;
  std::size_t top_;
  std::vector<Table> tables_;
};

std::string ms_after(std::int64_t begin_us, std::int64_t time_us) {
  return format_ms(static_cast<double>(time_us - begin_us) / 1e3);
}

std::string caption_of(const SnapshotFileView& file, const MemoryReport& report) {
  std::string text = fmt::format("{} ({}), device {}", printable(file.path), file.format, report.device);
  text += fmt::format("\n{} events", report.events);
  if (report.end_us > report.begin_us) {
    text += fmt::format(" in {} ms", ms_after(report.begin_us, report.end_us));
  }
  text += fmt::format("; {} segment{} and {} live block{} at the end", report.segments, report.segments == 1 ? "" : "s",
                      report.blocks, report.blocks == 1 ? "" : "s");
  const MemoryWindow& window = report.window;
  if (window.is_range) {
    text += fmt::format("\nOnly events {} to {} count", window.begin.moment + 1, window.end.moment);
    if (report.has_times)
      text += fmt::format(", {} to {} ms after the first", ms_after(report.begin_us, window.begin.time_us),
                          ms_after(report.begin_us, window.end.time_us));
    text += "; segments and blocks are those at the end of the file.";
  } else if (window.begin.moment > 0) {
    text += fmt::format("\nThe first {} events, those of the warm-up, do not count for peaks.", window.begin.moment);
  }
  return text + '\n' + history_sentence(report);
}

Table replay_section(const MemoryReplay* replay) {
  Table table;
  if (replay == nullptr) {
    table.remark = "This device has no history to replay.";
    return table;
  }
  table = replay_table(*replay);
  table.title = fmt::format("{} requests, asked of PyTorch's allocator again", replay->allocations);
  table.remark = replay_sentences(*replay);
  return table;
}

Page page_of_run(const MemoryRun& run, const MemoryViewOptions& options, Format format) {
  Page page;
  page.shown_by = "A wider terminal or --format json";
  std::optional<Timeline> timeline;
  if (format == Format::table)  // a drawing in characters is none in a browser
    timeline = make_timeline(run.snapshot, run.memory, axis_of(run, options), timeline_columns(options.width));
  page.tables = Sections(run.memory.report, timeline ? &*timeline : nullptr, &run, options.top).all();
  return page;
}

}  // namespace

TimelineAxis axis_of(const MemoryRun& run, const MemoryViewOptions& options) {
  const TimelineAxis usual = usual_axis(run.memory.report);  // events where there are no times
  return usual == TimelineAxis::time ? options.axis.value_or(usual) : usual;
}

Page memory_page(std::span<const MemoryRun> runs, const MemoryViewOptions& options, Format format) {
  if (format == Format::json || format == Format::jsonl) {
    Page page;
    for (const MemoryRun& run : runs) page.documents.push_back(dump_json(memory_json(run)));
    return page;
  }
  const bool is_alone = runs.size() == 1 && runs.front().has_events() && is_for_people(format);
  if (is_alone && runs.front().has_figures() && options.columns.empty())
    return page_of_run(runs.front(), options, format);
  std::vector<Record> records;
  for (const MemoryRun& run : runs) records.push_back(run.run);
  const std::vector<std::string> usual(std::begin(kUsualColumns), std::end(kUsualColumns));
  Page page = records_page(records, format, options.columns.empty() ? std::span(usual) : options.columns);
  if (!is_for_people(format)) return page;
  if (is_alone && !runs.front().has_figures())
    std::ranges::move(Sections(runs.front().memory.report, nullptr, &runs.front(), options.top).failures(),
                      std::back_inserter(page.tables));
  Table ranks = rank_table(runs);
  ranks.title = kRanksTitle;
  if (!ranks.rows.empty()) page.tables.push_back(std::move(ranks));
  return page;
}

Page snapshot_page(const SnapshotFileView& file, std::size_t top, Format format) {
  Page page;
  page.shown_by = "A wider terminal or --format json";
  if (format == Format::csv) {
    page.tables.push_back(file.shows_replays ? replay_rows(file) : snapshot_rows(file));
    return page;
  }
  for (std::size_t i = 0; i < file.devices.size(); ++i) {
    const MemoryReport& report = file.devices[i];
    const MemoryReplay* replay = i < file.replays.size() && file.replays[i] ? &*file.replays[i] : nullptr;
    if (!is_for_people(format)) {
      Json json = snapshot_json(file, report);
      if (file.shows_replays && replay != nullptr) json["replay"] = json_of(*replay);
      page.documents.push_back(dump_json(json));
      continue;
    }
    if (file.shows_replays) {
      page.tables.push_back(replay_section(replay));
      page.tables.back().caption = caption_of(file, report);
      continue;
    }
    const bool is_drawn = format == Format::table && i < file.timelines.size();
    std::vector<Table> tables = Sections(report, is_drawn ? &file.timelines[i] : nullptr, nullptr, top, replay).all();
    tables.front().caption = caption_of(file, report);
    std::ranges::move(tables, std::back_inserter(page.tables));
  }
  if (file.devices.empty() && is_for_people(format)) {
    page.tables.emplace_back().caption =
        fmt::format("{} ({})\nThe snapshot has no segments and no events.", printable(file.path), file.format);
  }
  return page;
}

}  // namespace ridgepoint::tables
