#include "predict/forecast.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "backends/null/null_device.h"
#include "ridgepoint/core/error.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

std::optional<std::int64_t>& bytes_of(PeakSection::Categories& categories, std::string_view name) {
  if (name == "parameter") return categories.parameter;
  if (name == "gradient") return categories.gradient;
  if (name == "activation") return categories.activation;
  if (name == "optimizer_state") return categories.optimizer_state;
  if (name == "workspace") return categories.workspace;
  return name == "data" ? categories.data : categories.temporary;
}

std::optional<std::int64_t>& bytes_of(PeakSection::Phases& phases, Phase phase) {
  switch (phase) {
    case Phase::forward: return phases.forward;
    case Phase::loss: return phases.loss;
    case Phase::recompute: return phases.recompute;
    case Phase::backward: return phases.backward;
    case Phase::optimizer: break;
  }
  return phases.optimizer;
}

PeakSection describe_peaks(const std::vector<PhaseMemory>& phases) {
  PeakSection section;
  const PhaseMemory* highest = nullptr;
  for (const PhaseMemory& memory : phases) {
    bytes_of(section.peak_by_phase, memory.phase) = static_cast<std::int64_t>(memory.peak_bytes);
    if (highest == nullptr || memory.peak_bytes > highest->peak_bytes) highest = &memory;
  }
  if (highest == nullptr) return section;
  section.peak_phase = name(highest->phase);
  for (const auto& [category, bytes] : highest->categories)
    bytes_of(section.peak_by_category, category) = static_cast<std::int64_t>(bytes);
  return section;
}

constexpr std::int64_t kMostIterations = 100;  // two or three are usual

// Keeps the highest peak of each phase, because iterations may differ.
void keep_highest(std::vector<PhaseMemory>& phases, std::vector<PhaseMemory> found) {
  for (PhaseMemory& memory : found) {
    const auto kept = std::ranges::find(phases, memory.phase, &PhaseMemory::phase);
    if (kept == phases.end()) {
      phases.push_back(std::move(memory));
    } else if (memory.peak_bytes > kept->peak_bytes) {
      *kept = std::move(memory);
    }
  }
}

}  // namespace

void record_memory(Record& record, const MemoryForecast& found) {
  Record::Memory& bytes = record.memory_bytes;
  bytes.peak_allocated = static_cast<std::int64_t>(found.use.peak_allocated_bytes);
  bytes.peak_reserved = static_cast<std::int64_t>(found.use.peak_reserved_bytes);
  bytes.peak_requested = static_cast<std::int64_t>(found.use.peak_requested_bytes);
  if (found.liveness_lower_bound_bytes > 0)
    bytes.liveness_lower_bound = static_cast<std::int64_t>(found.liveness_lower_bound_bytes);
  if (found.before_backward_bytes > 0) bytes.before_backward = static_cast<std::int64_t>(found.before_backward_bytes);
  if (found.host_bytes > 0) bytes.host = static_cast<std::int64_t>(found.host_bytes);
  if (found.disk_bytes > 0) bytes.disk = static_cast<std::int64_t>(found.disk_bytes);
  if (record.peaks) record.peaks = describe_peaks(found.phases);
}

MemoryForecast memory_of(const Program& program) {
  return {program.memory_use(),
          program.before_backward_bytes(),
          program.liveness_lower_bound_bytes(),
          program.host_memory_bytes(),
          program.disk_bytes(),
          program.memory_by_phase()};
}

MemoryForecast forecast_memory(const ProgramPlan& plan, const ForecastOptions& options) {
  Program walk(plan, make_null_device(plan.device(), options.memory_bytes),
               {.stop_point = options.stop_point, .memory_trace = options.trace});
  std::vector<PhaseMemory> phases;
  std::map<std::uint64_t, std::int64_t> layouts;  // and the iteration that left each
  std::int64_t last = std::min(options.iterations.value_or(kMostIterations), kMostIterations);
  for (std::int64_t i = 1; i <= last; ++i) {
    if (options.stop_point) options.stop_point();
    walk.run();
    keep_highest(phases, walk.memory_by_phase());
    if (i == options.warmup) {
      walk.reset_peak_memory();
      phases.clear();
      layouts.clear();
    }
    const auto [earlier, is_new] = layouts.emplace(walk.memory_layout_hash(), i);
    if (is_new || i < options.warmup) continue;
    const std::int64_t period = i - earlier->second;
    last = options.iterations ? i + (*options.iterations - i) % period : i;
    layouts.clear();
  }
  MemoryForecast forecast = memory_of(walk);
  forecast.phases = std::move(phases);
  return forecast;
}

Forecaster forecaster_of(const ProgramPlan& plan, const ForecastOptions& options) {
  return [&plan, options](std::optional<std::size_t> memory_bytes) {
    ForecastOptions limited = options;
    limited.memory_bytes = memory_bytes;
    return forecast_memory(plan, limited);
  };
}

MemoryForecast limited_forecast(const Forecaster& forecast, const MemoryForecast& unlimited, std::size_t memory_bytes) {
  // Without a limit the allocator may reserve more than it needs, so only a forecast with the limit says whether the
  // run fits.
  return unlimited.use.peak_reserved_bytes <= memory_bytes ? unlimited : forecast(memory_bytes);
}

std::optional<MemoryForecast> forecast_within(const Forecaster& forecast, const MemoryForecast& unlimited,
                                              std::size_t memory_bytes) {
  if (unlimited.use.peak_allocated_bytes > memory_bytes) return std::nullopt;
  try {
    return limited_forecast(forecast, unlimited, memory_bytes);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

std::size_t available_memory_bytes(const Device& device) {
  const std::size_t total_bytes = device.total_memory_bytes();
  return std::min(total_bytes, device.free_memory_bytes().value_or(total_bytes));
}

MemoryForecast require_room(const ProgramPlan& plan, const MemoryForecast& forecast, std::size_t available_bytes,
                            const ForecastOptions& options) {
  try {
    return limited_forecast(forecaster_of(plan, options), forecast, available_bytes);
  } catch (const OutOfMemory& error) {
    MemoryShortage shortage = error.shortage();
    shortage.capacity_bytes = plan.device()->total_memory_bytes();
    shortage.is_held_elsewhere = available_bytes < shortage.capacity_bytes;
    shortage.needed_bytes = forecast.use.peak_allocated_bytes;
    throw OutOfMemory(std::move(shortage));
  }
}

ProgramPlan plan_with_room(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options) {
  ProgramPlan plan(std::move(graph), std::move(device), options);
  const ForecastOptions until_it_repeats{.stop_point = options.stop_point};
  const MemoryForecast forecast = forecast_memory(plan, until_it_repeats);
  require_room(plan, forecast, available_memory_bytes(*plan.device()), until_it_repeats);
  return plan;
}

}  // namespace ridgepoint
