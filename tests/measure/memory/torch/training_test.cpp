#include "measure/memory/torch/training.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace ridgepoint::torch {
namespace {

// Records the bytes of each allocation and, negative, of each release. PyTorch's own scalars are left out.
class RecordingAllocator : public Allocator {
 public:
  void* allocate(std::size_t bytes, MemoryCategory, std::uint32_t, std::uint32_t) override {
    record(static_cast<std::int64_t>(bytes));
    live_[next_address_] = static_cast<std::int64_t>(bytes);
    return reinterpret_cast<void*>(next_address_++);
  }
  void free(void* address) override {
    record(-live_.extract(reinterpret_cast<std::uintptr_t>(address)).mapped());
  }
  MemoryUse use() const override { return {}; }
  CategoryBytes allocated_by_category() const override { return {}; }
  CategoryBytes peak_by_category() const override { return {}; }
  // Each phase begins with this.
  void reset_peak() override { phases_.push_back(events_.size()); }
  void set_trace(MemoryTrace*) override {}

  // The events of the last iteration, which has `phases` phases, until its last allocation.
  std::vector<std::int64_t> last_iteration(std::size_t phases) const {
    std::vector<std::int64_t> events(events_.begin() + static_cast<std::ptrdiff_t>(phases_[phases_.size() - phases]),
                                     events_.end());
    while (!events.empty() && events.back() < 0) events.pop_back();
    return events;
  }

 private:
  void record(std::int64_t bytes) {
    constexpr std::int64_t kLargestScalarBytes = 16;
    if (std::abs(bytes) > kLargestScalarBytes) events_.push_back(bytes);
  }

  std::uintptr_t next_address_ = 1;
  std::map<std::uintptr_t, std::int64_t> live_;
  std::vector<std::int64_t> events_;
  std::vector<std::size_t> phases_;
};

TEST(Dump, x) {
  const char* mode = getenv("T_MODE");
  Training t{.model = {"custom", 50, 16, 32, 72, 2, 2, attention_variant_from_name(getenv("T_ATT"))}, .batch = 2, .mode = mode_from_name(mode), .precision = precision_from_name(getenv("T_DTYPE")), .cublas_workspace_bytes = 1};
  RecordingAllocator a;
  run(t, a);
  std::size_t n = t.mode == Mode::step ? 4 : t.mode == Mode::backward ? 3 : 1;
  std::ofstream o("/tmp/asx/ours.txt");
  for (auto e : a.last_iteration(n)) o << e << "\n";
}

}  // namespace
}  // namespace ridgepoint::torch
