// NVTX ranges around the launches of an executor: phase, the levels of the module, op, one within the other. For tools
// that listen from outside (nsys, ncu); without one nothing is made and nothing is called.
#pragma once

#include <memory>
#include <span>

#include "ridgepoint/graph.h"
#include "runtime/activity.h"

namespace ridgepoint::cuda {

// Null where no tool listens. `launches` are nodes in the order of their launches.
std::unique_ptr<LaunchObserver> make_nvtx_ranges(const Graph& graph, std::span<const NodeId> launches);

}  // namespace ridgepoint::cuda
