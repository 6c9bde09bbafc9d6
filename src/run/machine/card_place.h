// Where a card is, so that ranks find out whether they share one.
#pragma once

#include <string>

#include "runtime/device/device.h"

namespace ridgepoint {

// The host's name and the PCI address of a GPU that is there; empty for other devices.
std::string place_of_card(const Device& device);

}  // namespace ridgepoint
