// The device whose results tests compare others with: every primitive op as plain double-precision loops on one thread,
// for any strides and dtypes. Composite ops have no kernel here and are decomposed. The code is written to be clear
// rather than fast; a tiny model takes seconds.
#pragma once

#include <memory>

#include "ridgepoint/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// `options.memory_limit_bytes` bounds the bytes allocated at one time; the default is this machine's memory.
std::shared_ptr<Device> make_reference_device(const DeviceOptions& options = {});

}  // namespace ridgepoint
