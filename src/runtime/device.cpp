#include "runtime/device.h"

#include "runtime/host_activity.h"

namespace ridgepoint {

KernelOutline Device::outline(const KernelSpec& spec) {
  const std::unique_ptr<Kernel> kernel = make_kernel(spec);
  return {std::string(kernel->name()), kernel->workspace_bytes()};
}

std::unique_ptr<ActivityRecorder> Device::make_activity_recorder() { return std::make_unique<HostActivityRecorder>(); }

std::unique_ptr<LaunchObserver> Device::make_range_marker(const Graph&, std::span<const NodeId>) { return nullptr; }

}  // namespace ridgepoint
