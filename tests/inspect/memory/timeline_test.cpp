#include "inspect/memory/timeline.h"

#include <algorithm>

#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/made_snapshot.h"

namespace ridgepoint {
namespace {

// Blocks of 1, 2 and 4 KiB at 0, 10 and 90 ms, freed at 92, 94 and 100 ms.
class Sample {
 public:
  Sample() {
    made_.time_us = 0;
    at(0).mark("forward", true);
    add(MemoryEventKind::segment_alloc, 8, 0);
    add(MemoryEventKind::alloc, 1, 0);
    add(MemoryEventKind::alloc, 2, 10);
    add(MemoryEventKind::alloc, 4, 90);
    at(92).mark("forward", false);
    made_.mark("backward", true);
    add(MemoryEventKind::free, 4, 92);
    add(MemoryEventKind::free, 2, 94);
    add(MemoryEventKind::free, 1, 100);
    made_.mark("backward", false);
  }
  MadeSnapshot& at(std::int64_t ms) {
    made_.time_us = ms * 1000;
    return made_;
  }
  Timeline timeline(TimelineAxis axis, std::size_t columns) const {
    return make_timeline(made_.snapshot, analyse_memory(made_.snapshot, 0), axis, columns);
  }

 private:
  void add(MemoryEventKind kind, std::uint64_t kib, std::int64_t ms) {
    at(ms).event(kind, kib, {.size_bytes = kib * 1024, .rounding_bytes = 0});
  }
  MadeSnapshot made_;
};

std::vector<std::size_t> kib_of(const Timeline& timeline) {
  std::vector<std::size_t> kib;
  for (const TimelineColumn& column : timeline.columns) kib.push_back(column.allocated_bytes / 1024);
  return kib;
}

TEST(Timeline, has_the_highest_level_of_each_stretch_of_time) {
  const Timeline timeline = Sample().timeline(TimelineAxis::time, 10);
  EXPECT_DOUBLE_EQ(timeline.length, 100);
  EXPECT_THAT(kib_of(timeline), ElementsAre(1, 3, 3, 3, 3, 3, 3, 3, 3, 7));
  for (const TimelineColumn& column : timeline.columns) {
    EXPECT_EQ(column.reserved_bytes, 8 * 1024U);
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : column.layer_bytes) sum += bytes;
    EXPECT_EQ(sum, column.allocated_bytes);
  }
  EXPECT_EQ(timeline.columns[8].phase, "forward");
  EXPECT_EQ(timeline.columns[9].phase, "backward");
}

TEST(Timeline, has_no_phase_where_the_host_waits_after_it) {
  MadeSnapshot made;
  const auto phase = [&](const char* name, std::int64_t begin_us, std::int64_t end_us) {
    made.time_us = begin_us;
    made.mark(name, true);
    made.event(MemoryEventKind::alloc, static_cast<std::uint64_t>(begin_us), {.size_bytes = 512, .rounding_bytes = 0});
    made.time_us = end_us;
    made.mark(name, false);
  };
  phase("forward", 0, 1000);
  phase("optimizer", 1000, 2000);
  phase("forward", 4000, 5000);
  const Timeline timeline = make_timeline(made.snapshot, analyse_memory(made.snapshot, 0), TimelineAxis::time, 5);
  std::vector<std::string> phases;
  for (const TimelineColumn& column : timeline.columns) phases.push_back(column.phase);
  EXPECT_THAT(phases, ElementsAre("forward", "optimizer", "", "", "forward"));
}

TEST(Timeline, puts_one_event_beside_the_other) {
  const Timeline timeline = Sample().timeline(TimelineAxis::events, 6);
  EXPECT_DOUBLE_EQ(timeline.length, 6) << "the segment takes no step";
  EXPECT_THAT(kib_of(timeline), ElementsAre(1, 3, 7, 7, 3, 1));
}

TEST(Timeline, stays_at_the_level_before_a_release_for_all_of_its_steps) {
  MadeSnapshot made;
  const auto add = [&](MemoryEventKind kind, std::uint64_t kib) {
    made.event(kind, kib, {.size_bytes = kib * 1024, .rounding_bytes = 0});
  };
  add(MemoryEventKind::alloc, 1);
  add(MemoryEventKind::alloc, 2);
  add(MemoryEventKind::free, 1);
  add(MemoryEventKind::free, 2);
  const Timeline timeline = make_timeline(made.snapshot, analyse_memory(made.snapshot, 0), TimelineAxis::events, 7);
  EXPECT_DOUBLE_EQ(timeline.length, 7);
  EXPECT_THAT(kib_of(timeline), ElementsAre(1, 3, 3, 3, 3, 3, 2));
}

TEST(Timeline, never_loses_the_peak) {
  for (const TimelineAxis axis : {TimelineAxis::time, TimelineAxis::events}) {
    for (const std::size_t columns : {1U, 2U, 3U, 50U, 1000U}) {
      const std::vector<std::size_t> kib = kib_of(Sample().timeline(axis, columns));
      EXPECT_EQ(kib.size(), columns);
      EXPECT_EQ(*std::ranges::max_element(kib), 7U) << columns;
    }
  }
}

TEST(Timeline, begins_after_the_warm_up) {
  Sample sample;
  sample.at(0).snapshot.settings.counted_from_us = 20'000;
  const Timeline timeline = sample.timeline(TimelineAxis::time, 8);
  EXPECT_DOUBLE_EQ(timeline.length, 80);
  EXPECT_EQ(kib_of(timeline).back(), 7U);
}

TEST(Timeline, names_its_axes) {
  EXPECT_EQ(timeline_axis_from_name("events"), TimelineAxis::events);
  EXPECT_THAT(error_of([] { timeline_axis_from_name("tine"); }), HasSubstr("time"));
}

// A history and the steps that each of its events takes in the viewer.
class ViewedHistory {
 public:
  ViewedHistory& add(MemoryEventKind kind, std::uint64_t address, std::uint64_t bytes = 1024) {
    made_.event(kind, address, {.size_bytes = bytes, .rounding_bytes = 0});
    return *this;
  }
  std::vector<std::uint64_t> steps() const {
    const MemoryHistory& history = history_of(made_.snapshot, 0);
    const ViewerAxis axis(history, analyse_memory(made_.snapshot, 0).lifetimes, {});
    std::vector<std::uint64_t> steps;
    for (std::size_t i = 0; i < history.size(); ++i) steps.push_back(axis.steps(i + 1) - axis.steps(i));
    return steps;
  }

