// Counters of an allocator: bytes now and at the peak.
#pragma once

#include <cstddef>

namespace ridgepoint {

struct MemoryUse {
  std::size_t allocated_bytes = 0;  // in live blocks, after 512-byte rounding
  std::size_t reserved_bytes = 0;   // in segments taken from the device
  std::size_t requested_bytes = 0;  // before rounding
  std::size_t peak_allocated_bytes = 0;
  std::size_t peak_reserved_bytes = 0;
  std::size_t peak_requested_bytes = 0;
};

}  // namespace ridgepoint
