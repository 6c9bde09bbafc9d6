// Where long work may be ended from outside.
#pragma once

#include <functional>

namespace ridgepoint {

// Called every few tenths of a second of long work, which it may end by throwing.
using StopPoint = std::function<void()>;

}  // namespace ridgepoint
