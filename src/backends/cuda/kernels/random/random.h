// Random values made on the GPU.
#pragma once

#include <cstdint>

#include "backends/cuda/driver/context.h"
#include "ridgepoint/dtype.h"
#include "ridgepoint/truncated_normal.h"

namespace ridgepoint::cuda {

// Launches the kernel that sets `count` elements to the values of the stream (core/random/random_values.h), rounded
// from fp32 to the floating `dtype`.
void fill_random(CudaContext& context, void* address, DType dtype, std::int64_t count,
                 const TruncatedNormal& distribution, std::uint64_t stream);

}  // namespace ridgepoint::cuda
