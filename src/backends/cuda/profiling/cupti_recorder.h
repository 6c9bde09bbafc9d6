// Records what a card does while an executor runs, by CUPTI's activity records.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/activity.h"

namespace ridgepoint::cuda {

// start() throws Error (unsupported) where CUPTI is missing, refuses, or is taken by another tool.
std::unique_ptr<ActivityRecorder> make_cupti_recorder(const CudaContext& context);

}  // namespace ridgepoint::cuda
