// The raw memory of a device, from which allocators reserve segments. It is separate from Device because src/memory
// must not include src/runtime.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace ridgepoint {

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

}  // namespace ridgepoint
