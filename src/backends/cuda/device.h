// The CUDA back end: one GPU, its memory, and the kernels of this folder on one stream.
#pragma once

#include <memory>

#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// Opens GPU `ordinal` in the driver's numbering. total_memory_bytes() is the GPU's memory, or
// `options.memory_limit_bytes` if that is smaller; allocate_memory() stays within it. Throws Error (unsupported)
// in a build without kernels, without a driver, with a driver that is too old, and for a GPU older than sm_80; (usage)
// if there is no such GPU.
// Every call of the device restores the CUDA context that was current before.
std::shared_ptr<Device> make_cuda_device(int ordinal, const DeviceOptions& options = {});

// The number of GPUs; 0 without a driver, and in a build without kernels.
int cuda_card_count();
// Whether GPU 0 and the CUDA libraries can be used. The first call starts the driver; later calls are cheap.
bool has_usable_cuda_card();

}  // namespace ridgepoint
