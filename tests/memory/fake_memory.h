// Device memory of a chosen size for allocator tests: addresses that are never accessed, rising or falling from segment
// to segment, and a record of all segments.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "memory/allocator.h"

namespace ridgepoint {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

class FakeMemory : public DeviceMemory {
 public:
  explicit FakeMemory(std::size_t total_bytes = std::size_t{1} << 40, bool is_downwards = false)
      : total_bytes_(total_bytes), is_downwards_(is_downwards) {}

  std::string name() const override { return "fake card"; }
  std::size_t total_memory_bytes() const override { return total_bytes_; }

  void* allocate_memory(std::size_t bytes) override {
    if (bytes > total_bytes_ - taken_bytes_) return nullptr;
    taken_bytes_ += bytes;
    if (is_downwards_) next_address_ -= bytes;
    const std::uintptr_t address = next_address_;
    if (!is_downwards_) next_address_ += bytes;
    segments_[address] = bytes;
    return reinterpret_cast<void*>(address);
  }
  void release_memory(void* address, std::size_t bytes) override {
    const auto found = segments_.find(reinterpret_cast<std::uintptr_t>(address));
    ASSERT_NE(found, segments_.end()) << "released a segment that was never taken";
    EXPECT_EQ(found->second, bytes);
    taken_bytes_ -= bytes;
    segments_.erase(found);
  }

  std::size_t taken_bytes() const { return taken_bytes_; }
  std::size_t segment_count() const { return segments_.size(); }

 private:
  std::size_t total_bytes_;
  bool is_downwards_;
  std::size_t taken_bytes_ = 0;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 42;
  std::map<std::uintptr_t, std::size_t> segments_;
};

}  // namespace ridgepoint
