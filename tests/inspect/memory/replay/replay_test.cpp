// Replays of small histories, whose figures follow from PyTorch's rules by hand.
#include "inspect/memory/replay/replay.h"

#include "inspect/memory/pages/page.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/snapshot_json.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

MemoryReplay replay_of(const nlohmann::json& document, ReplayOptions options = {}, std::int64_t device = 0) {
  const TemporaryFolder folder;
  write_file(folder / "s.json", document.dump());
  const Snapshot snapshot = read_snapshot(folder / "s.json", nullptr, {.marked = options.without});
  return replay_history(snapshot, device, analyse_memory(snapshot, device), options);
}
MemoryReplay replay_of(const SnapshotJson& made, const ReplayOptions& options = {}) {
  return replay_of(made.document(), options);
}
ReplayOptions only(std::initializer_list<const char*> settings) {
  ReplayOptions options;
  for (const char* setting : settings) options.settings.push_back(allocator_setting(setting));
  return options;
}
ReplayOptions with_capacity(std::uint64_t bytes, ReplayOptions options) {
  options.capacity_bytes = bytes;
  return options;
}

// Blocks of growing size, each freed before the next: a segment each, where segments do not grow.
SnapshotJson growing() {
  SnapshotJson made;
  std::uint64_t address = kSegmentBase;
  for (std::uint64_t size = 20; size <= 100; size += 20) {
    made.event("segment_alloc", address, size * kMiB);
    made.alloc(address, size * kMiB);
    made.free(address, size * kMiB);
    address += 2 * size * kMiB;
  }
  return made;
}

TEST(replay, each_setting_reserves_what_its_rules_say) {
  const MemoryReplay replay =
      replay_of(growing(), only({"default", "expandable_segments:True", "max_split_size_mb:20"}));
  ASSERT_EQ(replay.settings.size(), 3u);
  EXPECT_EQ(replay.settings[0].reserved_bytes, (20 + 40 + 60 + 80 + 100) * kMiB);
  EXPECT_EQ(replay.settings[1].reserved_bytes, 100 * kMiB);
  EXPECT_EQ(replay.settings[2].reserved_bytes, 300 * kMiB);
  for (const ReplayedSetting& setting : replay.settings) {
    EXPECT_EQ(setting.allocated_bytes, 100 * kMiB);
    EXPECT_EQ(setting.least_capacity_bytes, 100 * kMiB);  // cached segments go, where there is no room
    EXPECT_FALSE(setting.fits);
  }
  EXPECT_EQ(replay.settings[0].unused_bytes, 200 * kMiB);
  EXPECT_EQ(replay.least, 0u);
  EXPECT_EQ(replay.allocations, 5u);
  EXPECT_EQ(replay.recorded.reserved_bytes, 300 * kMiB);
}

TEST(replay, under_a_capacity_cached_segments_are_given_back) {
  const MemoryReplay replay = replay_of(growing(), with_capacity(150 * kMiB, only({"default"})));
  EXPECT_EQ(replay.settings[0].fits, true);
  EXPECT_EQ(replay.settings[0].reserved_bytes, 120 * kMiB);  // 20 + 40 + 60; then 80, then 100
  EXPECT_EQ(replay.settings[0].retries, 2u);
  EXPECT_EQ(replay.capacity_from, MemoryReplay::CapacityFrom::option);
}

TEST(replay, names_the_first_request_that_does_not_fit) {
  const MemoryReplay replay = replay_of(growing(), with_capacity(70 * kMiB, only({"default"})));
  const ReplayedSetting& found = replay.settings[0];
  EXPECT_EQ(found.fits, false);
  ASSERT_TRUE(found.failure);
  EXPECT_EQ(found.failure->bytes, 80 * kMiB);
  EXPECT_EQ(found.failure->event, 11u);
  EXPECT_EQ(found.reserved_bytes, 300 * kMiB);  // without the limit
  EXPECT_EQ(found.least_capacity_bytes, 100 * kMiB);
  EXPECT_LT(*replay.capacity_bytes, replay.largest_bytes);
}

