#include "inspect/memory/analyse.h"

#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/snapshot_json.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kA = kSegmentBase;
constexpr std::uint64_t kB = kSegmentBase + 4 * kMiB;
constexpr std::uint64_t kC = kSegmentBase + 8 * kMiB;

nlohmann::json stack(const std::string& name) {
  return nlohmann::json::array({frame_json("/home/me/" + name + ".py", 1, name)});
}

// A complete history: a block stays, another one comes and goes.
SnapshotJson complete() {
  SnapshotJson json;
  json.event("segment_alloc", kA, 20 * kMiB);
  json.alloc(kA, 4 * kMiB - 100);
  json.alloc(kB, 4 * kMiB);
  json.free(kB, 4 * kMiB);
  nlohmann::json& segment = json.segment(kA, 20 * kMiB);
  SnapshotJson::block(segment, kA, 4 * kMiB, "active_allocated", 4 * kMiB - 100);
  SnapshotJson::block(segment, kB, 16 * kMiB, "inactive", 0);
  return json;
}

TEST(AnalyseSnapshot, replays_a_complete_history) {
  const MemoryReport report = complete().report();
  EXPECT_TRUE(report.history_complete);
  EXPECT_THAT(report.incomplete_because, IsEmpty());
  EXPECT_EQ(report.start.allocated_bytes, 0u);
  EXPECT_EQ(report.start.reserved_bytes, 0u);
  EXPECT_EQ(report.peak.allocated_bytes, 8 * kMiB);
  EXPECT_EQ(report.peak.reserved_bytes, 20 * kMiB);
  EXPECT_EQ(report.contents.at.moment, 3u);
  EXPECT_EQ(report.end.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(report.fragmentation.at_peak_bytes, 12 * kMiB);
  EXPECT_EQ(report.contents.rounding_bytes(), 100u);
  EXPECT_EQ(report.fragmentation.largest_free_bytes, 16 * kMiB);
}

TEST(AnalyseSnapshot, a_block_that_a_stream_still_uses_is_active_and_not_allocated) {
  SnapshotJson json;
  json.event("segment_alloc", kA, 20 * kMiB);
  json.alloc(kA, 4 * kMiB);
  json.event("free_requested", kA, 4 * kMiB);
  json.alloc(kB, 2 * kMiB);
  json.event("free_completed", kA, 4 * kMiB);
  nlohmann::json& segment = json.segment(kA, 20 * kMiB);
  SnapshotJson::live(segment, kB, 2 * kMiB);
  const MemoryReport report = json.report();
  EXPECT_EQ(report.peak.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(report.peak.active_bytes, 6 * kMiB);
  EXPECT_TRUE(report.history_complete);
}

TEST(AnalyseSnapshot, a_large_block_takes_a_remainder_that_the_allocator_would_not_split_off) {
  SnapshotJson json;
  json.event("segment_alloc", kA, 20 * kMiB);
  json.alloc(kA, 19 * kMiB + kMiB / 2);  // half a MiB would be left
  json.free(kA, 19 * kMiB + kMiB / 2);
  json.alloc(kA, 18 * kMiB);  // two MiB are left
  json.free(kA, 18 * kMiB);
  nlohmann::json& segment = json.segment(kA, 20 * kMiB);
  SnapshotJson::block(segment, kA, 20 * kMiB, "inactive", 0);
  EXPECT_EQ(json.report().peak.allocated_bytes, 20 * kMiB);
  json.segments[0]["is_expandable"] = true;
  json.events.erase(0);
  EXPECT_EQ(json.report().peak.allocated_bytes, 19 * kMiB + kMiB / 2) << "expandable segments split everything";
}

TEST(AnalyseSnapshot, works_backwards_from_the_segments_where_the_history_is_incomplete) {
  SnapshotJson json;
  json.free(kB, 4 * kMiB);  // allocated before the first event
  json.alloc(kC, 2 * kMiB);
  nlohmann::json& segment = json.segment(kA, 40 * kMiB);
  SnapshotJson::live(segment, kA, 4 * kMiB);  // never mentioned
  SnapshotJson::live(segment, kC, 2 * kMiB);
  json.event("segment_free", kA + 100 * kMiB, 20 * kMiB);
  const MemoryReport report = json.report();
  EXPECT_FALSE(report.history_complete);
  EXPECT_EQ(report.start.allocated_bytes, 8 * kMiB);
  EXPECT_EQ(report.start.reserved_bytes, 60 * kMiB);
  EXPECT_EQ(report.peak.allocated_bytes, 8 * kMiB);
  EXPECT_EQ(report.contents.at.moment, 0u);
  EXPECT_EQ(report.end.allocated_bytes, 6 * kMiB);
  EXPECT_THAT(report.incomplete_because, AllOf(Contains(HasSubstr("1 block was freed, but not allocated")),
                                               Contains(HasSubstr("1 block is live"))));
}

TEST(AnalyseSnapshot, says_that_the_ring_buffer_overflowed) {
  SnapshotJson json = complete();
  json.settings = {{"PYTORCH_CUDA_ALLOC_CONF", ""}, {"trace_alloc_overflowed", true}, {"trace_alloc_max_entries", 4}};
  const MemoryReport report = json.report();
  EXPECT_FALSE(report.history_complete);
  EXPECT_THAT(report.incomplete_because, ElementsAre(HasSubstr("The ring buffer overflowed (it holds 4 events)")));
}

TEST(AnalyseSnapshot, says_that_releases_are_missing) {
  SnapshotJson json = complete();
  json.alloc(kA, 4 * kMiB);  // at the address of a live block
  json.alloc(kC, 4 * kMiB);  // not in the segments
  const MemoryReport report = json.report();
  EXPECT_THAT(report.incomplete_because, AllOf(Contains(HasSubstr("1 block was allocated at an address")),
                                               Contains(HasSubstr("1 block is live by the events"))));
}

TEST(AnalyseSnapshot, segments_alone_are_shown_without_a_history) {
  SnapshotJson json;
  nlohmann::json& segment = json.segment(kA, 20 * kMiB);
  SnapshotJson::live(segment, kA, 4 * kMiB);
  SnapshotJson::block(segment, kB, 2 * kMiB, "active_pending_free", 2 * kMiB);
  const MemoryReport report = json.report();
  EXPECT_FALSE(report.history_complete);
  EXPECT_EQ(report.peak.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(report.peak.active_bytes, 6 * kMiB);
  EXPECT_EQ(report.end.reserved_bytes, 20 * kMiB);
}

TEST(AnalyseSnapshot, may_be_stopped_within_each_of_its_walks) {
  constexpr std::size_t kEvents = 500'000;
  Snapshot snapshot;
  MemoryHistory& history = snapshot.histories.emplace_back();
  for (std::size_t i = 0; i < kEvents; ++i) history.add(MemoryEventKind::alloc, i * 512, {.size_bytes = 512}, i);
  std::size_t calls = 0;
  analyse_memory(snapshot, 0, [&] { ++calls; });
  // Lifetimes, sizes of blocks, levels, extremes, categories, contents.
  EXPECT_GE(calls, 6 * kEvents / 65'536);
  const auto interrupt = [&] {
    if (--calls == 0) throw Error("interrupted");
  };
  EXPECT_THAT(error_of([&] { analyse_memory(snapshot, 0, interrupt); }), HasSubstr("interrupted"));
}

TEST(AnalyseSnapshot, several_devices_are_apart) {
  SnapshotJson json = complete();
  nlohmann::json document = json.document();
  document["segments"].push_back(document["segments"][0]);
  document["segments"][1]["device"] = 3;
  document["device_traces"].push_back(nlohmann::json::array());
  const TemporaryFolder folder;
  write_file(folder / "s.json", document.dump());
  const Snapshot snapshot = read_snapshot(folder / "s.json");
  EXPECT_THAT(devices_of(snapshot), ElementsAre(0, 3));
  EXPECT_EQ(analyse_memory(snapshot, 0).report.peak.allocated_bytes, 8 * kMiB);
  EXPECT_EQ(analyse_memory(snapshot, 3).report.peak.allocated_bytes, 4 * kMiB);
}

TEST(AnalyseSnapshot, phases_have_their_own_peaks_and_nest) {
  SnapshotJson json;
  json.event("segment_alloc", kA, 20 * kMiB);
  json.mark("step", true);
  json.alloc(kA, 2 * kMiB);
  json.mark("forward", true);
  json.alloc(kB, 4 * kMiB);
  json.mark("forward", false);
  json.free(kB, 4 * kMiB);
  json.mark("step", false);
  json.mark("lost", true);
  json.mark("never begun", false);
  SnapshotJson::live(json.segment(kA, 20 * kMiB), kA, 2 * kMiB);
  const MemoryReport report = json.report();
  ASSERT_THAT(report.phases, SizeIs(3));
  EXPECT_EQ(report.phases[0].name, "step");
  EXPECT_EQ(report.phases[0].peak_bytes, 6 * kMiB);
  EXPECT_EQ(report.phases[0].end_bytes, 2 * kMiB);
  EXPECT_EQ(report.phases[1].name, "forward");
  EXPECT_EQ(report.phases[1].depth, 1u);
  EXPECT_EQ(report.phases[1].begin_bytes, 2 * kMiB);
  EXPECT_EQ(report.phases[1].end_bytes, 6 * kMiB);
  EXPECT_THAT(report.remarks, Contains(HasSubstr("2 annotations have no counterpart")));
}

TEST(AnalyseSnapshot, an_oom_with_enough_free_memory_in_pieces_is_fragmentation) {
  SnapshotJson json = complete();
  json.event("oom", kMiB, 12 * kMiB, stack("forward"));
  const MemoryReport report = json.report();
  ASSERT_THAT(report.out_of_memory, SizeIs(1));
  const OutOfMemoryEvent& failure = report.out_of_memory[0];
  EXPECT_EQ(failure.requested_bytes, 12 * kMiB);
  EXPECT_EQ(failure.device_free_bytes, kMiB);
  EXPECT_EQ(failure.held.levels.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(failure.held.levels.reserved_bytes, 20 * kMiB);
  EXPECT_THAT(failure.origin, HasSubstr("forward"));
  EXPECT_THAT(failure.held.categories, SizeIs(1));
  EXPECT_THAT(failure.advice, AllOf(HasSubstr("fragmented"), HasSubstr("expandable_segments:True")));
}

TEST(AnalyseSnapshot, an_oom_without_room_says_how_much_is_short_and_one_with_room_names_the_limit) {
  SnapshotJson json = complete();
  json.event("oom", 10 * kMiB, 100 * kMiB);
  json.event("oom", 500 * kMiB, 100 * kMiB);
  json.event("oom", 0, 100 * kMiB).erase("device_free");
  const MemoryReport report = json.report();
  ASSERT_THAT(report.out_of_memory, SizeIs(3));
  EXPECT_THAT(report.out_of_memory[0].advice, HasSubstr("is 74.0 MiB short"));
  EXPECT_THAT(report.out_of_memory[1].advice, HasSubstr("set_per_process_memory_fraction"));
  EXPECT_THAT(report.out_of_memory[2].advice, HasSubstr("does not say"));
}

TEST(AnalyseSnapshot, many_failures_are_counted_beyond_the_first) {
  SnapshotJson json;
  for (int i = 0; i < 25; ++i) json.event("oom", 0, kMiB);
  const MemoryReport report = json.report();
  EXPECT_THAT(report.out_of_memory, SizeIs(20));
  EXPECT_THAT(report.remarks, Contains(HasSubstr("5 failed allocations were left out")));
}

TEST(AnalyseSnapshot, segments_given_back_directly_before_a_request_are_a_retry) {
  SnapshotJson json;
  for (const std::uint64_t at : {1, 2, 3}) json.event("segment_alloc", kA + at * 100 * kMiB, 20 * kMiB);
  json.event("segment_free", kA + 100 * kMiB, 20 * kMiB);
  json.event("segment_free", kA + 200 * kMiB, 20 * kMiB);
  json.event("segment_alloc", kA + 100 * kMiB, 40 * kMiB);
  json.event("segment_free", kA + 300 * kMiB, 20 * kMiB);
  json.alloc(kA + 100 * kMiB, 4 * kMiB);
  json.event("segment_alloc", kA + 300 * kMiB, 20 * kMiB);
  json.event("segment_free", kA + 300 * kMiB, 20 * kMiB);
  json.event("oom", 0, 40 * kMiB);
  const AllocatorRetries retries = json.report().retries;
  EXPECT_EQ(retries.count, 2u);
  EXPECT_EQ(retries.segments, 3u);
  EXPECT_EQ(retries.bytes, 60 * kMiB);
  EXPECT_EQ(retries.before_oom, 1u);
}

}  // namespace
}  // namespace ridgepoint
