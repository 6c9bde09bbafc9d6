// The CPU back end: the kernels of this folder on all cores, with memory from the operating system in huge pages.
#pragma once

#include <memory>

#include "ridgepoint/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// `options.threads` applies to the whole process: the device that was opened last decides. total_memory_bytes() is the
// memory that this process may use (the machine's, or the limit of its control group), or `options.memory_limit_bytes`
// if that is smaller; allocate_memory() stays within it. Throws Error (usage) for a negative thread count.
std::shared_ptr<Device> make_cpu_device(const DeviceOptions& options = {});

}  // namespace ridgepoint