TEST(replay, begins_with_the_setting_of_the_file) {
  SnapshotJson made = growing();
  made.settings = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}, {"expandable_segments", true}};
  MemoryReplay replay = replay_of(made);
  EXPECT_TRUE(replay.begins_with_recorded);
  EXPECT_EQ(replay.settings[0].setting, "expandable_segments:True");
  EXPECT_EQ(std::ranges::count(replay.settings, "expandable_segments:True", &ReplayedSetting::setting), 1);
  EXPECT_EQ(replay.settings[1].setting, "default");

  made.settings = {{"PYTORCH_CUDA_ALLOC_CONF", ""}, {"max_split_size", 128 * kMiB}};
  EXPECT_EQ(replay_of(made).settings[0].setting, "max_split_size_mb:128");

  made.settings = {{"PYTORCH_CUDA_ALLOC_CONF", "of_next_year:7"}};
  replay = replay_of(made);
  EXPECT_FALSE(replay.begins_with_recorded);
  EXPECT_EQ(replay.settings[0].setting, "default");
  EXPECT_THAT(replay.remarks.at(0), AllOf(HasSubstr("of_next_year"), HasSubstr("is left out")));
}

TEST(replay, streams_do_not_share_blocks) {
  SnapshotJson made;
  for (const int stream : {0, 7}) {
    const std::uint64_t address = kSegmentBase + static_cast<std::uint64_t>(stream) * kGiB;
    for (const char* action : {"alloc", "free_requested", "free_completed"})
      made.event(action, address, 40 * kMiB)["stream"] = stream;
  }
  EXPECT_EQ(replay_of(made, only({"default"})).settings[0].reserved_bytes, 80 * kMiB);
  EXPECT_EQ(replay_of(made, only({"expandable_segments:True"})).settings[0].reserved_bytes, 80 * kMiB);
}

TEST(replay, a_block_that_a_stream_still_uses_is_not_given_out) {
  const auto reserved = [](bool completes_first) {
    SnapshotJson made;
    made.alloc(kSegmentBase, 40 * kMiB);
    made.event("free_requested", kSegmentBase, 40 * kMiB);
    if (completes_first) made.event("free_completed", kSegmentBase, 40 * kMiB);
    made.alloc(kSegmentBase + kGiB, 40 * kMiB);
    if (!completes_first) made.event("free_completed", kSegmentBase, 40 * kMiB);
    const ReplayedSetting found = replay_of(made, only({"default"})).settings[0];
    EXPECT_EQ(found.allocated_bytes, 40 * kMiB);
    EXPECT_EQ(found.least_capacity_bytes, 40 * kMiB);  // the allocator waits before it gives up
    return found.reserved_bytes;
  };
  EXPECT_EQ(reserved(false), 80 * kMiB);
  EXPECT_EQ(reserved(true), 40 * kMiB);
}

// The allocator waits for the first block, gives its address to another one, and the event of its release comes later.
TEST(replay, a_release_that_was_waited_for_frees_no_other_block) {
  SnapshotJson made;
  made.alloc(kSegmentBase, 40 * kMiB);
  made.event("free_requested", kSegmentBase, 40 * kMiB);
  made.alloc(kSegmentBase + kGiB, 40 * kMiB);
  made.event("free_requested", kSegmentBase + kGiB, 40 * kMiB);
  made.event("free_completed", kSegmentBase, 40 * kMiB);
  made.alloc(kSegmentBase + 2 * kGiB, 40 * kMiB);
  const MemoryReplay replay = replay_of(made, with_capacity(60 * kMiB, only({"default"})));
  EXPECT_EQ(replay.settings[0].fits, true);
  EXPECT_EQ(replay.settings[0].retries, 2u);
}

TEST(replay, private_pools_stay_apart) {
  const auto reserved = [](const nlohmann::json& pool) {
    SnapshotJson made;
    const std::uint64_t graph = kSegmentBase + kGiB;
    made.alloc(kSegmentBase, 40 * kMiB);
    made.free(kSegmentBase, 40 * kMiB);
    made.alloc(graph, 40 * kMiB);
    made.free(graph, 40 * kMiB);
    made.alloc(graph, 30 * kMiB);
    nlohmann::json& segment = made.segment(graph, 40 * kMiB);
    SnapshotJson::live(segment, graph, 30 * kMiB);
    segment["segment_pool_id"] = pool;
    return replay_of(made, only({"default"})).settings[0].reserved_bytes;
  };
  EXPECT_EQ(reserved({0, 0}), 40 * kMiB);
  EXPECT_EQ(reserved({0, 1}), 80 * kMiB);  // its events are known by their addresses
}

