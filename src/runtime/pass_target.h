// What passes learn of a device (defined in compile.cpp).
#pragma once

#include "passes/pass.h"
#include "runtime/device.h"

namespace ridgepoint {

// Asks the device, which must outlive it.
PassTarget pass_target(const Device& device);

}  // namespace ridgepoint
