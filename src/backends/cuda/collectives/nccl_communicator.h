// Collectives between GPUs by NCCL, on a stream of their own beside that of the kernels.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device/communicator.h"

namespace ridgepoint::cuda {

// All ranks of the group call it at once, each for another GPU. Throws Error; (unsupported) without NCCL.
std::shared_ptr<Communicator> make_nccl_communicator(CudaContext& context, const std::shared_ptr<ProcessGroup>& group);

}  // namespace ridgepoint::cuda
