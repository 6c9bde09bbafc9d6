// Stop points of loops over many cheap items.
#pragma once

#include <cstddef>

#include "ridgepoint/core/stop_point.h"

namespace ridgepoint {

// Calls it at every 65,536th item, which is a few times a second.
inline void stop_regularly(const StopPoint& stop_point, std::size_t index) {
  if (index % (std::size_t{1} << 16) == 0 && stop_point) stop_point();
}

}  // namespace ridgepoint
