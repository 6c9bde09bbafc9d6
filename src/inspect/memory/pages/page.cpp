#include "inspect/memory/pages/page.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "inspect/memory/pages/parts.h"
#include "record/parallel_choices.h"
#include "record/record_table.h"

namespace ridgepoint::views {
namespace {

constexpr const char* kRanksTitle = "Each rank: allocated, in the last iteration around the optimizer";

class Sections {
 public:
  Sections(const MemoryRun& run, const MemoryViewOptions& options, Format format)
      : run_(run), options_(options), format_(format) {}

  std::vector<Table> all() {
    levels();
    ranks();
    if (format_ == Format::table)  // a drawing in characters is none in a browser
      add("Timeline", timeline_chart(run_.history, axis_of(run_, options_), options_.width));
    add("What each phase's peak is made of", phase_table(run_.peaks));
    if (const std::optional<HeldMemory>& held = run_.peaks.before_backward)
      saved("Saved for backward, before it begins", *held);
    else if (run_.run.mode == Mode::training_forward)
      saved("Saved for backward, at the peak", highest());
    add("At the peak, by op and module", group_table(highest(), std::nullopt, top()));
    add("The largest allocations of an iteration", request_table(run_.requests, top()));
    tables_.back().remark = residual_sentence(run_);
    if (run_.sawtooth) {
      add("Rise and fall", {});
      tables_.back().remark = sawtooth_sentence(run_);
    }
    return std::move(tables_);
  }

 private:
  std::size_t top() const { return options_.top == 0 ? SIZE_MAX : options_.top; }
  const HeldMemory& highest() const { return run_.peaks.phases[run_.peaks.highest].contents; }

  void add(std::string title, Table table) {
    table.title = std::move(title);
    tables_.push_back(std::move(table));
  }

  void levels() {
    add("Memory (requested: before rounding; reserved: taken from the device)", level_table(run_));
    tables_.back().caption = records_caption(std::span(&run_.run, 1));
    tables_.back().remark = device_sentence(run_.run);
    tables_.back().note = parallel_choice_notes(std::span(&run_.run, 1));
  }

  void ranks() {
    if (!run_.ranks.empty()) add(kRanksTitle, rank_table(std::span(&run_, 1)));
  }

  void saved(const char* title, const HeldMemory& held) {
    Table table = group_table(held, MemoryCategory::activation, top());
    if (!table.rows.empty()) add(title, std::move(table));
  }

  const MemoryRun& run_;
  const MemoryViewOptions& options_;
  Format format_;
  std::vector<Table> tables_;
};

constexpr std::string_view kUsualColumns[] = {"peak_allocated", "peak_reserved", "before_backward", "peak_phase"};

}  // namespace

TimelineAxis axis_of(const MemoryRun& run, const MemoryViewOptions& options) {
  return options.axis.value_or(run.run.device.kind == "null" ? TimelineAxis::events : TimelineAxis::time);
}

Page memory_page(std::span<const MemoryRun> runs, const MemoryViewOptions& options, Format format) {
  if (format == Format::json || format == Format::jsonl) {
    Page page;
    for (const MemoryRun& run : runs) page.documents.push_back(dump_json(memory_json(run)));
    return page;
  }
  const bool is_whole = runs.size() == 1 && !runs.front().history.events.empty();
  if (is_whole && is_for_people(format) && options.columns.empty()) {
    Page page;
    page.shown_by = "A wider terminal or --format json";
    page.tables = Sections(runs.front(), options, format).all();
    return page;
  }
  std::vector<Record> records;
  for (const MemoryRun& run : runs) records.push_back(run.run);
  const std::vector<std::string> usual(std::begin(kUsualColumns), std::end(kUsualColumns));
  Page page = records_page(records, format, options.columns.empty() ? std::span(usual) : options.columns);
  if (!is_for_people(format)) return page;
  Table ranks = rank_table(runs);
  ranks.title = kRanksTitle;
  if (!ranks.rows.empty()) page.tables.push_back(std::move(ranks));
  return page;
}

}  // namespace ridgepoint::views
