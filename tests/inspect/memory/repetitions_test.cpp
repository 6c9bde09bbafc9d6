// Categories, leaks and the sawtooth of programs that repeat.

#include <map>

#include "inspect/memory/contents.h"
#include "support/matchers.h"
#include "support/records/snapshot_json.h"

namespace ridgepoint {
namespace {

using Basis = MemoryLeaks::Basis;
using Verdict = Sawtooth::Verdict;

nlohmann::json stack(const std::string& file, const std::string& name) {
  return nlohmann::json::array({frame_json(file, 1, name)});
}

struct Training {
  int steps = 5;
  std::uint64_t leak_bytes = 0;
  bool annotated = true;
  bool has_frames = true;
};

// A program that trains: parameters, then steps of forward, backward, an optimizer with its state, and zeroing.
class TrainingRun {
 public:
  explicit TrainingRun(const Training& training) : training_(training) {
    json_.event("segment_alloc", kSegmentBase, 4096 * kMiB);
    for (int i = 0; i < kLayers; ++i) allocate(4 * kMiB, "train.py", "main");
    for (int step = 0; step < training.steps; ++step) run(step);
    nlohmann::json& segment = json_.segment(kSegmentBase, 4096 * kMiB);
    for (const auto& [address, size] : live_) SnapshotJson::live(segment, address, size);
  }
  MemoryReport report() const { return json_.report(); }

 private:
  static constexpr int kLayers = 6;

  std::uint64_t allocate(std::uint64_t size, const std::string& file, const std::string& name) {
    const std::uint64_t address = next_;
    next_ += size;
    json_.alloc(address, size, training_.has_frames ? stack(file, name) : nlohmann::json::array());
    live_[address] = size;
    return address;
  }
  void release(std::uint64_t address) {
    json_.free(address, live_.at(address));
    live_.erase(address);
  }
  void mark(const char* name, bool is_start) {
    if (training_.annotated) json_.mark(name, is_start);
  }

  void run(int step) {
    mark("step", true);
    for (const std::uint64_t gradient : gradients_) release(gradient);
    gradients_.clear();
    std::vector<std::uint64_t> activations;
    for (int i = 0; i < kLayers; ++i) {
      activations.push_back(allocate(16 * kMiB, "train.py", "linear"));
      release(allocate(2 * kMiB, "train.py", "linear"));
    }
    if (training_.leak_bytes > 0) allocate(training_.leak_bytes, "log.py", "remember");
    for (int i = kLayers; i-- > 0;) {
      gradients_.push_back(allocate(4 * kMiB, "engine.py", "backward"));
      release(activations[static_cast<std::size_t>(i)]);
    }
    for (int i = 0; step == 0 && i < kLayers; ++i) allocate(8 * kMiB, "/torch/optim/adamw.py", "_init_group");
    mark("step", false);
  }

