#include "measure/memory/plan_run.h"

#include <algorithm>

#include "measure/machine/datasheet.h"
#include "measure/memory/forecast.h"
#include "measure/time/forecast_time.h"
#include "ridgepoint/error.h"
#include "runtime/device.h"

namespace ridgepoint {
namespace {

bool fits(const ProgramPlan& plan, const MemoryForecast& unlimited, std::int64_t capacity_bytes,
          const StopPoint& stop_point) {
  const auto capacity = static_cast<std::size_t>(std::max<std::int64_t>(capacity_bytes, 0));
  if (unlimited.use.peak_reserved_bytes <= capacity) return true;
  if (unlimited.use.peak_allocated_bytes > capacity) return false;
  // With a limit the allocator gives back what it does not use.
  try {
    forecast_memory(plan, capacity, stop_point);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

std::optional<std::int64_t>& bytes_of(PlanSection::Categories& categories, std::string_view name) {
  if (name == "parameter") return categories.parameter;
  if (name == "gradient") return categories.gradient;
  if (name == "activation") return categories.activation;
  if (name == "optimizer_state") return categories.optimizer_state;
  if (name == "workspace") return categories.workspace;
  return name == "data" ? categories.data : categories.temporary;
}

std::optional<std::int64_t>& bytes_of(PlanSection::Phases& phases, Phase phase) {
  switch (phase) {
    case Phase::forward:
      return phases.forward;
    case Phase::loss:
      return phases.loss;
    case Phase::recompute:
      return phases.recompute;
    case Phase::backward:
      return phases.backward;
    case Phase::optimizer:
      break;
  }
  return phases.optimizer;
}

void describe_peaks(const std::vector<PhaseMemory>& phases, PlanSection& section) {
  const PhaseMemory* highest = nullptr;
  for (const PhaseMemory& memory : phases) {
    bytes_of(section.peak_by_phase, memory.phase) = static_cast<std::int64_t>(memory.peak_bytes);
    if (highest == nullptr || memory.peak_bytes > highest->peak_bytes) highest = &memory;
  }
  if (highest == nullptr) return;
  section.peak_phase = name(highest->phase);
  for (const auto& [category, bytes] : highest->categories)
    bytes_of(section.peak_by_category, category) = static_cast<std::int64_t>(bytes);
}

// The device says which GPU's kernels the plan has; a plan of another device's kernels has no time.
void describe_time(const ProgramPlan& plan, Compile level, PlanSection& section) {
  const Datasheet* sheet = find_datasheet(plan.device()->name());
  if (sheet == nullptr || section.card.value_or(std::string(sheet->card)) != sheet->card) return;
  const std::optional<TimeForecast> forecast = forecast_time(plan.graph(), level, *sheet);
  if (!forecast) return;
  section.predicted_ms = forecast->ms;
  section.predicted_error = forecast->error;
  const PhaseTimes& phases = forecast->by_phase;
  section.predicted_phase_ms = {.forward = phases[Phase::forward],
                                .loss = phases[Phase::loss],
                                .recompute = phases[Phase::recompute],
                                .backward = phases[Phase::backward],
                                .optimizer = phases[Phase::optimizer]};
}

class Fitter {
 public:
  Fitter(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit, const StepWatcher& watch)
      : config_of_(config_of), limit_(limit), watch_(watch) {}

  std::int64_t largest(std::int64_t most) {
    Point low{0, 0};
    Point high = grow(low, most);
    if (high.value > most) return most;
    while (high.value - low.value > 1) {
      const Point middle = attempt(between(low, high));
      (middle.fits ? low : high) = middle;
    }
    return low.value;
  }

 private:
  struct Point {
    std::int64_t value;
    double bytes;
    bool fits = true;
  };

  // Multiplies the value until it does not fit; `low` becomes the last that does.
  Point grow(Point& low, std::int64_t most) {
    for (std::int64_t value = 1;; value = std::min(value * 8, most)) {
      const Point point = attempt(value);
      if (!point.fits) return point;
      low = point;
      if (value == most) return {most + 1, 0, false};
    }
  }

  // Where a line through both would reach the capacity, but inside of the bracket: memory is nearly linear in batch,
  // context and layers. Not near an end twice in a row, so that the bracket shrinks by half at least every other time.
  std::int64_t between(const Point& low, const Point& high) {
    const std::int64_t half = low.value + (high.value - low.value) / 2;
    halves_ = !halves_;
    if (!halves_ || low.value == 0) return half;
    const double share =
        (static_cast<double>(*limit_.capacity_bytes) - low.bytes) / std::max(high.bytes - low.bytes, 1.0);
    const auto guess = low.value + static_cast<std::int64_t>(share * static_cast<double>(high.value - low.value));
    return std::clamp(guess, low.value + 1, high.value - 1);
  }

  Point attempt(std::int64_t value) {
    const RunConfig config = config_of_(value);
    Record record = describe_run(config, Experiment::plan);
    Session session(config, watch_, record);
    const ProgramPlan plan = session.plan();
    const MemoryForecast forecast = session.forecast(plan);
    return {value, static_cast<double>(forecast.use.peak_reserved_bytes),
            fits(plan, forecast, *limit_.capacity_bytes, session.stop_point(StepProgress::Stage::planning))};
  }

  const std::function<RunConfig(std::int64_t)>& config_of_;
  const MemoryLimit& limit_;
  const StepWatcher& watch_;
  bool halves_ = false;
};

}  // namespace

std::optional<Record> plan_run(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch) {
  return record_run(describe_run(config, Experiment::plan), [&](Record& record) {
    PlanSection& section = record.plan.emplace();
    section.card = limit.card;
    section.capacity_bytes = limit.capacity_bytes;
    Session session(config, watch, record);
    const ProgramPlan plan = session.plan();
    const MemoryForecast forecast = session.forecast(plan);
    session.record_memory(forecast);
    describe_peaks(forecast.phases, section);
    describe_time(plan, config.compile.level, section);
    if (!limit.capacity_bytes) return;
    section.fits = fits(plan, forecast, *limit.capacity_bytes, session.stop_point(StepProgress::Stage::planning));
    section.room_bytes = *limit.capacity_bytes - *record.memory_bytes.peak_reserved;
    if (*section.fits) section.room_bytes = std::max<std::int64_t>(*section.room_bytes, 0);
  });
}

std::optional<Record> plan_largest(const std::string& size, const std::function<RunConfig(std::int64_t)>& config_of,
                                   const MemoryLimit& limit, std::int64_t most, const StepWatcher& watch) {
  std::int64_t largest = 0;
  std::optional<Record> search = record_run(describe_run(config_of(1), Experiment::plan), [&](Record&) {
    largest = largest_that_fits(config_of, limit, most, watch);
  });
  if (!search || search->status != RunStatus::ok) return search;
  std::optional<Record> record = plan_run(config_of(std::max<std::int64_t>(largest, 1)), limit, watch);
  if (record && record->plan && largest > 0) record->plan->fitted = size;
  return record;
}

std::int64_t largest_that_fits(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit,
                               std::int64_t most, const StepWatcher& watch) {
  if (!limit.capacity_bytes)
    throw Error("the largest that fits needs a memory to fit in; name a card or a limit", ErrorKind::usage);
  return Fitter(config_of, limit, watch).largest(most);
}

}  // namespace ridgepoint
