// Where allocators get their segments: the raw memory of a device. Stands apart from the rest of the device
// interface because memory comes before runtime in the order of the folders.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace ridgepoint {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::string name() const = 0;  // the processor's or card's own name
  virtual std::size_t total_memory_bytes() const = 0;
  // What the device itself has left, whoever holds the rest; empty where it does not say.
  virtual std::optional<std::size_t> free_memory_bytes() const { return std::nullopt; }

  // Raw memory, 512-byte aligned. Null when there is none left; never throws for that.
  virtual void* allocate_memory(std::size_t bytes) = 0;
  virtual void release_memory(void* address, std::size_t bytes) = 0;
};

}  // namespace ridgepoint
