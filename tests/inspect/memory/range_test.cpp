// A part of a history: what counts of it, and what is cut.

#include "inspect/memory/timeline.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/snapshot_json.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t at(std::uint64_t block) { return kSegmentBase + block * 100 * kMiB; }

// Steps of two blocks, the second of which is freed, that leave one block each: of 10, 11 and 12 MiB. Step i begins
// after event 3 i, 30 i microseconds after the first.
SnapshotJson three_steps() {
  SnapshotJson made;
  for (std::uint64_t i = 0; i < 3; ++i) {
    made.mark("forward", true);
    made.alloc(at(i), (10 + i) * kMiB);
    made.alloc(at(9), 50 * kMiB);
    made.mark("forward", false);
    made.event("free", at(9), 50 * kMiB);
  }
  return made;
}

MemoryAnalysis analysis_of(const SnapshotJson& made, const MemoryRange& range, bool has_times = true) {
  Snapshot snapshot = made.read();
  snapshot.settings.has_clock = has_times;
  return analyse_memory(snapshot, 0, {}, {}, range);
}
MemoryReport report_of(const SnapshotJson& made, const MemoryRange& range, bool has_times = true) {
  return analysis_of(made, range, has_times).report;
}

TEST(Range, has_the_levels_at_its_begin_and_its_end_and_its_own_peak) {
  const MemoryReport report = report_of(three_steps(), {25, 55});  // the second step, but for its last event
  EXPECT_EQ(report.start.allocated_bytes, 10 * kMiB);
  EXPECT_EQ(report.peak.allocated_bytes, 71 * kMiB);
  EXPECT_EQ(report.contents.at.moment, 5u);
  EXPECT_EQ(report.end.allocated_bytes, 21 * kMiB);
  EXPECT_EQ(report.window.begin.moment, 3u);
  EXPECT_EQ(report.window.end.moment, 6u);
  EXPECT_EQ(report.events, 9u);
  EXPECT_EQ(report.leaks.leaked_bytes, 11 * kMiB);
}

TEST(Range, is_of_events_where_there_are_no_times) {
  const MemoryReport report = report_of(three_steps(), {3, 6}, false);
  EXPECT_EQ(report.start.allocated_bytes, 10 * kMiB);
  EXPECT_EQ(report.peak.allocated_bytes, 71 * kMiB);
  EXPECT_EQ(report.end.allocated_bytes, 21 * kMiB);
}

TEST(Range, counts_the_level_at_its_begin) {
  const MemoryReport report = report_of(three_steps(), {15, 25});  // the release alone
  EXPECT_EQ(report.start.allocated_bytes, 60 * kMiB);
  EXPECT_EQ(report.peak.allocated_bytes, 60 * kMiB);
  EXPECT_EQ(report.end.allocated_bytes, 10 * kMiB);
}

TEST(Range, has_no_event_between_two) {
  const MemoryReport report = report_of(three_steps(), {11, 12});
  EXPECT_EQ(report.window.begin.moment, 2u);
  EXPECT_EQ(report.window.end.moment, 2u);
  EXPECT_EQ(report.peak.allocated_bytes, 60 * kMiB);
}

TEST(Range, cuts_phases_that_reach_beyond_it) {
  const MemoryReport report = report_of(three_steps(), {5, 35});
  ASSERT_EQ(report.phases.size(), 2u);
  EXPECT_EQ(report.phases[0].begin.moment, 1u);
  EXPECT_EQ(report.phases[0].begin_bytes, 10 * kMiB);
  EXPECT_EQ(report.phases[0].peak_bytes, 60 * kMiB);
  EXPECT_EQ(report.phases[1].end_bytes, 21 * kMiB);
  EXPECT_FALSE(report.phases[0].is_whole);
  EXPECT_FALSE(report.phases[1].is_whole);
  ASSERT_EQ(report.phase_peaks.size(), 1u);
  EXPECT_EQ(report.phase_peaks[0].contents.levels.allocated_bytes, 60 * kMiB);
}

TEST(Range, keeps_the_categories_of_the_whole_history) {
  const auto category_of = [](const MemoryReport& report) { return report.contents.categories.at(0).name; };
  EXPECT_EQ(category_of(report_of(three_steps(), {0, 15})), category_of(three_steps().report()));
}

TEST(Range, has_its_own_failures) {
  SnapshotJson made = three_steps();
  made.event("oom", 0, 40 * kMiB);
  EXPECT_TRUE(report_of(made, {0, 80}).out_of_memory.empty());
  EXPECT_EQ(report_of(made, {0, 90}).out_of_memory.size(), 1u);
}

TEST(Range, is_drawn_alone) {
  const SnapshotJson made = three_steps();
  const MemoryAnalysis analysis = analysis_of(made, {15, 45});
  const Timeline timeline = make_timeline(made.read(), analysis, TimelineAxis::time, 6);
  std::vector<std::uint64_t> levels;
  for (const TimelineColumn& column : timeline.columns) levels.push_back(column.allocated_bytes / kMiB);
  EXPECT_EQ(timeline.length, 0.03);
  EXPECT_THAT(levels, ElementsAre(60, 60, 10, 21, 21, 71));
}

TEST(Range, must_begin_before_the_last_event) {
  EXPECT_THAT(error_of([] {
                report_of(three_steps(), {100, 200});
              }),
              HasSubstr("the range begins after the last event, 0.080 ms after the first"));
  EXPECT_THAT(error_of([] {
                report_of(three_steps(), {9, 20}, false);
              }),
              HasSubstr("the history has no times, and 9 events"));
}

}  // namespace
}  // namespace ridgepoint
