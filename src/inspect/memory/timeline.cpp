#include "inspect/memory/timeline.h"

#include <algorithm>

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kAxisNames = enum_names<TimelineAxis>("time", "events");

class TimelineBuilder {
 public:
  TimelineBuilder(const MemoryHistory& history, TimelineAxis axis, std::size_t columns)
      : history_(history), begin_(history.iterations[history.warmup]), end_(history.iterations.back()) {
    timeline_.axis = axis;
    timeline_.length = axis == TimelineAxis::events ? static_cast<double>(end_.end - begin_.begin)
                                                    : static_cast<double>(end_.end_ns - begin_.begin_ns) / 1e6;
    timeline_.columns.resize(std::max<std::size_t>(columns, 1));
  }

  Timeline build() {
    MemoryLevel level;
    std::size_t column = 0;
    for (std::size_t moment = 0; moment < end_.end; ++moment) {
      level.apply(history_.events[moment]);
      if (moment + 1 <= begin_.begin) continue;
      // The level before the next event lasts to the column of that event.
      const std::size_t last = moment + 1 < end_.end ? column_of(moment + 1) : timeline_.columns.size() - 1;
      column = std::max(column, column_of(moment));
      for (; column <= last; ++column) raise(timeline_.columns[column], level);
      column = last;
    }
    mark_phases();
    return std::move(timeline_);
  }

 private:
  static void raise(TimelineColumn& column, const MemoryLevel& level) {
    column.reserved_bytes = std::max(column.reserved_bytes, level.reserved_bytes);
    if (level.allocated_bytes > column.level.allocated_bytes) column.level = level;
  }

  // The column in which an event happens.
  std::size_t column_of(std::size_t event) const { return column_at(event, history_.events[event].time_ns); }
  std::size_t column_at(std::size_t event, std::int64_t time_ns) const {
    const double at = timeline_.axis == TimelineAxis::events ? static_cast<double>(event - begin_.begin)
                                                             : static_cast<double>(time_ns - begin_.begin_ns) / 1e6;
    const auto count = static_cast<double>(timeline_.columns.size());
    const double share = timeline_.length > 0 ? std::clamp(at / timeline_.length, 0.0, 1.0) : 0.0;
    return std::min(static_cast<std::size_t>(share * count), timeline_.columns.size() - 1);
  }

  void mark_phases() {
    for (const PhaseSpan& span : history_.phases) {
      if (span.iteration < history_.warmup) continue;
      for (std::size_t i = column_at(span.begin, span.begin_ns); i < timeline_.columns.size(); ++i) {
        timeline_.columns[i].phase = span.phase;
        timeline_.columns[i].iteration = span.iteration;
      }
    }
  }

  const MemoryHistory& history_;
  const HistorySpan& begin_;
  const HistorySpan& end_;
  Timeline timeline_;
};

}  // namespace

std::string_view name(TimelineAxis axis) { return kAxisNames[axis]; }
TimelineAxis timeline_axis_from_name(std::string_view text) { return kAxisNames.parse(text, "'{}' is unknown"); }

std::vector<TimelinePhase> phases_of(const Timeline& timeline) {
  std::vector<TimelinePhase> phases;
  for (std::size_t i = 0; i < timeline.columns.size(); ++i) {
    const TimelineColumn& here = timeline.columns[i];
    const bool begins =
        i == 0 || timeline.columns[i - 1].phase != here.phase || timeline.columns[i - 1].iteration != here.iteration;
    if (begins) phases.push_back({i, i, here.phase});
    phases.back().end = i + 1;
  }
  return phases;
}

Timeline make_timeline(const MemoryHistory& history, TimelineAxis axis, std::size_t columns) {
  return TimelineBuilder(history, axis, columns).build();
}

}  // namespace ridgepoint
