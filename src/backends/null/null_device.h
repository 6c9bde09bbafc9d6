// A device that computes nothing. It takes its kernel choices, operand layouts, kernel names and workspace sizes from
// a target device, hands out addresses that are never touched, and so walks a plan exactly as the target would, for
// models far larger than this machine: memory is predicted, and the executor's own cost is what is left to measure.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/device.h"

namespace ridgepoint {

// Memory has no end unless `memory_limit_bytes` is given; total_memory_bytes() is the limit, else the target's.
// Nothing is ever allocated, copied or launched on the target. Copies to the host leave zeros.
std::shared_ptr<Device> make_null_device(std::shared_ptr<Device> target,
                                         std::optional<std::size_t> memory_limit_bytes = std::nullopt);

}  // namespace ridgepoint
