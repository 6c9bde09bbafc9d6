// The allocations of an iteration against recordings of PyTorch on the CPU (tools/torch_memory.py trace).
#include "measure/memory/torch/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/build_paths.h"

namespace ridgepoint::torch {
namespace {

constexpr std::int64_t kLargestScalarBytes = 16;  // the recordings leave smaller ones out

// Records the bytes of each allocation, negative for a release.
class RecordingAllocator : public Allocator {
 public:
  void* allocate(std::size_t bytes, MemoryCategory /*category*/, std::uint32_t /*node*/,
                 std::uint32_t /*index*/) override {
    const std::uintptr_t address = ++last_address_;
    live_[address] = static_cast<std::int64_t>(bytes);
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
  std::vector<std::int64_t> last_phases(std::size_t count) const {
    return {events_.begin() + static_cast<std::ptrdiff_t>(phases_[phases_.size() - count]), events_.end()};
  }

 private:
  void record(std::int64_t bytes) {
    if (std::abs(bytes) > kLargestScalarBytes) events_.push_back(bytes);
  }

  std::uintptr_t last_address_ = 0;
  std::map<std::uintptr_t, std::int64_t> live_;
  std::vector<std::int64_t> events_;
  std::vector<std::size_t> phases_;
};

// From the first allocation to the last. Releases without an allocation between them have no order.
std::vector<std::int64_t> comparable(std::vector<std::int64_t> events) {
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
  Training training;
  std::vector<std::int64_t> events = {};
};

Recording read_recording(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const nlohmann::json row = nlohmann::json::parse(line);
  const auto size = [&](const char* name) { return row[name].get<std::int64_t>(); };
  Recording recording{
      {.model = {"recorded", size("vocab"), size("context"), size("d_model"), size("d_ff"), size("layers"),
                 size("heads"), attention_variant_from_name(row["attention"].get<std::string>())},
       .batch = size("batch"),
       .mode = mode_from_name(row["mode"].get<std::string>()),
       .precision = precision_from_name(row["dtype"].get<std::string>())}};
  while (std::getline(file, line)) recording.events.push_back(std::stoll(line));
  return recording;
}

TEST(TorchTraining, allocates_and_frees_to_the_byte_what_pytorch_does) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "tests/golden/torch_memory")) {
    SCOPED_TRACE(entry.path().filename());
    const Recording recording = read_recording(entry.path());
    RecordingAllocator allocator;
    run(recording.training, allocator);
    const std::size_t phases = recording.training.mode == Mode::step ? 4 : 1;
    EXPECT_EQ(comparable(allocator.last_phases(phases)), comparable(recording.events));
    ++count;
  }
  EXPECT_EQ(count, 12);
}

TEST(TorchTraining, frees_what_it_allocated) {
  for (const Mode mode : kAllModes) {
    for (const Precision precision : kAllPrecisions) {
      for (const AttentionVariant attention :
           {AttentionVariant::composite, AttentionVariant::softmax, AttentionVariant::flash}) {
        RecordingAllocator allocator;
        run({.model = {"toy", 50, 16, 32, 72, 2, 2, attention},
             .batch = 3,
             .mode = mode,
             .precision = precision,
             .cublas_workspace_bytes = 1024},
            allocator);
        EXPECT_EQ(allocator.live_blocks(), 0U);
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint::torch
