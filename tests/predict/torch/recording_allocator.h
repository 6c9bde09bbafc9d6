// The allocations of an iteration, and recordings of PyTorch on the CPU to compare them with
// (tools/pytorch/torch_memory.py).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "memory/allocator.h"

namespace ridgepoint::torch {

inline constexpr std::int64_t kLargestScalarBytes = 16;  // the recordings leave smaller ones out

// Records the bytes of each allocation, negative for a release. Those of one category may be left out.
class RecordingAllocator : public Allocator {
 public:
  explicit RecordingAllocator(std::optional<MemoryCategory> left_out = {}) : left_out_(left_out) {}

  void* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t /*node*/, std::uint32_t /*index*/) override {
    const std::uintptr_t address = ++last_address_;
    live_[address] = category == left_out_ ? 0 : static_cast<std::int64_t>(bytes);
    record(live_[address]);
    return reinterpret_cast<void*>(address);
  }
  void free(void* address) override { record(-live_.extract(reinterpret_cast<std::uintptr_t>(address)).mapped()); }
  MemoryUse use() const override { return {}; }
  CategoryBytes allocated_by_category() const override { return {}; }
  CategoryBytes peak_by_category() const override { return {}; }
  // Called as each phase begins.
  void reset_peak() override { phases_.push_back(events_.size()); }
  void set_trace(MemoryTrace* /*trace*/) override {}

  std::size_t live_blocks() const { return live_.size(); }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  std::vector<std::int64_t> last_phases(std::size_t count) const {
    return {events_.begin() + static_cast<std::ptrdiff_t>(phases_[phases_.size() - count]), events_.end()};
  }

 private:
  void record(std::int64_t bytes) {
    live_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    if (std::abs(bytes) > kLargestScalarBytes) events_.push_back(bytes);
  }

  std::optional<MemoryCategory> left_out_;
  std::uintptr_t last_address_ = 0;
  std::int64_t live_bytes_ = 0, peak_bytes_ = 0;
  std::map<std::uintptr_t, std::int64_t> live_;
  std::vector<std::int64_t> events_;
  std::vector<std::size_t> phases_;
};

// From the first allocation to the last. Releases without an allocation between them have no order.
inline std::vector<std::int64_t> comparable(std::vector<std::int64_t> events) {
  const auto is_allocation = [](std::int64_t bytes) { return bytes > 0; };
  events.erase(events.begin(), std::ranges::find_if(events, is_allocation));
  while (!events.empty() && events.back() < 0) events.pop_back();
  for (auto begin = events.begin(); begin != events.end();) {
    const auto end = std::find_if(begin, events.end(), is_allocation);
    std::sort(begin, end);
    begin = std::find_if_not(end, events.end(), is_allocation);
  }
  return events;
}

struct Recording {
  nlohmann::json configuration;
  std::vector<std::int64_t> events = {};

  std::int64_t size(const char* name) const { return configuration[name].get<std::int64_t>(); }
};

inline Recording read_recording(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  Recording recording{nlohmann::json::parse(line)};
  for (std::string word; file >> word;) {  // 4096*3 are three of 4096
    const std::size_t star = word.find('*');
    recording.events.insert(recording.events.end(), star == std::string::npos ? 1 : std::stoul(word.substr(star + 1)),
                            std::stoll(word));
  }
  return recording;
}

}  // namespace ridgepoint::torch
