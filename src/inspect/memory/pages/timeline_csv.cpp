#include <string>

#include "inspect/memory/origin.h"
#include "inspect/memory/pages/files.h"
#include "tables/table/render.h"
#include "tables/table/table.h"

namespace ridgepoint::views {
namespace {

// A history may have millions of events, and a row of cells takes far more memory than its line of text.
constexpr std::size_t kRowsAtOnce = 4096;

Table timeline_table() {
  Table table;
  for (const char* key : {"event", "time_ms", "iteration", "phase", "action", "address", "bytes", "requested_bytes",
                          "category", "op", "module", "source", "allocated_bytes", "reserved_bytes"}) {
    table.columns.push_back({key, key});
  }
  return table;
}

Cell count_cell(std::uint64_t count) { return static_cast<std::int64_t>(count); }
Cell name_cell(std::string_view name) { return text_cell(std::string(name)); }

class TimelineRows {
 public:
  explicit TimelineRows(const MemoryRun& run)
      : run_(run), has_times_(run.run.device.kind != "null"), span_(run.history.phases.begin()) {}

  // Of the event before the moment. Moments ascend.
  Cells cells(std::size_t moment, const MemoryEvent& event, const MemoryLevel& level) {
    const std::size_t index = moment - 1;
    const std::vector<PhaseSpan>& phases = run_.history.phases;
    while (span_ != phases.end() && span_->end <= index) ++span_;
    const bool is_in_phase = span_ != phases.end() && span_->begin <= index;
    const bool is_block = event.kind == MemoryEventKind::alloc || event.kind == MemoryEventKind::free;
    const Node* node = event.node == kNoNode ? nullptr : &run_.graph().node(NodeId{event.node});
    return {count_cell(index),
            has_times_ ? Cell(static_cast<double>(event.time_ns - begin_ns()) / 1e6) : Cell(),
            is_in_phase ? count_cell(span_->iteration + 1) : Cell(),
            is_in_phase ? name_cell(name(span_->phase)) : Cell(),
            name_cell(name(event.kind)),
            count_cell(event.kind == MemoryEventKind::oom ? 0 : event.address),
            count_cell(event.bytes),
            count_cell(event.requested_bytes),
            is_block ? name_cell(name(event.category)) : Cell(),
            node ? name_cell(op_of(*node)) : Cell(),
            node ? name_cell(module_of(run_.graph(), *node)) : Cell(),
            node ? name_cell(run_.graph().source_name(*node)) : Cell(),
            count_cell(level.allocated_bytes),
            count_cell(level.reserved_bytes)};
  }

 private:
  std::int64_t begin_ns() const { return run_.history.events.front().time_ns; }

  const MemoryRun& run_;
  bool has_times_;
  std::vector<PhaseSpan>::const_iterator span_;
};

}  // namespace

std::string timeline_csv(const MemoryRun& run) {
  Page page{.tables = {timeline_table()}};
  std::vector<Row>& rows = page.tables.front().rows;
  std::string text = render(Format::csv, page);
  TimelineRows timeline(run);
  walk_levels(run.history, [&](std::size_t moment, const MemoryEvent& event, const MemoryLevel& level) {
    rows.push_back({timeline.cells(moment, event, level), ""});
    if (rows.size() < kRowsAtOnce && moment < run.history.events.size()) return;
    text += render_continued(Format::csv, page);
    rows.clear();
  });
  return text;
}

}  // namespace ridgepoint::views
