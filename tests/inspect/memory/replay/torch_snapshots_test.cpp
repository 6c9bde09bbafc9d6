// Replays of snapshots that PyTorch 2.11 wrote on an H200 (tools/pytorch/torch_memory.py snapshots), against its own
// statistics: of the same run, and of a run of the same program under another setting.

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/files/file.h"
#include "inspect/memory/replay/replay.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::filesystem::path file(const std::string& name) { return source_folder() / "tests/golden" / name; }

MemoryReplay replay_of(const std::string& name, std::initializer_list<const char*> settings,
                       std::optional<std::uint64_t> capacity_bytes = {}) {
  ReplayOptions options;
  for (const char* setting : settings) options.settings.push_back(allocator_setting(setting));
  options.capacity_bytes = capacity_bytes;
  const Snapshot snapshot = read_snapshot(file("torch_snapshots/" + name + ".pickle.gz"));
  return replay_history(snapshot, 0, analyse_memory(snapshot, 0), options);
}

void expect_peaks(const ReplayedSetting& found, const std::string& name) {
  const nlohmann::json peak = nlohmann::json::parse(read_file(file("torch_snapshots/" + name + ".json"), kMiB))["peak"];
  EXPECT_EQ(found.allocated_bytes, peak["allocated"].get<std::uint64_t>()) << name;
  EXPECT_EQ(found.reserved_bytes, peak["reserved"].get<std::uint64_t>()) << name;
}

TEST(torch_replay, with_its_own_setting_a_whole_history_has_the_recorded_peaks) {
  for (const char* name : {"step", "forward_loop", "expandable"}) {
    const MemoryReplay replay = replay_of(name, {});
    ASSERT_TRUE(replay.begins_with_recorded);
    expect_peaks(replay.settings[0], name);
    EXPECT_EQ(replay.settings[0].reserved_bytes, replay.recorded.reserved_bytes);
    EXPECT_EQ(replay.older_blocks, 0u);
  }
}

TEST(torch_replay, with_another_setting_it_has_the_peaks_of_a_run_with_that) {
  expect_peaks(replay_of("step", {"expandable_segments:True"}).settings[0], "expandable");
  expect_peaks(replay_of("expandable", {"default"}).settings[0], "step");
}

// tools/pytorch/torch_replay.py measured each program under each setting and limit in a process of its own, on an H100.
TEST(torch_replay, of_a_run_under_default_settings_has_the_peaks_of_runs_under_others) {
  const nlohmann::json runs = nlohmann::json::parse(read_file(file("torch_replay/measured.json"), kMiB));
  std::map<std::string, Snapshot> snapshots;
  ASSERT_EQ(runs.size(), 18u);
  for (const nlohmann::json& run : runs) {
    const auto program = run["program"].get<std::string>();
    const auto setting = run["setting"].get<std::string>();
    if (!snapshots.contains(program))
      snapshots[program] = read_snapshot(file("torch_replay/" + program + ".pickle.gz"));
    ReplayOptions options;
    options.settings = {allocator_setting(setting)};
    options.finds_least_capacity = false;
    if (!run["capacity_bytes"].is_null()) options.capacity_bytes = run["capacity_bytes"].get<std::uint64_t>();
    const Snapshot& snapshot = snapshots[program];
    const ReplayedSetting found = replay_history(snapshot, 0, analyse_memory(snapshot, 0), options).settings[0];
    EXPECT_EQ(found.fits.value_or(true), run["fits"].get<bool>()) << program << " " << setting;
    if (!run["fits"].get<bool>()) continue;
    EXPECT_EQ(found.reserved_bytes, run["reserved_bytes"].get<std::uint64_t>()) << program << " " << setting;
    EXPECT_EQ(found.allocated_bytes, run["allocated_bytes"].get<std::uint64_t>()) << program << " " << setting;
    EXPECT_EQ(found.retries, run["retries"].get<std::uint64_t>()) << program << " " << setting;
  }
}

// The recorded run had a limit below 138 MiB, where 2 MiB more were refused.
TEST(torch_replay, with_its_own_limit_the_same_request_fails) {
  const MemoryReplay replay = replay_of("out_of_memory", {});
  EXPECT_EQ(replay.capacity_bytes, 136 * kMiB);
  EXPECT_EQ(replay.capacity_from, MemoryReplay::CapacityFrom::peak_before_failure);
  const ReplayedSetting& own = replay.settings[0];
  EXPECT_EQ(own.fits, false);
  ASSERT_TRUE(own.failure);
  EXPECT_EQ(own.failure->bytes, 20'480'000u);
  EXPECT_EQ(replay.recorded.reserved_bytes, 136 * kMiB);
  ASSERT_TRUE(replay.least);
  const std::uint64_t least = *replay.settings[*replay.least].least_capacity_bytes;
  const MemoryReplay again = replay_of("out_of_memory", {replay.settings[*replay.least].setting.c_str()}, least);
  EXPECT_EQ(again.settings[0].fits, true);
  const MemoryReplay less =
      replay_of("out_of_memory", {replay.settings[*replay.least].setting.c_str()}, least - 2 * kMiB);
  EXPECT_EQ(less.settings[0].fits, false);
}

TEST(torch_replay, of_an_overflowed_history_asks_for_older_blocks_first) {
  const MemoryReplay replay = replay_of("overflow", {"default"});
  EXPECT_GT(replay.older_blocks, 0u);
  EXPECT_GT(replay.older_bytes, 0u);
  // Its fragmentation from before the history is not known.
  EXPECT_LE(replay.settings[0].reserved_bytes, replay.recorded.reserved_bytes);
  EXPECT_GE(replay.settings[0].reserved_bytes, replay.settings[0].allocated_bytes);
}

}  // namespace
}  // namespace ridgepoint