TEST(replay, the_pool_of_an_event_counts) {
  SnapshotJson made;
  for (const int pool : {0, 3, 3}) {
    for (const char* action : {"alloc", "free_requested", "free_completed"})
      made.event(action, kSegmentBase, 40 * kMiB)["pool_id"] = {pool, 0};
  }
  EXPECT_EQ(replay_of(made, only({"default"})).settings[0].reserved_bytes, 80 * kMiB);
}

// Two blocks of 40 MiB are cached when 60 MiB are asked for.
SnapshotJson emptied(const nlohmann::json& frames, bool takes_segment) {
  SnapshotJson made;
  for (const std::uint64_t address : {kSegmentBase, kSegmentBase + kGiB}) made.alloc(address, 40 * kMiB);
  for (const std::uint64_t address : {kSegmentBase, kSegmentBase + kGiB}) made.free(address, 40 * kMiB);
  for (const std::uint64_t address : {kSegmentBase, kSegmentBase + kGiB})
    made.event("segment_free", address, 40 * kMiB, frames);
  if (takes_segment) made.event("segment_alloc", kSegmentBase, 60 * kMiB);
  made.alloc(kSegmentBase, 60 * kMiB);
  return made;
}

TEST(replay, empty_cache_is_repeated_and_a_search_for_room_is_not) {
  const auto reserved = [](const SnapshotJson& made) {
    return replay_of(made, only({"default"})).settings[0].reserved_bytes;
  };
  const nlohmann::json none = nlohmann::json::array();
  EXPECT_EQ(reserved(emptied(none, false)), 80 * kMiB);
  EXPECT_EQ(reserved(emptied(none, true)), 140 * kMiB);
  const nlohmann::json called = stack_json({frame_json("torch/cuda/memory.py", 200, "empty_cache")});
  EXPECT_EQ(reserved(emptied(called, true)), 80 * kMiB);
}

// A request of 60 MiB fails, because two free blocks of 40 MiB lie between live ones.
SnapshotJson fragmented() {
  SnapshotJson made;
  made.event("segment_alloc", kSegmentBase, 100 * kMiB);
  made.alloc(kSegmentBase, 40 * kMiB);
  made.alloc(kSegmentBase + 40 * kMiB, 20 * kMiB);
  made.alloc(kSegmentBase + 60 * kMiB, 40 * kMiB);
  made.free(kSegmentBase, 40 * kMiB);
  made.free(kSegmentBase + 60 * kMiB, 40 * kMiB);
  made.event("oom", 10 * kMiB, 60 * kMiB, stack_json({frame_json("net.py", 7, "forward")}));
  return made;
}

TEST(replay, a_failure_gives_the_capacity_and_its_request_counts) {
  const SnapshotJson made = fragmented();
  const MemoryReplay replay = replay_of(made);
  EXPECT_EQ(replay.capacity_bytes, 110 * kMiB);
  EXPECT_EQ(replay.capacity_from, MemoryReplay::CapacityFrom::free_at_failure);
  EXPECT_TRUE(replay.has_failure);
  EXPECT_EQ(replay.allocations, 4u);
  // One segment each, of which two are given back.
  EXPECT_EQ(replay.settings[0].setting, "default");
  EXPECT_EQ(replay.settings[0].fits, true);
  EXPECT_EQ(replay.settings[0].least_capacity_bytes, 100 * kMiB);
}

TEST(replay, a_limit_below_the_devices_memory_was_at_least_what_was_reserved) {
  SnapshotJson made = growing();
  made.event("oom", 70 * kGiB, 200 * kMiB);
  const MemoryReplay replay = replay_of(made);
  EXPECT_EQ(replay.capacity_bytes, 300 * kMiB);
  EXPECT_EQ(replay.capacity_from, MemoryReplay::CapacityFrom::peak_before_failure);
  EXPECT_EQ(replay.settings[0].fits, true);
}

