#include "measure/memory/plan_run.h"

#include <algorithm>

#include "measure/memory/forecast.h"
#include "measure/memory/largest_that_fits.h"
#include "ridgepoint/error.h"
#include "runtime/device.h"

namespace ridgepoint {
namespace {

bool fits(const ProgramPlan& plan, const MemoryForecast& unlimited, std::int64_t capacity_bytes,
          const StopPoint& stop_point) {
  const auto capacity = static_cast<std::size_t>(std::max<std::int64_t>(capacity_bytes, 0));
  if (unlimited.use.peak_allocated_bytes > capacity) return false;
  try {
    limited_forecast(plan, unlimited, capacity, stop_point);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

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
    if (!limit.capacity_bytes) return;
    section.fits = fits(plan, forecast, *limit.capacity_bytes, session.stop_point(StepProgress::Stage::planning));
    section.room_bytes = *limit.capacity_bytes - *record.memory_bytes.peak_reserved;
    if (*section.fits) section.room_bytes = std::max<std::int64_t>(*section.room_bytes, 0);
  });
}

std::optional<Record> plan_largest(const std::string& size, const std::function<RunConfig(std::int64_t)>& config_of,
                                   const MemoryLimit& limit, std::int64_t most, const StepWatcher& watch) {
  std::int64_t largest = 0;
  std::optional<Record> search = record_run(describe_run(config_of(1), Experiment::plan),
                                            [&](Record&) { largest = largest_size(config_of, limit, most, watch); });
  if (!search || search->status != RunStatus::ok) return search;
  std::optional<Record> record = plan_run(config_of(std::max<std::int64_t>(largest, 1)), limit, watch);
  if (record && record->plan && largest > 0) record->plan->fitted = size;
  return record;
}

std::int64_t largest_size(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit,
                          std::int64_t most, const StepWatcher& watch) {
  if (!limit.capacity_bytes)
    throw Error("the largest that fits needs a memory to fit in; name a card or a limit", ErrorKind::usage);
  const auto fits_at = [&](std::int64_t size) {
    const RunConfig config = config_of(size);
    Record record = describe_run(config, Experiment::plan);
    Session session(config, watch, record);
    const ProgramPlan plan = session.plan();
    return fits(plan, session.forecast(plan), *limit.capacity_bytes, session.stop_point(StepProgress::Stage::planning));
  };
  return largest_that_fits(fits_at, 1, most);
}

}  // namespace ridgepoint
