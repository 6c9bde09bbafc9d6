// What a device does at a time, as profiles tell it apart.
#pragma once

#include <cstdint>

namespace ridgepoint {

// A kernel (a primitive on the CPU), a copy of memory, or a fill.
enum class ActivityKind : std::uint8_t { kernel, copy, fill };

}  // namespace ridgepoint