  Training training_;
  SnapshotJson json_;
  std::map<std::uint64_t, std::uint64_t> live_;
  std::uint64_t next_ = kSegmentBase;
  std::vector<std::uint64_t> gradients_;
};

std::uint64_t bytes_of(const MemoryReport& report, const std::string& category) {
  for (const MemoryShare& share : report.contents.categories) {
    if (share.name == category) return share.bytes;
  }
  return 0;
}

TEST(Categories, are_inferred_from_lifetimes_and_frames) {
  const MemoryReport report = TrainingRun({}).report();
  EXPECT_TRUE(report.categories_inferred);
  EXPECT_EQ(bytes_of(report, "parameter_or_state"), 24 * kMiB);
  EXPECT_EQ(bytes_of(report, "optimizer_state"), 48 * kMiB);
  EXPECT_EQ(bytes_of(report, "activation"), 6 * 16 * kMiB);
  EXPECT_EQ(bytes_of(report, "unknown"), 0u);
}

TEST(Categories, of_the_file_are_kept) {
  SnapshotJson json;
  json.event("alloc", kSegmentBase, kMiB)["category"] = "activation";
  json.event("alloc", kSegmentBase + kMiB, kMiB)["category"] = "unknown";
  json.alloc(kSegmentBase + 2 * kMiB, kMiB);
  const MemoryReport report = json.report();
  EXPECT_FALSE(report.categories_inferred);
  EXPECT_EQ(bytes_of(report, "activation"), kMiB);
  EXPECT_EQ(bytes_of(report, "unknown"), 2 * kMiB);
}

TEST(Leaks, none_where_steps_end_as_they_began_though_the_first_one_leaves_state) {
  const MemoryReport report = TrainingRun({}).report();
  EXPECT_EQ(report.leaks.basis, Basis::annotations);
  EXPECT_EQ(report.leaks.name, "step");
  EXPECT_EQ(report.leaks.repetitions, 5u);
  EXPECT_EQ(report.leaks.leaked_bytes, 0u);
  EXPECT_THAT(report.leaks.groups, IsEmpty());
}

TEST(Leaks, are_found_with_the_blocks_that_have_no_counterpart) {
  const MemoryReport report = TrainingRun({.leak_bytes = 3 * kMiB}).report();
  EXPECT_EQ(report.leaks.leaked_bytes, 3 * 3 * kMiB) << "of repetitions 3 to 5";
  EXPECT_EQ(report.leaks.grew, 3u);
  ASSERT_THAT(report.leaks.groups, SizeIs(1));
  EXPECT_THAT(report.leaks.groups[0].origin, HasSubstr("remember"));
  EXPECT_EQ(report.leaks.groups[0].blocks, 3u);
}

TEST(Leaks, are_found_without_frames_and_without_annotations) {
  const MemoryReport report =
      TrainingRun({.steps = 8, .leak_bytes = 3 * kMiB, .annotated = false, .has_frames = false}).report();
  EXPECT_EQ(report.leaks.basis, Basis::cycles);
  EXPECT_GE(report.leaks.leaked_bytes, 3 * 3 * kMiB);
  ASSERT_THAT(report.leaks.groups, SizeIs(1));
  EXPECT_EQ(report.leaks.groups[0].block_bytes, 3 * kMiB);
}

TEST(Leaks, repetitions_may_be_numbered) {
  SnapshotJson json;
  for (int step = 0; step < 4; ++step) {
    json.mark("ProfilerStep#" + std::to_string(step), true);
    json.alloc(kSegmentBase + static_cast<std::uint64_t>(step) * kMiB, kMiB);
    json.mark("ProfilerStep#" + std::to_string(step), false);
  }
  const MemoryReport report = json.report();
  EXPECT_EQ(report.leaks.name, "ProfilerStep");
  EXPECT_EQ(report.leaks.leaked_bytes, 2 * kMiB);
}

TEST(Leaks, one_growth_in_many_repetitions_is_none) {
  SnapshotJson json;
  for (int step = 0; step < 8; ++step) {
    json.mark("step", true);
    json.alloc(kSegmentBase, kMiB);
    if (step == 5) json.alloc(kSegmentBase + 10 * kMiB, kMiB);
    json.free(kSegmentBase, kMiB);
    json.mark("step", false);
  }
  EXPECT_EQ(json.report().leaks.leaked_bytes, 0u);
}

TEST(Leaks, without_repetitions_the_begin_and_the_end_of_the_history_are_compared) {
  SnapshotJson json;
  json.alloc(kSegmentBase + 4 * kMiB, 2 * kMiB);
  nlohmann::json& segment = json.segment(kSegmentBase, 20 * kMiB);
  SnapshotJson::live(segment, kSegmentBase, 4 * kMiB);
  SnapshotJson::live(segment, kSegmentBase + 4 * kMiB, 2 * kMiB);
  const MemoryReport report = json.report();
  EXPECT_EQ(report.leaks.basis, Basis::window);
  EXPECT_EQ(report.leaks.leaked_bytes, 2 * kMiB);
  SnapshotJson from_nothing;
  from_nothing.alloc(kSegmentBase, kMiB);
  EXPECT_EQ(from_nothing.report().leaks.basis, Basis::none);
}

// Forwards that are filled block by block and released at once. `fall_step_us` is the time between releases.
MemoryReport forwards(std::int64_t rise_step_us, std::int64_t fall_step_us, bool grows_segments = false) {
  SnapshotJson json;
  std::int64_t time = 1'000'000;
  const auto stamp = [&](std::int64_t step) { json.events.back()["time_us"] = time += step; };
  for (int cycle = 0; cycle < 5; ++cycle) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      if (grows_segments) {
        json.event("segment_alloc", kSegmentBase + i * 20 * kMiB, 20 * kMiB);
        stamp(rise_step_us);
      }
      json.alloc(kSegmentBase + i * 20 * kMiB, 10 * kMiB);
      stamp(rise_step_us);
    }
    for (std::uint64_t i = 0; i < 10; ++i) {
      for (const char* action : {"free_requested", "free_completed"}) {
        json.event(action, kSegmentBase + i * 20 * kMiB, 10 * kMiB);
        stamp(fall_step_us);
      }
      if (!grows_segments) continue;
      json.event("segment_free", kSegmentBase + i * 20 * kMiB, 20 * kMiB);
      stamp(fall_step_us);
    }
  }
  return json.report();
}

