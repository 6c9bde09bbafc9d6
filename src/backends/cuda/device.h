// The CUDA back end: one card, its memory, and the kernels of this folder on one stream.
#pragma once

#include <memory>

#include "ridgepoint/program.h"
#include "runtime/device.h"

namespace ridgepoint {

// Card `ordinal` as the driver numbers them. total_memory_bytes() is the card's memory, or
// `options.memory_limit_bytes` where that is smaller; allocate_memory() stays within it.
// Throws Error (unsupported) without a driver or with one that is too old, and for a card older than sm_80;
// (usage) when there is no such card. No call of the device leaves another CUDA context current than it found.
std::shared_ptr<Device> make_cuda_device(int ordinal, const DeviceOptions& options = {});

// How many cards this machine has; 0 without a driver.
int cuda_card_count();
// Whether card 0 and the CUDA libraries this build needs are here. Cheap after the first call, which starts the driver.
bool has_usable_cuda_card();

}  // namespace ridgepoint
