// What a run will take of a device's memory, found before it: a null device walks the plan with the executor and the
// allocator that the run would have. The device outlines its kernels: it chooses no algorithm and allocates nothing,
// though one that has no outlines of its own makes each kernel once and drops it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "ridgepoint/memory_use.h"
#include "ridgepoint/program.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

struct MemoryForecast {
  MemoryUse use;                          // after a run: its peaks are those of the run
  std::size_t before_backward_bytes = 0;  // as Program has it
};

// With `memory_bytes` to take segments from, without end unless given. Throws OutOfMemory, which says where in the
// program, where that is not enough.
MemoryForecast forecast_memory(const ProgramPlan& plan, std::optional<std::size_t> memory_bytes = std::nullopt,
                               const StopPoint& stop_point = {});

// What a program could take of the device now: all of its memory, or its limit, or what others have left of that.
std::size_t available_memory_bytes(const Device& device);

// The forecast with what is available on the plan's device. Throws OutOfMemory, with a sentence about that device,
// where that is not enough. `forecast` is that of the plan without a limit.
MemoryForecast require_room(const ProgramPlan& plan, const MemoryForecast& forecast, const StopPoint& stop_point = {});

// The plan of a program that has room on the device. Throws as ProgramPlan and require_room() do.
ProgramPlan plan_with_room(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options = {});

}  // namespace ridgepoint
