// The observers of an executor's launches on a GPU.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/driver/context.h"
#include "ridgepoint/ir/graph.h"
#include "runtime/device/activity.h"

namespace ridgepoint::cuda {

// Records the activities of a GPU with CUPTI's activity records. start() throws Error (unsupported) if CUPTI is
// missing, fails, or is in use by another tool.
std::unique_ptr<ActivityRecorder> make_cupti_recorder(CudaContext& context);

// Nested NVTX ranges around the launches: phase, the levels of the module, op. They are for tools such as nsys and ncu;
// null if no tool is attached. `launches` are nodes in the order of their launches.
std::unique_ptr<LaunchObserver> make_nvtx_ranges(const Graph& graph, std::span<const NodeId> launches);

}  // namespace ridgepoint::cuda
