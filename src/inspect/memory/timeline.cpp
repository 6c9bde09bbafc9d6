#include "inspect/memory/timeline.h"

#include <algorithm>
#include <utility>

#include "core/types/enum_names.h"
#include "inspect/memory/contents.h"

namespace ridgepoint {
namespace {

constexpr auto kAxisNames = enum_names<TimelineAxis>("time", "events");

// Of ours, and those that are inferred of files of PyTorch.
std::size_t layer_of(std::string_view category) {
  if (category == "parameter" || category == "optimizer_state" || category == "data" ||
      category == "parameter_or_state")
    return 0;
  if (category == "gradient") return 1;
  if (category == "activation") return 2;
  if (category == "temporary" || category == "workspace") return 3;
  return 4;
}

class TimelineBuilder {
 public:
  TimelineBuilder(const Snapshot& snapshot, const MemoryAnalysis& analysis, TimelineAxis axis, std::size_t columns)
      : history_(history_of(snapshot, analysis.report.device)), analysis_(analysis), window_(analysis.report.window) {
    timeline_.axis = axis;
    timeline_.length = axis == TimelineAxis::events
                           ? static_cast<double>(window_.end.moment - window_.begin.moment)
                           : static_cast<double>(window_.end.time_us - window_.begin.time_us) / 1e3;
    timeline_.columns.resize(std::max<std::size_t>(columns, 1));
    const std::size_t categories = std::max(snapshot.categories.size(), kInferredCategoryNames.all().size());
    for (std::size_t i = 0; i < categories; ++i) {
      const bool is_named = !snapshot.has_categories() || i < snapshot.categories.size();
      layers_.push_back(is_named ? layer_of(category_name(snapshot, static_cast<std::uint8_t>(i))) : 4);
    }
  }

  Timeline build(const StopPoint& stop_point) {
    analysis_.lifetimes.for_each(stop_point, [&](const BlockLife& life) {
      if (life.is_allocated(0)) now_.layer_bytes[layers_[life.category]] += life.bytes;
    });
    now_.allocated_bytes = analysis_.lifetimes.start.allocated_bytes;
    now_.reserved_bytes = analysis_.lifetimes.start.reserved_bytes;
    walk_levels(history_, analysis_.lifetimes, stop_point,
                [&](std::size_t moment, const MemoryHistory::Event& event, const LifeTracker::Step& step,
                    const MemoryLevels& levels) {
                  // The level before this event lasts to the column of this event.
                  if (moment - 1 > window_.begin.moment) draw_until(column_at(moment - 1, event.time_us));
                  apply(step, levels);
                  if (moment > window_.begin.moment) column_ = std::max(column_, column_at(moment - 1, event.time_us));
                });
    draw_until(timeline_.columns.size() - 1);
    mark_phases();
    return std::move(timeline_);
  }

 private:
  void apply(const LifeTracker::Step& step, const MemoryLevels& levels) {
    if (step.replaced != kNoLife && !step.replaced_is_freed) remove(step.replaced);
    if (step.is_allocated) {
      const BlockLife& life = analysis_.lifetimes[step.life];
      now_.layer_bytes[layers_[life.category]] += life.bytes;
    }
    if (step.is_freed) remove(step.life);
    now_.allocated_bytes = levels.allocated_bytes;
    now_.reserved_bytes = levels.reserved_bytes;
  }
  void remove(std::uint32_t number) {
    const BlockLife& life = analysis_.lifetimes[number];
    now_.layer_bytes[layers_[life.category]] -= life.bytes;
  }

  void draw_until(std::size_t last) {
    for (std::size_t i = column_; i <= last; ++i) {
      TimelineColumn& column = timeline_.columns[i];
      column.reserved_bytes = std::max(column.reserved_bytes, now_.reserved_bytes);
      if (now_.allocated_bytes <= column.allocated_bytes) continue;
      column.allocated_bytes = now_.allocated_bytes;
      column.layer_bytes = now_.layer_bytes;
    }
    column_ = std::max(column_, last);
  }

  // The column in which the event after a moment happens.
  std::size_t column_at(std::size_t moment, std::int64_t time_us) const {
    return std::min(columns_before(moment, time_us), timeline_.columns.size() - 1);
  }
  std::size_t columns_before(std::size_t moment, std::int64_t time_us) const {
    const double at = timeline_.axis == TimelineAxis::events
                          ? static_cast<double>(moment) - static_cast<double>(window_.begin.moment)
                          : static_cast<double>(time_us - window_.begin.time_us) / 1e3;
    const auto count = static_cast<double>(timeline_.columns.size());
    const double share = timeline_.length > 0 ? std::clamp(at / timeline_.length, 0.0, 1.0) : 0.0;
    return static_cast<std::size_t>(share * count);
  }

  void mark_phases() {
    const std::vector<PhasePeak>& of_steps = analysis_.report.phase_peaks;
    std::size_t iteration = 0;
    for (const MemoryPhase& phase : analysis_.report.phases) {
      iteration += phase.depth == 0 ? 1 : 0;
      if (!phase.is_counted || std::ranges::find(of_steps, phase.name, &PhasePeak::phase) == of_steps.end()) continue;
      const std::size_t begin = column_at(phase.begin.moment, phase.begin.time_us);
      const std::size_t end = std::max(begin + 1, columns_before(phase.end.moment, phase.end.time_us));
      for (std::size_t i = begin; i < end; ++i) {
        timeline_.columns[i].phase = phase.name;
        timeline_.columns[i].iteration = iteration;
      }
    }
  }

  const MemoryHistory& history_;
  const MemoryAnalysis& analysis_;
  const MemoryWindow& window_;
  std::vector<std::size_t> layers_;  // by category
  Timeline timeline_;
  TimelineColumn now_;
  std::size_t column_ = 0;
};

}  // namespace

const std::array<MemoryLayer, kMemoryLayerCount> kMemoryLayers = {{
    {"parameters, optimizer state, data", "█"},
    {"gradients", "▓"},
    {"activations", "▒"},
    {"temporaries, workspace", "░"},
    {"unknown", "?"},
}};

std::string_view name(TimelineAxis axis) { return kAxisNames[axis]; }
TimelineAxis timeline_axis_from_name(std::string_view text) { return kAxisNames.parse(text, "'{}' is unknown"); }

TimelineAxis usual_axis(const MemoryReport& report) {
  return report.has_times ? TimelineAxis::time : TimelineAxis::events;
}

bool Timeline::has_layer(std::size_t layer) const {
  return layer + 1 < kMemoryLayerCount ||
         std::ranges::any_of(columns, [&](const TimelineColumn& column) { return column.layer_bytes[layer] > 0; });
}

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

Timeline make_timeline(const Snapshot& snapshot, const MemoryAnalysis& analysis, TimelineAxis axis, std::size_t columns,
                       const StopPoint& stop_point) {
  return TimelineBuilder(snapshot, analysis, axis, columns).build(stop_point);
}

}  // namespace ridgepoint
