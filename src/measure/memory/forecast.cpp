#include "measure/memory/forecast.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/null/null_device.h"
#include "measure/memory/peaks.h"
#include "ridgepoint/error.h"
#include "runtime/device.h"

namespace ridgepoint {

void record_memory(Record& record, const MemoryForecast& found) {
  Record::Memory& bytes = record.memory_bytes;
  bytes.peak_allocated = static_cast<std::int64_t>(found.use.peak_allocated_bytes);
  bytes.peak_reserved = static_cast<std::int64_t>(found.use.peak_reserved_bytes);
  bytes.peak_requested = static_cast<std::int64_t>(found.use.peak_requested_bytes);
  if (found.liveness_lower_bound_bytes > 0)
    bytes.liveness_lower_bound = static_cast<std::int64_t>(found.liveness_lower_bound_bytes);
  if (found.before_backward_bytes > 0) bytes.before_backward = static_cast<std::int64_t>(found.before_backward_bytes);
  if (record.peaks) record.peaks = describe_peaks(found.phases);
}

MemoryForecast memory_of(const Program& program) {
  return {program.memory_use(), program.before_backward_bytes(), program.liveness_lower_bound_bytes(),
          program.memory_by_phase()};
}

MemoryForecast forecast_memory(const ProgramPlan& plan, std::optional<std::size_t> memory_bytes,
                               const StopPoint& stop_point, MemoryTrace* trace) {
  const ProgramOptions options{.stop_point = stop_point, .memory_trace = trace};
  Program walk(plan, make_null_device(plan.device(), memory_bytes), options);
  walk.run();
  return memory_of(walk);
}

Forecaster forecaster_of(const ProgramPlan& plan, const StopPoint& stop_point) {
  return [&plan, stop_point](std::optional<std::size_t> memory_bytes) {
    return forecast_memory(plan, memory_bytes, stop_point);
  };
}

MemoryForecast limited_forecast(const Forecaster& forecast, const MemoryForecast& unlimited, std::size_t memory_bytes) {
  // Without a limit the allocator may reserve more than it needs, so only a forecast with the limit decides.
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

MemoryForecast require_room(const ProgramPlan& plan, const MemoryForecast& forecast, const StopPoint& stop_point) {
  const std::size_t available_bytes = available_memory_bytes(*plan.device());
  try {
    return limited_forecast(forecaster_of(plan, stop_point), forecast, available_bytes);
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
  require_room(plan, forecast_memory(plan, std::nullopt, options.stop_point), options.stop_point);
  return plan;
}

}  // namespace ridgepoint
