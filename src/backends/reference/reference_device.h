// The oracle: every primitive in plain double-precision loops on one thread, for any strides and dtypes. Composites
// have no kernels here, they are decomposed. Clear before fast; a tiny model still runs in it within seconds.
#pragma once

#include <memory>

#include "ridgepoint/program.h"
#include "runtime/device.h"

namespace ridgepoint {

// `options.memory_limit_bytes` bounds what may be allocated at once (this machine's memory where none is given).
std::shared_ptr<Device> make_reference_device(const DeviceOptions& options = {});

}  // namespace ridgepoint