TEST(replay, blocks_from_before_the_history_are_asked_for_first) {
  SnapshotJson made;
  made.free(kSegmentBase, 30 * kMiB);
  made.alloc(kSegmentBase, 25 * kMiB);
  nlohmann::json& segment = made.segment(kSegmentBase + kGiB, 50 * kMiB);
  SnapshotJson::live(segment, kSegmentBase + kGiB, 50 * kMiB);
  const MemoryReplay replay = replay_of(made, only({"default"}));
  EXPECT_EQ(replay.older_blocks, 2u);
  EXPECT_EQ(replay.older_bytes, 80 * kMiB);
  EXPECT_EQ(replay.settings[0].reserved_bytes, 80 * kMiB);
  EXPECT_EQ(replay.settings[0].allocated_bytes, 80 * kMiB);
}

SnapshotJson with_frames() {
  SnapshotJson made;
  made.alloc(kSegmentBase, 40 * kMiB,
             stack_json({frame_json("site/torch/nn.py", 3, "linear"), frame_json("/me/model.py", 12, "mlp")}));
  made.alloc(kSegmentBase + kGiB, 60 * kMiB, stack_json({frame_json("/me/model.py", 20, "loss")}));
  made.free(kSegmentBase + kGiB, 60 * kMiB);
  return made;
}

TEST(replay, without_leaves_out_blocks_by_any_line_of_their_stack) {
  for (const auto& [text, reserved, bytes] :
       {std::tuple("mlp (/me/model.py:12)", 60 * kMiB, 40 * kMiB), std::tuple("loss", 40 * kMiB, 60 * kMiB),
        std::tuple("nn.py:3", 60 * kMiB, 40 * kMiB)}) {
    ReplayOptions options = only({"default"});
    options.without = text;
    const MemoryReplay replay = replay_of(with_frames(), options);
    EXPECT_EQ(replay.settings[0].reserved_bytes, reserved) << text;
    EXPECT_EQ(replay.omitted_blocks, 1u);
    EXPECT_EQ(replay.omitted_bytes, bytes);
  }
  ReplayOptions all = only({"default"});
  all.without = "model.py";
  EXPECT_EQ(replay_of(with_frames(), all).settings[0].reserved_bytes, 0u);
}

TEST(replay, without_leaves_out_blocks_by_category) {
  SnapshotJson made;
  made.alloc(kSegmentBase, 40 * kMiB);
  made.events.back()["category"] = "activation";
  made.alloc(kSegmentBase + kGiB, 60 * kMiB);
  made.events.back()["category"] = "parameter";
  ReplayOptions options = only({"default"});
  options.without = "activation";
  const MemoryReplay replay = replay_of(made, options);
  EXPECT_EQ(replay.settings[0].reserved_bytes, 60 * kMiB);
  options.without = "gradients";
  EXPECT_THAT(error_of([&] { replay_of(made, options); }, ErrorKind::usage),
              AllOf(HasSubstr("'gradients'"), HasSubstr("parameter")));
}

TEST(replay, a_file_without_a_history_says_how_to_record_one) {
  SnapshotJson made;
  SnapshotJson::live(made.segment(kSegmentBase, 50 * kMiB), kSegmentBase, 50 * kMiB);
  EXPECT_THAT(error_of([&] { replay_of(made); }), HasSubstr("_record_memory_history"));
}

TEST(replay, each_device_has_its_own_requests) {
  nlohmann::json document = growing().document();
  document["device_traces"].push_back(with_frames().events);
  EXPECT_EQ(replay_of(document, only({"default"}), 0).settings[0].reserved_bytes, 300 * kMiB);
  EXPECT_EQ(replay_of(document, only({"default"}), 1).settings[0].reserved_bytes, 100 * kMiB);
}

TEST(replay, releases_that_are_missing_free_the_older_block) {
  SnapshotJson made;
  for (int i = 0; i < 3; ++i) made.alloc(kSegmentBase, 40 * kMiB);
  EXPECT_EQ(replay_of(made, only({"default"})).settings[0].reserved_bytes, 40 * kMiB);
}

TEST(replay, sizes_that_no_memory_has_do_not_fit) {
  SnapshotJson made;
  for (std::uint64_t i = 0; i < 5000; ++i) made.alloc(kSegmentBase + (i << 49), std::uint64_t{1} << 48);
  const MemoryReplay replay = replay_of(made, only({"default", "expandable_segments:True"}));
  for (const ReplayedSetting& setting : replay.settings) {
    EXPECT_TRUE(setting.failure);
    EXPECT_FALSE(setting.least_capacity_bytes);
  }
  EXPECT_FALSE(replay.least);
}

