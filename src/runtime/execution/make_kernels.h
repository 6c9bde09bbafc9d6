// The kernels of a plan, one a step.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "plan/plan.h"
#include "ridgepoint/stop_point.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"

namespace ridgepoint {

using Kernels = std::vector<std::unique_ptr<Kernel>>;

// Throws the exceptions of Device::make_kernel() and of `stop_point`, which is called before each kernel, and Error
// (usage) for a collective without a communicator.
Kernels make_kernels(const Graph& graph, const ExecutionPlan& plan, Device& device,
                     Communicator* communicator = nullptr, const StopPoint& stop_point = {});

// The workspace of each kernel, as lifetimes_of() takes it.
std::vector<std::size_t> workspace_bytes_of(const Kernels& kernels);

}  // namespace ridgepoint
