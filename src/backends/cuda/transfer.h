// Transfers between page-locked memory of the host and a GPU, by its copy engines.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// The kernel of a copy_from_host or copy_to_host. Its copies begin once the GPU has finished the launches before it,
// and run on the stream of their direction, beside those that follow.
std::unique_ptr<Kernel> make_transfer(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