 private:
  MadeSnapshot made_;
};

TEST(ViewerAxis, moves_three_steps_more_where_blocks_above_a_released_one_slide_down) {
  using enum MemoryEventKind;
  ViewedHistory viewed;
  viewed.add(segment_alloc, 64, 8192).add(alloc, 1).add(alloc, 2).add(alloc, 3);
  viewed.add(MemoryEventKind::free, 2).add(MemoryEventKind::free, 3).add(alloc, 4).add(MemoryEventKind::free, 1);
  viewed.add(free_requested, 4).add(alloc, 5).add(free_completed, 4).add(oom, 0).add(MemoryEventKind::free, 5);
  EXPECT_THAT(viewed.steps(), ElementsAre(0, 1, 1, 1, 4, 1, 1, 4, 0, 1, 4, 0, 1));
}

TEST(ViewerAxis, has_blocks_that_are_older_than_the_history_below_all_others) {
  using enum MemoryEventKind;
  ViewedHistory viewed;
  viewed.add(alloc, 1).add(MemoryEventKind::free, 8).add(MemoryEventKind::free, 1).add(MemoryEventKind::free, 9);
  EXPECT_THAT(viewed.steps(), ElementsAre(1, 4, 1, 1));
}

TEST(ViewerAxis, draws_the_15000_largest_blocks_and_of_equal_ones_the_first) {
  using enum MemoryEventKind;
  ViewedHistory viewed;
  viewed.add(alloc, 1, 512);
  for (std::uint64_t i = 0; i <= 15'000; ++i) viewed.add(alloc, 100 + i);
  viewed.add(MemoryEventKind::free, 1);             // too small
  viewed.add(MemoryEventKind::free, 100);           // drawn, below others
  viewed.add(MemoryEventKind::free, 100 + 14'999);  // drawn; the one above it is one too many
  viewed.add(MemoryEventKind::free, 100 + 15'000);
  const std::vector<std::uint64_t> steps = viewed.steps();
  EXPECT_THAT(std::vector(steps.end() - 4, steps.end()), ElementsAre(1, 4, 1, 1));
}

}  // namespace
}  // namespace ridgepoint
