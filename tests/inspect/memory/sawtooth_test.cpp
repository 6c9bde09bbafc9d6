#include "inspect/memory/sawtooth.h"

#include <gtest/gtest.h>

namespace ridgepoint {
namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::int64_t kMs = 1'000'000;

// Iterations that allocate three blocks, a millisecond apart, and free them `fall_ns` apart.
class Repeated {
 public:
  explicit Repeated(std::int64_t fall_ns) : fall_ns_(fall_ns) {}

  Repeated& iterate(bool asks_for_segments = false) {
    HistorySpan span{.begin = history_.events.size(), .begin_ns = now_ns_};
    for (std::uint64_t i = 0; i < 3; ++i) {
      if (asks_for_segments) add(MemoryEventKind::segment_alloc, i, kMs);
      add(MemoryEventKind::alloc, i, kMs);
    }
    now_ns_ += kMs;  // at the peak
    for (std::uint64_t i = 0; i < 3; ++i) {
      add(MemoryEventKind::free, i, fall_ns_);
      if (asks_for_segments) add(MemoryEventKind::segment_free, i, 0);
    }
    span.end = history_.events.size();
    span.end_ns = now_ns_;
    history_.iterations.push_back(span);
    return *this;
  }

  const MemoryHistory& history() const { return history_; }

 private:
  void add(MemoryEventKind kind, std::uint64_t address, std::int64_t passed_ns) {
    now_ns_ += passed_ns;
    history_.events.push_back(
        {.time_ns = now_ns_, .address = address, .bytes = kBlock, .requested_bytes = kBlock, .kind = kind});
  }

  std::int64_t fall_ns_;
  std::int64_t now_ns_ = 0;
  MemoryHistory history_;
};

TEST(SawtoothOfRun, tells_time_from_events) {
  // Three releases take 2 us between the first and the last, and so many events as the rise.
  const std::optional<Sawtooth> sawtooth = find_sawtooth(Repeated(1000).iterate().iterate().iterate().history(), {});
  ASSERT_TRUE(sawtooth);
  EXPECT_EQ(sawtooth->cycles, 2U);
  EXPECT_EQ(sawtooth->height_bytes, 3 * kBlock);
  EXPECT_DOUBLE_EQ(sawtooth->rise_ms, 2);  // from the first allocation to the third
  EXPECT_DOUBLE_EQ(sawtooth->fall_ms, 0.002);
  EXPECT_DOUBLE_EQ(sawtooth->rise_events, 3);
  EXPECT_DOUBLE_EQ(sawtooth->fall_events, 3);
  EXPECT_EQ(sawtooth->verdict, Sawtooth::Verdict::unknown);
}

TEST(SawtoothOfRun, is_none_of_one_iteration_or_of_constant_memory) {
  EXPECT_FALSE(find_sawtooth(Repeated(1).iterate().history(), {}));
  MemoryHistory constant;
  constant.iterations.resize(3);
  EXPECT_FALSE(find_sawtooth(constant, {}));
}

TEST(SawtoothOfRun, leaves_out_the_warm_up) {
  MemoryHistory history = Repeated(1000).iterate().iterate().iterate().history();
  history.warmup = 1;
  EXPECT_EQ(find_sawtooth(history, {})->cycles, 1U);
}

TEST(SawtoothOfRun, judges_by_the_work_of_the_device) {
  const MemoryHistory history = Repeated(1000).iterate().iterate().history();
  EXPECT_EQ(find_sawtooth(history, DeviceWork{9.5, 10})->verdict, Sawtooth::Verdict::compute_bound);
  EXPECT_EQ(find_sawtooth(history, DeviceWork{4, 10})->verdict, Sawtooth::Verdict::host_bound);
  EXPECT_DOUBLE_EQ(*find_sawtooth(history, DeviceWork{4, 10})->busy_share, 0.4);
}

TEST(SawtoothOfRun, sees_requests_to_the_device) {
  const std::optional<Sawtooth> sawtooth =
      find_sawtooth(Repeated(1000).iterate(true).iterate(true).history(), DeviceWork{9.5, 10});
  ASSERT_TRUE(sawtooth);
  EXPECT_EQ(sawtooth->segment_requests, 6U);
  EXPECT_GT(sawtooth->allocator_share, 0.4);
  EXPECT_EQ(sawtooth->verdict, Sawtooth::Verdict::allocator_bound);
  EXPECT_EQ(sawtooth->retries, 1U);  // the second iteration begins where the first gave a segment back
}

}  // namespace
}  // namespace ridgepoint
