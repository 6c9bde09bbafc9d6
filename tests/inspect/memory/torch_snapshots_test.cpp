// Snapshots that PyTorch 2.11 wrote on an H200 (tools/pytorch/torch_memory.py snapshots), against its own statistics.

#include <nlohmann/json.hpp>
#include <string>

#include "core/files/file.h"
#include "inspect/memory/analyse.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

class TorchSnapshot : public ::testing::Test {
 protected:
  void read(const std::string& name) {
    const std::filesystem::path folder = source_folder() / "tests/golden/torch_snapshots";
    report_ = analyse_memory(read_snapshot(folder / (name + ".pickle.gz")), 0).report;
    statistics_ = nlohmann::json::parse(read_file(folder / (name + ".json"), 1 << 20));
  }
  void expect(const MemoryLevels& found, const char* when) const {
    EXPECT_EQ(found.allocated_bytes, statistics_[when]["allocated"].get<std::uint64_t>());
    EXPECT_EQ(found.active_bytes, statistics_[when]["active"].get<std::uint64_t>());
    EXPECT_EQ(found.reserved_bytes, statistics_[when]["reserved"].get<std::uint64_t>());
  }
  std::uint64_t at_peak(const std::string& category) const {
    for (const MemoryShare& share : report_.contents.categories) {
      if (share.name == category) return share.bytes;
    }
    return 0;
  }

  MemoryReport report_;
  nlohmann::json statistics_;
};

TEST_F(TorchSnapshot, of_a_training_step_has_pytorchs_peaks) {
  read("step");
  expect(report_.peak, "peak");
  expect(report_.end, "at_end");
  EXPECT_TRUE(report_.history_complete);
  EXPECT_EQ(report_.phases.size(), 16U);  // 4 iterations: forward, backward, optimizer, and the optimizer's own
  EXPECT_EQ(report_.leaks.leaked_bytes, 0U);
}

// The threads of autograd have no Python frames, so only the annotation says what their blocks are.
TEST_F(TorchSnapshot, gradients_are_found_by_the_annotation_of_backward) {
  read("step");
  constexpr std::uint64_t kParameterBytes = 4 * 2'986'624;
  EXPECT_GE(at_peak("gradient"), kParameterBytes);
  EXPECT_LT(at_peak("gradient"), kParameterBytes + (std::uint64_t{1} << 20));
  EXPECT_GE(at_peak("optimizer_state"), 2 * kParameterBytes);
  EXPECT_EQ(at_peak("workspace"), std::uint64_t{64} << 20);  // of Python's thread, and of autograd's
}

TEST_F(TorchSnapshot, of_a_loop_of_forwards_rises_and_falls) {
  read("forward_loop");
  expect(report_.peak, "peak");
  expect(report_.end, "at_end");
  EXPECT_EQ(report_.phases.size(), 4U);
}

TEST_F(TorchSnapshot, with_failures_names_each_and_the_limit_that_refused_it) {
  read("out_of_memory");
  expect(report_.peak, "peak");
  expect(report_.end, "at_end");
  ASSERT_EQ(report_.out_of_memory.size(), statistics_["ooms"].get<std::size_t>());
  for (const OutOfMemoryEvent& failure : report_.out_of_memory)
    EXPECT_THAT(failure.advice, HasSubstr("set_per_process_memory_fraction"));
}

TEST_F(TorchSnapshot, that_overflowed_says_so_and_still_has_the_end) {
  read("overflow");
  expect(report_.end, "at_end");
  EXPECT_FALSE(report_.history_complete);
  EXPECT_LE(report_.peak.allocated_bytes, statistics_["peak"]["allocated"].get<std::uint64_t>());
}

TEST_F(TorchSnapshot, of_expandable_segments_has_pytorchs_peaks) {
  read("expandable");
  expect(report_.peak, "peak");
  expect(report_.end, "at_end");
  EXPECT_TRUE(report_.history_complete);
}

}  // namespace
}  // namespace ridgepoint
