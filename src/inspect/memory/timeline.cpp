#include "inspect/memory/timeline.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/types/enum_names.h"
#include "inspect/memory/contents.h"

namespace ridgepoint {
namespace {

constexpr auto kAxisNames = enum_names<TimelineAxis>("time", "events");

// Categories of our runs, and categories that are inferred for PyTorch's files.
std::size_t layer_of(std::string_view category) {
  if (category == "parameter" || category == "optimizer_state" || category == "data" ||
      category == "parameter_or_state")
    return 0;
  if (category == "gradient") return 1;
  if (category == "activation") return 2;
  if (category == "temporary" || category == "workspace") return 3;
  return 4;
}

constexpr std::size_t kDrawnBlocks = 15'000;

// Which blocks the viewer draws; of those as large as the smallest one drawn, it takes the first in its list.
class DrawnBlocks {
 public:
  explicit DrawnBlocks(const Lifetimes& lifetimes) {
    std::vector<std::uint64_t> sizes;
    for (const BlockLife& life : lifetimes.recorded) sizes.push_back(life.requested_bytes());
    for (const BlockLife& life : lifetimes.older)
      if (life.freed == kNever || life.end != kNever) sizes.push_back(life.requested_bytes());
    if (sizes.size() <= kDrawnBlocks) return;
    const auto smallest = sizes.begin() + kDrawnBlocks - 1;
    std::ranges::nth_element(sizes, smallest, std::greater());
    smallest_bytes_ = *smallest;
    of_smallest_ = static_cast<std::size_t>(std::count(sizes.begin(), smallest + 1, smallest_bytes_));
  }

  // The next block in the list: blocks are listed at their allocation, older blocks at their release.
  bool draws_next(const BlockLife& life) {
    if (life.requested_bytes() != smallest_bytes_) return life.requested_bytes() > smallest_bytes_;
    if (of_smallest_ == 0) return false;
    --of_smallest_;
    return true;
  }

 private:
  std::uint64_t smallest_bytes_ = 0;
  std::size_t of_smallest_ = SIZE_MAX;
};

// The drawn blocks of the history by their numbers, one above the other. Older ones lie below them, and of these the
// one that is freed next lies on top.
class Stack {
 public:
  explicit Stack(std::size_t blocks) : is_live_(blocks) {}

  void push(std::uint32_t life) {
    order_.push_back(life);
    is_live_[life] = true;
  }
  bool has(std::uint32_t life) const { return is_live_[life]; }
  void remove(std::uint32_t life) {
    is_live_[life] = false;
    while (!order_.empty() && !is_live_[order_.back()]) order_.pop_back();
  }
  bool has_above(std::uint32_t life) const { return !order_.empty() && order_.back() > life; }
  bool is_empty() const { return order_.empty(); }

 private:
  std::vector<bool> is_live_;         // by life
  std::vector<std::uint32_t> order_;  // the last one is live
};

class TimelineBuilder {
 public:
  TimelineBuilder(const Snapshot& snapshot, const MemoryAnalysis& analysis, TimelineAxis axis, std::size_t columns,
                  const StopPoint& stop_point)
      : history_(history_of(snapshot, analysis.report.device)), analysis_(analysis), window_(analysis.report.window) {
    timeline_.axis = axis;
    if (axis == TimelineAxis::events) steps_.emplace(history_, analysis.lifetimes, stop_point);
    timeline_.length = position(window_.end);
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
                  // The level before this event lasts to the last column of this event.
                  if (moment > window_.end.moment) return;
                  const std::size_t column = moment > window_.begin.moment ? column_of(moment, event.time_us) : 0;
                  const std::size_t first = window_.begin.moment + (window_.is_range ? 0 : 1);
                  if (moment > first) draw_until(column);
                  apply(step, levels);
                  column_ = std::max(column_, column);
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

  // From the begin of what counts.
  double position(const MemoryMoment& at) const {
    return steps_ ? static_cast<double>(steps_->steps(at.moment)) -
                        static_cast<double>(steps_->steps(window_.begin.moment))
                  : static_cast<double>(at.time_us - window_.begin.time_us) / 1e3;
  }
  // The last column of the event before a moment.
  std::size_t column_of(std::size_t moment, std::int64_t time_us) const {
    const double begin = position({moment - 1, time_us});
    return column_at(steps_ ? std::max(begin, position({moment, time_us}) - 1) : begin);
  }
  std::size_t column_at(double position) const {
    return std::min(columns_before(position), timeline_.columns.size() - 1);
  }
  std::size_t columns_before(double position) const {
    const auto count = static_cast<double>(timeline_.columns.size());
    const double share = timeline_.length > 0 ? std::clamp(position / timeline_.length, 0.0, 1.0) : 0.0;
    return static_cast<std::size_t>(share * count);
  }

  void mark_phases() {
    const std::vector<PhasePeak>& of_steps = analysis_.report.phase_peaks;
    std::size_t iteration = 0;
    for (const MemoryPhase& phase : analysis_.report.phases) {
      iteration += phase.depth == 0 ? 1 : 0;
      if (!phase.is_counted || std::ranges::find(of_steps, phase.name, &PhasePeak::phase) == of_steps.end()) continue;
      const std::size_t begin = column_at(position(phase.begin));
      const std::size_t end = std::max(begin + 1, columns_before(position(phase.end)));
      for (std::size_t i = begin; i < end; ++i) {
        timeline_.columns[i].phase = phase.name;
        timeline_.columns[i].iteration = iteration;
      }
    }
  }

  const MemoryHistory& history_;
  const MemoryAnalysis& analysis_;
  const MemoryWindow& window_;
  std::optional<ViewerAxis> steps_;  // with the axis of events
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

ViewerAxis::ViewerAxis(const MemoryHistory& history, const Lifetimes& lifetimes, const StopPoint& stop_point) {
  constexpr std::uint64_t kSlide = 3;
  DrawnBlocks drawn(lifetimes);
  Stack stack(lifetimes.recorded.size());
  LifeTracker tracker(history.place_count());
  steps_.assign(1, 0);
  steps_.reserve(history.size() + 1);
  history.walk(
      [&](std::size_t, const MemoryHistory::Event& event) {
        const LifeTracker::Step step = tracker.step(event);
        std::uint64_t steps = step.is_allocated || step.is_complete ? 1 : 0;
        if (step.is_allocated && drawn.draws_next(lifetimes[step.life])) stack.push(step.life);
        if (step.is_complete && (step.life & kOlder) != 0) {
          if (drawn.draws_next(lifetimes[step.life]) && !stack.is_empty()) steps += kSlide;
        } else if (step.is_complete && stack.has(step.life)) {
          stack.remove(step.life);
          if (stack.has_above(step.life)) steps += kSlide;
        }
        steps_.push_back(steps_.back() + steps);
      },
      stop_point);
}

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
  return TimelineBuilder(snapshot, analysis, axis, columns, stop_point).build(stop_point);
}

}  // namespace ridgepoint
