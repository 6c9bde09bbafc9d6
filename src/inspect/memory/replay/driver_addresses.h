// Addresses without memory behind them, as NVIDIA's driver gives them. They decide which of several equal blocks an
// allocator takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inspect/memory/replay/requests.h"
#include "memory/allocator.h"

namespace ridgepoint {

// While the replay asks for the same segments as the recorded run, segments get the recorded addresses. From the first
// difference on, a segment gets the lowest free place in the chunks, which are multiples of 32 MiB. If no chunk has
// room, a new chunk lies at the highest free place below the first one. (Observed on an H100, driver 580.)
class DriverAddresses final : public DeviceMemory {
 public:
  // `recorded` must outlive it.
  DriverAddresses(const std::vector<RecordedSegment>& recorded, std::optional<std::uint64_t> capacity_bytes);

  std::string name() const override { return "the replay"; }
  std::size_t total_memory_bytes() const override { return total_bytes_; }
  // Null if the addresses do not suffice.
  void* allocate_memory(std::size_t bytes) override;
  void release_memory(void* place, std::size_t bytes) override;

 private:
  std::uintptr_t next_recorded(std::size_t bytes);
  void stop_following();
  std::uintptr_t from_hole(std::size_t bytes);
  std::uintptr_t from_new_chunk(std::size_t bytes);

  std::size_t total_bytes_;
  const std::vector<RecordedSegment>& recorded_;
  std::size_t next_ = 0;  // of the recorded ones
  bool follows_ = true;
  std::map<std::uintptr_t, std::size_t> given_;      // sizes by address
  std::map<std::uintptr_t, std::uintptr_t> chunks_;  // ends by begin
  std::map<std::uintptr_t, std::size_t> holes_;      // in chunks
};

}  // namespace ridgepoint
