// A device that computes nothing. It takes its kernel choices, operand layouts, kernel names and workspace sizes from
// a target device, hands out addresses that are never touched, and so walks a plan exactly as the target would, for
// models far larger than this machine: memory is predicted, and the executor's own cost is what is left to measure.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/device.h"

namespace ridgepoint {

// Without a limit memory has no end (total_memory_bytes() says 2^60), whatever the target has: give the target's
// total_memory_bytes() to learn whether a model fits it. Of a kernel only the outline is asked of the target
// (Device::outline). Copies to the host leave zeros.
std::shared_ptr<Device> make_null_device(std::shared_ptr<Device> target,
                                         std::optional<std::size_t> memory_limit_bytes = std::nullopt);

}  // namespace ridgepoint
