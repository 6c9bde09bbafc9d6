// Records the activities of a GPU while an executor runs, with CUPTI's activity records.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/activity.h"

namespace ridgepoint::cuda {

// start() throws Error (unsupported) if CUPTI is missing, fails, or is in use by another tool.
std::unique_ptr<ActivityRecorder> make_cupti_recorder(const CudaContext& context);

}  // namespace ridgepoint::cuda
