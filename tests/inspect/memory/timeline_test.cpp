#include "inspect/memory/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Blocks of 1, 2 and 4 KiB at 0, 10 and 90 ms, freed at 92, 94 and 100 ms.
MemoryHistory sample() {
  MemoryHistory history;
  const auto add = [&](MemoryEventKind kind, std::size_t kib, std::int64_t ms) {
    history.events.push_back({.time_ns = ms * 1'000'000, .address = kib, .bytes = kib * 1024, .kind = kind});
  };
  add(MemoryEventKind::segment_alloc, 8, 0);
  add(MemoryEventKind::alloc, 1, 0);
  add(MemoryEventKind::alloc, 2, 10);
  add(MemoryEventKind::alloc, 4, 90);
  add(MemoryEventKind::free, 4, 92);
  add(MemoryEventKind::free, 2, 94);
  add(MemoryEventKind::free, 1, 100);
  history.iterations.push_back({0, 7, 0, 100'000'000});
  history.phases.push_back({{0, 4, 0, 92'000'000}, 0, Phase::forward});
  history.phases.push_back({{4, 7, 92'000'000, 100'000'000}, 0, Phase::backward});
  return history;
}

std::vector<std::size_t> kib_of(const Timeline& timeline) {
  std::vector<std::size_t> kib;
  for (const TimelineColumn& column : timeline.columns) kib.push_back(column.level.allocated_bytes / 1024);
  return kib;
}

TEST(Timeline, has_the_highest_level_of_each_stretch_of_time) {
  const Timeline timeline = make_timeline(sample(), TimelineAxis::time, 10);
  EXPECT_DOUBLE_EQ(timeline.length, 100);
  EXPECT_THAT(kib_of(timeline), ::testing::ElementsAre(1, 3, 3, 3, 3, 3, 3, 3, 3, 7));
  for (const TimelineColumn& column : timeline.columns) EXPECT_EQ(column.reserved_bytes, 8 * 1024U);
  EXPECT_EQ(timeline.columns[8].phase, Phase::forward);
  EXPECT_EQ(timeline.columns[9].phase, Phase::backward);
}

TEST(Timeline, puts_one_event_beside_the_other) {
  const Timeline timeline = make_timeline(sample(), TimelineAxis::events, 7);
  EXPECT_DOUBLE_EQ(timeline.length, 7);
  EXPECT_THAT(kib_of(timeline), ::testing::ElementsAre(0, 1, 3, 7, 7, 3, 1));
}

TEST(Timeline, never_loses_the_peak) {
  for (const TimelineAxis axis : {TimelineAxis::time, TimelineAxis::events}) {
    for (const std::size_t columns : {1U, 2U, 3U, 50U, 1000U}) {
      const std::vector<std::size_t> kib = kib_of(make_timeline(sample(), axis, columns));
      EXPECT_EQ(kib.size(), columns);
      EXPECT_EQ(*std::ranges::max_element(kib), 7U) << columns;
    }
  }
}

TEST(Timeline, begins_after_the_warm_up) {
  MemoryHistory history = sample();
  history.iterations = {{0, 3, 0, 20'000'000}, {3, 7, 20'000'000, 100'000'000}};
  history.warmup = 1;
  const Timeline timeline = make_timeline(history, TimelineAxis::time, 8);
  EXPECT_DOUBLE_EQ(timeline.length, 80);
  EXPECT_EQ(kib_of(timeline).back(), 7U);
}

TEST(Timeline, names_its_axes) {
  EXPECT_EQ(timeline_axis_from_name("events"), TimelineAxis::events);
  EXPECT_THAT([] { timeline_axis_from_name("tine"); }, ThrowsMessage<Error>(HasSubstr("time")));
}

}  // namespace
}  // namespace ridgepoint