TEST(Sawtooth, compares_rise_and_fall_in_time_and_in_events) {
  const Sawtooth sawtooth = forwards(100, 1).sawtooth;
  EXPECT_GE(sawtooth.cycles, 3u);
  EXPECT_EQ(sawtooth.height_bytes, 100.0 * kMiB);
  EXPECT_EQ(sawtooth.rise_events, 10);
  EXPECT_EQ(sawtooth.fall_events, 10) << "a request and its completion are one event";
  EXPECT_NEAR(sawtooth.rise_ms, 0.9, 0.1);
  EXPECT_NEAR(sawtooth.fall_ms, 0.02, 0.003);
  EXPECT_EQ(sawtooth.verdict, Verdict::released_in_bursts);
  EXPECT_EQ(forwards(10, 10).sawtooth.verdict, Verdict::balanced);
  EXPECT_EQ(forwards(1, 100).sawtooth.verdict, Verdict::filled_in_bursts);
}

TEST(Sawtooth, is_bound_by_the_allocator_where_requests_for_segments_take_the_time) {
  const Sawtooth sawtooth = forwards(100, 1, true).sawtooth;
  EXPECT_EQ(sawtooth.verdict, Verdict::allocator_bound);
  EXPECT_GT(sawtooth.allocator_share, 0.4);
}

// 200,000 cycles: a search that copies what it has found at each of them moves two terabytes.
TEST(Sawtooth, of_very_many_cycles_is_found_in_one_pass) {
  constexpr std::size_t kCycles = 200'000;
  Snapshot snapshot;
  MemoryHistory& history = snapshot.histories.emplace_back();
  std::int64_t time_us = 0;
  for (std::size_t i = 0; i < kCycles; ++i) {
    history.add(MemoryEventKind::alloc, kSegmentBase, {.size_bytes = kMiB}, ++time_us);
    history.add(MemoryEventKind::free, kSegmentBase, {.size_bytes = kMiB}, ++time_us);
  }
  const Sawtooth sawtooth = analyse_memory(snapshot, 0).report.sawtooth;
  EXPECT_EQ(sawtooth.cycles, kCycles);
  EXPECT_EQ(sawtooth.rise_events, 1);
}

TEST(Sawtooth, the_longest_run_of_equal_cycles_is_taken) {
  SnapshotJson json;
  const auto cycles = [&](std::uint64_t begin, int count) {
    for (int i = 0; i < count; ++i) {
      json.alloc(kSegmentBase + begin * kMiB, 10 * kMiB);
      json.free(kSegmentBase + begin * kMiB, 10 * kMiB);
    }
  };
  cycles(0, 3);
  json.alloc(kSegmentBase + 100 * kMiB, 9 * kMiB);  // stays
  cycles(20, 12);
  json.alloc(kSegmentBase + 120 * kMiB, 9 * kMiB);
  cycles(40, 4);
  EXPECT_EQ(json.report().sawtooth.cycles, 11u) << "the first one begins below them";
}

TEST(Sawtooth, there_is_none_where_memory_only_grows) {
  SnapshotJson json;
  for (std::uint64_t i = 0; i < 50; ++i) json.alloc(kSegmentBase + i * kMiB, kMiB);
  EXPECT_EQ(json.report().sawtooth.cycles, 0u);
}

}  // namespace
}  // namespace ridgepoint
