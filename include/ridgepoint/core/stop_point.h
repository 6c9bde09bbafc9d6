// A callback by which a caller interrupts long work.
#pragma once

#include <functional>

namespace ridgepoint {

// Long work calls it every few tenths of a second. It may throw to end the work.
using StopPoint = std::function<void()>;

}  // namespace ridgepoint
