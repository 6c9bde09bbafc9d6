// Nested NVTX ranges around the launches of an executor: phase, the levels of the module, op. They are for tools such
// as nsys and ncu; without a tool nothing is made and nothing is called.
#pragma once

#include <memory>
#include <span>

#include "ridgepoint/graph.h"
#include "runtime/activity.h"

namespace ridgepoint::cuda {

// Null if no tool is attached. `launches` are nodes in the order of their launches.
std::unique_ptr<LaunchObserver> make_nvtx_ranges(const Graph& graph, std::span<const NodeId> launches);

}  // namespace ridgepoint::cuda
