// Predicts the memory of a run: a null device executes the plan with the same executor and allocator, but computes
// nothing. The real device supplies the workspaces of its kernels (outlines); a device without outlines makes each
// kernel once and drops it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/core/memory_use.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/record/record.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

struct MemoryForecast {
  MemoryUse use;                               // after the run, with its peaks
  std::size_t before_backward_bytes = 0;       // see Program
  std::size_t liveness_lower_bound_bytes = 0;  // see Program
  std::size_t host_bytes = 0, disk_bytes = 0;  // see Program
  std::vector<PhaseMemory> phases = {};        // see Program; of a forecast, the highest peaks of its iterations
};

// Fills the peaks, the memory before backward and the lower bound of a record. 0 stands for an unknown figure. If the
// record has a section for peaks, fills the peaks of the phases, too.
void record_memory(Record& record, const MemoryForecast& found);

// The memory that a run may take.
struct MemoryLimit {
  std::optional<std::string> card = {};             // whose memory it is
  std::optional<std::int64_t> capacity_bytes = {};  // empty: unlimited

  std::size_t bytes() const { return capacity_bytes ? static_cast<std::size_t>(*capacity_bytes) : SIZE_MAX; }
};

// The measured memory of a program, to compare with its forecast.
MemoryForecast memory_of(const Program& program);

struct ForecastOptions {
  std::optional<std::size_t> memory_bytes = {};  // of the device; empty: unlimited
  // The iterations of the run. The free blocks that one iteration leaves change the next, until iterations repeat.
  // Empty: until they repeat.
  std::optional<std::int64_t> iterations = {};
  std::int64_t warmup = 0;  // the first iterations, which have no part in the peaks
  StopPoint stop_point = {};
  MemoryTrace* trace = nullptr;  // records the allocations
};

// Throws OutOfMemory, which names the place in the program, if the memory is not enough.
MemoryForecast forecast_memory(const ProgramPlan& plan, const ForecastOptions& options = {});

// Predicts with this much memory, or without a limit. Throws OutOfMemory if it is not enough.
using Forecaster = std::function<MemoryForecast(std::optional<std::size_t> memory_bytes)>;

// forecast_memory() of a plan with another memory than in `options`. The plan must outlive the result.
Forecaster forecaster_of(const ProgramPlan& plan, const ForecastOptions& options = {});

// The forecast of a run that has this much memory. `unlimited` is the forecast without a limit: the allocator may then
// reserve more than it needs. Throws OutOfMemory if the memory is not enough.
MemoryForecast limited_forecast(const Forecaster& forecast, const MemoryForecast& unlimited, std::size_t memory_bytes);
// The same, empty if the memory is not enough.
std::optional<MemoryForecast> forecast_within(const Forecaster& forecast, const MemoryForecast& unlimited,
                                              std::size_t memory_bytes);

// The memory that a program can allocate on the device now: the total or the limit, less the memory in use.
std::size_t available_memory_bytes(const Device& device);

// The forecast with the memory that is available on the plan's device. `forecast` was made without a limit, with
// `options`. Throws OutOfMemory, which names the device, if the memory is not enough.
MemoryForecast require_room(const ProgramPlan& plan, const MemoryForecast& forecast, std::size_t available_bytes,
                            const ForecastOptions& options = {});

// Plans a program and checks that it fits. Throws as ProgramPlan and require_room() do.
ProgramPlan plan_with_room(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options = {});

}  // namespace ridgepoint