// A block of 10 MiB keeps a segment of 60 MiB, and one of 52 MiB another one; then 70 MiB are asked for. A segment that
// grows has 80 MiB, and 60 MiB more are enough.
TEST(replay, finds_the_setting_that_would_have_avoided_a_failure) {
  SnapshotJson made;
  for (const auto& [at, kept] : {std::pair(kSegmentBase, 10), std::pair(kSegmentBase + kGiB, 52)}) {
    made.event("segment_alloc", at, 60 * kMiB);
    made.alloc(at, 60 * kMiB);
    made.free(at, 60 * kMiB);
    made.alloc(at, static_cast<std::uint64_t>(kept) * kMiB);
  }
  made.event("oom", 30 * kMiB, 70 * kMiB);
  const MemoryReplay replay = replay_of(made);
  EXPECT_EQ(replay.capacity_bytes, 150 * kMiB);
  EXPECT_EQ(replay.settings[0].setting, "default");
  EXPECT_EQ(replay.settings[0].fits, false);
  EXPECT_EQ(replay.settings[0].failure->bytes, 70 * kMiB);
  EXPECT_EQ(replay.settings[0].least_capacity_bytes, 190 * kMiB);
  EXPECT_EQ(replay.settings[1].setting, "expandable_segments:True");
  EXPECT_EQ(replay.settings[1].fits, true);
  EXPECT_EQ(replay.settings[1].reserved_bytes, 140 * kMiB);
}

TEST(replay, a_page_says_what_would_have_avoided_a_failure) {
  const SnapshotJson made = growing();
  const auto page = [&](const MemoryReplay& replay, bool shows_replays) {
    tables::SnapshotFileView file{"s.json", "JSON", {made.report()}};
    file.replays.emplace_back(replay);
    file.shows_replays = shows_replays;
    std::string text;
    for (const tables::Table& table : tables::snapshot_page(file, 15, tables::Format::markdown).tables)
      text += table.title + '\n' + table.remark + '\n';
    return text;
  };
  MemoryReplay replay;
  replay.has_failure = true;
  replay.begins_with_recorded = true;
  replay.capacity_bytes = 100 * kMiB;
  replay.capacity_from = MemoryReplay::CapacityFrom::free_at_failure;
  replay.allocations = 7;
  ReplayedSetting own{.setting = "default", .reserved_bytes = 140 * kMiB, .fits = false};
  own.least_capacity_bytes = 140 * kMiB;
  own.failure = {12, 60 * kMiB, "forward (net.py:7)"};
  ReplayedSetting other{.setting = "expandable_segments:True", .reserved_bytes = 80 * kMiB, .fits = true};
  other.least_capacity_bytes = 80 * kMiB;
  replay.settings = {own, other};
  replay.least = 1;
  EXPECT_THAT(
      page(replay, true),
      AllOf(HasSubstr("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True would have avoided the failure: replayed "
                      "with it, all 7 requests fit into 100.0 MiB, the failed ones included, and reserve 80.0 "
                      "MiB. Replayed with the default settings, 60.0 MiB at event 12 do not fit."),
            HasSubstr("expandable_segments:True needs least: 80.0 MiB, 60.0 MiB less than default.")));

  replay.settings[1].least_capacity_bytes = own.least_capacity_bytes;
  EXPECT_THAT(page(replay, true), HasSubstr("Every setting needs the same: 140.0 MiB."));
  replay.settings[1].fits = false;
  replay.settings[1].failure = own.failure;
  replay.settings[1].least_capacity_bytes = 120 * kMiB;
  EXPECT_THAT(page(replay, true), HasSubstr("No setting that was replayed would have avoided the failure: the requests "
                                            "need 120.0 MiB even with expandable_segments:True, and 100.0 MiB were "
                                            "allowed."));
  replay.settings[0].fits = true;
  EXPECT_THAT(page(replay, true), HasSubstr("the cause of the failure is not in the history"));
  replay.omitted_blocks = 2;
  EXPECT_THAT(page(replay, true), HasSubstr("Without the blocks that are left out, all requests fit into 100.0 MiB"));
}

}  // namespace
}  // namespace ridgepoint
