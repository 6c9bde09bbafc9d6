// Allocators hand out device memory in blocks and account for it. `caching` follows the rules PyTorch users know.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/memory_category.h"
#include "ridgepoint/memory_use.h"

namespace ridgepoint {

// Bytes for each category, after 512-byte rounding, indexed by the enum.
using CategoryBytes = std::array<std::size_t, kMemoryCategoryCount>;

inline constexpr std::uint32_t kNoNode = UINT32_MAX;

class MemoryTrace;

class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` (0 gives a distinct smallest block), 512-byte aligned. Throws OutOfMemory with what was asked
  // and what was free; everything allocated before stays valid.
  virtual void* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node) = 0;
  virtual void free(void* address) = 0;
  // Returns wholly free segments to the device.
  virtual void release_cached() = 0;
  virtual MemoryUse use() const = 0;
  // What the allocated bytes are for, now and at the moment their sum first reached its peak.
  virtual CategoryBytes allocated_by_category() const = 0;
  virtual CategoryBytes peak_by_category() const = 0;
  // Peaks start again from what is live now.
  virtual void reset_peak() = 0;
  // Events are written to `trace` from now on; null stops it. The trace must outlive its use.
  virtual void set_trace(MemoryTrace* trace) = 0;
};

}  // namespace ridgepoint
