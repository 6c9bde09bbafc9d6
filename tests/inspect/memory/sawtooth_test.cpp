// The rise and fall of a run, whose annotations say what repeats.
#include "inspect/memory/sawtooth.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "inspect/memory/analyse.h"
#include "support/records/made_snapshot.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::int64_t kMs = 1000;

// Iterations that allocate three blocks, a millisecond apart, and free them `fall_us` apart.
class Repeated {
 public:
  explicit Repeated(std::int64_t fall_us) : fall_us_(fall_us) {}

  Repeated& iterate(bool asks_for_segments = false) {
    const std::string name = fmt::format("iteration {}", ++iterations_);
    ++made_.time_us;
    made_.mark(name, true);
    if (counts_from_here_) made_.snapshot.settings.counted_from_us = made_.time_us;
    counts_from_here_ = false;
    for (std::uint64_t i = 0; i < 3; ++i) {
      if (asks_for_segments) add(MemoryEventKind::segment_alloc, i, kMs);
      add(MemoryEventKind::alloc, i, kMs);
    }
    made_.time_us += kMs;  // at the peak
    for (std::uint64_t i = 0; i < 3; ++i) {
      add(MemoryEventKind::free, i, fall_us_);
      if (asks_for_segments) add(MemoryEventKind::segment_free, i, 0);
    }
    ++made_.time_us;
    made_.mark(name, false);
    return *this;
  }
  Repeated& count_from_here() {
    counts_from_here_ = true;
    return *this;
  }
  Sawtooth sawtooth(const std::optional<DeviceWork>& work = {}) const {
    return analyse_memory(made_.snapshot, 0, {}, work).report.sawtooth;
  }

 private:
  void add(MemoryEventKind kind, std::uint64_t address, std::int64_t passed_us) {
    made_.time_us += passed_us;
    made_.event(kind, address, {.size_bytes = kBlock, .rounding_bytes = 0});
  }

  std::int64_t fall_us_;
  MadeSnapshot made_;
  int iterations_ = 0;
  bool counts_from_here_ = true;
};

TEST(SawtoothOfRun, tells_time_from_events) {
  // Three releases take 2 us between the first and the last, and so many events as the rise.
  const Sawtooth sawtooth = Repeated(1).iterate().iterate().iterate().sawtooth();
  EXPECT_EQ(sawtooth.cycles, 2U);
  EXPECT_EQ(sawtooth.height_bytes, 3 * kBlock);
  EXPECT_DOUBLE_EQ(sawtooth.rise_ms, 2);  // from the first allocation to the third
  EXPECT_DOUBLE_EQ(sawtooth.fall_ms, 0.002);
  EXPECT_DOUBLE_EQ(sawtooth.rise_events, 3);
  EXPECT_DOUBLE_EQ(sawtooth.fall_events, 3);
  EXPECT_DOUBLE_EQ(sawtooth.rise_steps, 3);
  EXPECT_DOUBLE_EQ(sawtooth.fall_steps, 4 + 4 + 1);  // the oldest block is released first
  EXPECT_EQ(sawtooth.verdict, Sawtooth::Verdict::released_in_bursts);
  EXPECT_FALSE(sawtooth.busy_share);
}

TEST(SawtoothOfRun, is_none_of_one_iteration_or_of_constant_memory) {
  EXPECT_EQ(Repeated(1).iterate().sawtooth().cycles, 0U);
  EXPECT_EQ(analyse_memory(MadeSnapshot().snapshot, 0).report.sawtooth.verdict, Sawtooth::Verdict::none);
}

TEST(SawtoothOfRun, leaves_out_the_warm_up) {
  EXPECT_EQ(Repeated(1).iterate().count_from_here().iterate().iterate().sawtooth().cycles, 1U);
}

TEST(SawtoothOfRun, judges_by_the_work_of_the_device) {
  const Repeated repeated = Repeated(1).iterate().iterate();
  EXPECT_EQ(repeated.sawtooth(DeviceWork{9.5, 10}).verdict, Sawtooth::Verdict::compute_bound);
  EXPECT_EQ(repeated.sawtooth(DeviceWork{4, 10}).verdict, Sawtooth::Verdict::host_bound);
  EXPECT_DOUBLE_EQ(*repeated.sawtooth(DeviceWork{4, 10}).busy_share, 0.4);
}

TEST(SawtoothOfRun, sees_requests_to_the_device) {
  const Sawtooth sawtooth = Repeated(1).iterate(true).iterate(true).sawtooth(DeviceWork{9.5, 10});
  EXPECT_EQ(sawtooth.segment_requests, 6U);
  EXPECT_GT(sawtooth.allocator_share, 0.4);
  EXPECT_EQ(sawtooth.verdict, Sawtooth::Verdict::allocator_bound);
  EXPECT_EQ(sawtooth.retries, 1U);  // the second iteration begins where the first gave a segment back
}

}  // namespace
}  // namespace ridgepoint
