// The interface of an allocator of device memory, with statistics by category.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/memory_category.h"
#include "ridgepoint/core/memory_use.h"

namespace ridgepoint {

// The raw memory of a device, from which allocators reserve segments. It is separate from Device because src/memory
// must not include src/runtime.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::string name() const = 0;  // of the processor or card
  virtual std::size_t total_memory_bytes() const = 0;
  // Free memory by the device's driver, all processes counted; empty where there is no such figure.
  virtual std::optional<std::size_t> free_memory_bytes() const { return std::nullopt; }

  // Raw memory, 512-byte aligned; null when there is not enough.
  virtual void* allocate_memory(std::size_t bytes) = 0;
  // The same for memory in which every block has a fixed place, which other devices of a run may reach.
  virtual void* allocate_arena(std::size_t bytes) { return allocate_memory(bytes); }
  // Of either kind.
  virtual void release_memory(void* address, std::size_t bytes) = 0;
};

// Bytes for each category, after 512-byte rounding, indexed by the enum.
using CategoryBytes = std::array<std::size_t, kMemoryCategoryCount>;

inline constexpr std::uint32_t kNoNode = UINT32_MAX;
inline constexpr std::uint32_t kNoIndex = UINT32_MAX;

class MemoryTrace;

// The memory in which every block of an allocator lies; `layout` is a hash of the place of each block in it.
struct FixedMemory {
  void* address = nullptr;
  std::size_t bytes = 0;
  std::uint64_t layout = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes`, 512-byte aligned; 0 bytes allocate a block of the smallest size. `node` is recorded in traces.
  // `index` is that of the block among the lifetimes of a plan (plan/plan.h); the caching allocator ignores it.
  // Throws OutOfMemory; earlier allocations stay valid.
  virtual void* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node,
                         std::uint32_t index = kNoIndex) = 0;
  virtual void free(void* address) = 0;
  // Whether a run may skip its requests if they are those of the last run: each index always has the same address, and
  // no trace records the requests.
  virtual bool can_skip_requests() const { return false; }
  // Empty unless each block has its place for as long as the allocator exists.
  virtual FixedMemory fixed_memory() const { return {}; }
  // A hash of the blocks that are live and free. If it is the same after two runs, the second and those after it get
  // what the runs between the two got.
  virtual std::uint64_t layout_hash() const { return 0; }
  virtual MemoryUse use() const = 0;
  // Allocated bytes by category, now and when their sum first reached its peak.
  virtual CategoryBytes allocated_by_category() const = 0;
  virtual CategoryBytes peak_by_category() const = 0;
  // Sets the peaks to the current values.
  virtual void reset_peak() = 0;
  // Records later events in `trace`; null ends this. The trace must live that long.
  virtual void set_trace(MemoryTrace* trace) = 0;
};

}  // namespace ridgepoint
