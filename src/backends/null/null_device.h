// A device that computes nothing. Kernel choices, operand layouts, kernel names and workspace sizes are those of a
// target device, and addresses are never accessed. So an executor runs a plan here as it would on the target: the
// memory of models larger than this machine can be predicted, and the executor's own time can be measured.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/device/device.h"

namespace ridgepoint {

constexpr std::size_t kUnlimitedBytes = std::size_t{1} << 60;

// Without `memory_limit_bytes`, memory is unlimited: total_memory_bytes() returns kUnlimitedBytes whatever the target
// has. Pass the target's total_memory_bytes() to learn whether a model fits the target. The target, a device or a GPU
// that is described but not there, makes no kernels; it is asked for their outlines only. Copies to the host write
// zeros.
std::shared_ptr<Device> make_null_device(std::shared_ptr<KernelChoices> target,
                                         std::optional<std::size_t> memory_limit_bytes = std::nullopt);

}  // namespace ridgepoint
