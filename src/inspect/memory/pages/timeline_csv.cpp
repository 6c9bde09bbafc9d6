#include <string>

#include "inspect/memory/contents.h"
#include "inspect/memory/pages/parts.h"
#include "tables/table/render.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {
namespace {

// A history may have millions of events, and a row of cells takes far more memory than its line of text.
constexpr std::size_t kRowsAtOnce = 4096;

Table timeline_table() {
  return with_columns({"event", "time_ms", "iteration", "phase", "action", "address", "bytes", "requested_bytes",
                       "category", "op", "module", "source", "allocated_bytes", "reserved_bytes"});
}

Cell name_cell(std::string_view name) { return text_cell(std::string(name)); }

class TimelineRows {
 public:
  explicit TimelineRows(const MemoryRun& run)
      : run_(run), history_(history_of(run.snapshot, 0)), phase_(run.memory.report.phases.begin()) {}

  // Of the event before the moment. Moments ascend.
  Cells cells(std::size_t moment, const MemoryHistory::Event& event, const MemoryLevels& levels) {
    const std::vector<MemoryPhase>& phases = run_.memory.report.phases;
    for (; phase_ != phases.end() && (phase_->depth == 0 || phase_->end.moment < moment); ++phase_)
      iteration_ += phase_->depth == 0 ? 1 : 0;
    const bool is_in_phase = phase_ != phases.end() && phase_->begin.moment < moment;
    const bool is_block = event.kind == MemoryEventKind::alloc || event.kind == MemoryEventKind::free;
    const MemoryHistory::Request& request = history_.request(event.request);
    const bool has_rounding = request.rounding_bytes != MemoryHistory::Request::kUnknownRounding;
    const OriginPlace place = place_of(run_.snapshot, request.origin);
    return {count_cell(moment - 1),
            run_.memory.report.has_times ? Cell(static_cast<double>(event.time_us - run_.memory.report.begin_us) / 1e3)
                                         : Cell(),
            is_in_phase ? count_cell(iteration_) : Cell(),
            is_in_phase ? name_cell(phase_->name) : Cell(),
            name_cell(name(event.kind)),
            count_cell(event.kind == MemoryEventKind::oom ? 0 : history_.address(event.place)),
            count_cell(request.size_bytes + (has_rounding ? request.rounding_bytes : 0)),
            count_cell(request.size_bytes),
            is_block ? name_cell(category_name(run_.snapshot, request.category)) : Cell(),
            name_cell(place.op),
            name_cell(place.module),
            name_cell(place.source),
            count_cell(levels.allocated_bytes),
            count_cell(levels.reserved_bytes)};
  }

 private:
  const MemoryRun& run_;
  const MemoryHistory& history_;
  std::vector<MemoryPhase>::const_iterator phase_;
  std::uint64_t iteration_ = 0;
};

}  // namespace

std::string timeline_csv(const MemoryRun& run) {
  Page page{.tables = {timeline_table()}};
  std::vector<Row>& rows = page.tables.front().rows;
  std::string text = render(Format::csv, page);
  TimelineRows timeline(run);
  walk_levels(
      history_of(run.snapshot, 0), run.memory.lifetimes, {},
      [&](std::size_t moment, const MemoryHistory::Event& event, const LifeTracker::Step&, const MemoryLevels& levels) {
        rows.push_back({timeline.cells(moment, event, levels), ""});
        if (rows.size() < kRowsAtOnce && moment < run.memory.report.events) return;
        text += render_continued(Format::csv, page);
        rows.clear();
      });
  return text;
}

}  // namespace ridgepoint::tables
