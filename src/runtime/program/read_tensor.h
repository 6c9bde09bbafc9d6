// Copies a tensor of any layout from a device.
#pragma once

#include "ops/layout.h"
#include "ridgepoint/tensor.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// The elements in row-major order. The layout has no immediate; `address` is that of element (0,...,0). Waits for the
// device.
HostTensor read_tensor(Device& device, const TensorLayout& layout, const void* address);

}  // namespace ridgepoint
