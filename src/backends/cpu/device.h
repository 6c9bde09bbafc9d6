// The CPU back end: kernels of this folder on all cores, memory from the operating system in large pages.
#pragma once

#include <memory>

#include "ridgepoint/program.h"
#include "runtime/device.h"

namespace ridgepoint {

// `options.threads` counts for the whole process: the device opened last decides.
// total_memory_bytes() is what this process may use (the machine's memory, a control group's limit), or
// `options.memory_limit_bytes` where that is smaller; allocate_memory() stays within it.
// Throws Error (usage) for a negative thread count.
std::shared_ptr<Device> make_cpu_device(const DeviceOptions& options = {});

}  // namespace ridgepoint
