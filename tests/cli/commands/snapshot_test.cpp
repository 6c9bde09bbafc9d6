// ridgepoint snapshot, as a program.

#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/snapshot/write_snapshot.h"
#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/records/made_snapshot.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kBase = 0x7f0000000000;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Three steps on one device; each leaves `leak_bytes` behind.
Snapshot three_steps(std::uint64_t leak_bytes) {
  MadeSnapshot made;
  const std::uint32_t origin = made.origin("src/models/transformer.cpp", 42, "layers.0.ffn.w1");
  const auto event = [&](MemoryEventKind kind, std::uint64_t address, std::uint64_t size) {
    made.time_us += 9;
    made.event(kind, address, {.size_bytes = size, .origin = origin});
    ++made.time_us;
  };
  SnapshotSegment segment{.address = kBase, .size_bytes = 40 * kMiB, .is_large = true};
  event(MemoryEventKind::segment_alloc, kBase, 40 * kMiB);
  for (std::uint64_t step = 0; step < 3; ++step) {
    made.mark("step", true);
    event(MemoryEventKind::alloc, kBase, 8 * kMiB);
    if (leak_bytes > 0) {
      const std::uint64_t address = kBase + (10 + 4 * step) * kMiB;
      event(MemoryEventKind::alloc, address, leak_bytes);
      segment.blocks.push_back({.address = address,
                                .size_bytes = leak_bytes,
                                .requested_bytes = leak_bytes,
                                .origin = origin,
                                .state = BlockState::active_allocated});
    }
    event(MemoryEventKind::free, kBase, 8 * kMiB);
    made.mark("step", false);
  }
  made.snapshot.segments.push_back(segment);
  return std::move(made.snapshot);
}

class SnapshotProgram : public ::testing::Test {
 protected:
  SnapshotProgram() {
    write_snapshot(folder_ / "a.pickle", three_steps(0));
    write_snapshot(folder_ / "b.pickle", three_steps(2 * kMiB));
  }
  std::string path(const char* name) const { return folder_ / name; }
  ProgramResult run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "snapshot");
    return run_program(arguments);
  }
  const TemporaryFolder folder_;
};

TEST_F(SnapshotProgram, json_has_the_names_that_scripts_rely_on) {
  const nlohmann::json documents = nlohmann::json::parse(output_of(run({path("b.pickle"), "--format", "json"})));
  ASSERT_EQ(documents.size(), 1u);
  const nlohmann::json& json = documents[0];
  EXPECT_EQ(json["peak"]["allocated_bytes"], 14 * kMiB);
  EXPECT_EQ(json["peak"]["active_bytes"], 14 * kMiB);
  EXPECT_EQ(json["peak"]["reserved_bytes"], 40 * kMiB);
  EXPECT_EQ(json["at_start"]["allocated_bytes"], 0);
  EXPECT_EQ(json["at_end"]["allocated_bytes"], 6 * kMiB);
  EXPECT_EQ(json["oom_events"].size(), 0u);
  EXPECT_EQ(json["history_complete"], true);
  EXPECT_EQ(json["phases"][2]["name"], "step");
  EXPECT_EQ(json["leaked_bytes"], 2 * kMiB);
}

TEST_F(SnapshotProgram, prints_every_format) {
  EXPECT_THAT(run({path("b.pickle")}).output,
              AllOf(HasSubstr("The history is complete"), HasSubstr("peak of each"), HasSubstr("layers.0.ffn.w1"),
                    HasSubstr("grew by 2.00 MiB"), Not(HasSubstr(" \n"))));
  EXPECT_THAT(run({path("b.pickle"), "--format", "markdown"}).output, HasSubstr("| at the end |"));
  EXPECT_THAT(run({path("b.pickle"), "--format", "csv"}).output,
              AllOf(StartsWith("device,section,name,"), HasSubstr("0,peak,allocated,,,14680064")));
  EXPECT_THAT(run({path("b.pickle"), "--format", "jsonl"}).output, AllOf(StartsWith("{"), EndsWith("}\n")));
  ASSERT_EQ(run({path("b.pickle"), "--output", path("report.json")}).exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("report.json"), kMiB)).size(), 1u);
}

TEST_F(SnapshotProgram, compares_two_files) {
  EXPECT_THAT(run({path("a.pickle"), "--diff", path("b.pickle")}).output,
              AllOf(HasSubstr("difference"), HasSubstr("+6.00 MiB"), HasSubstr("leaked")));
  EXPECT_EQ(run({path("a.pickle"), path("b.pickle")}).output,
            run({path("a.pickle"), "--diff", path("b.pickle")}).output);
  const ProgramResult result = run({path("a.pickle"), "--diff", path("b.pickle"), "--format", "json"});
  const nlohmann::json json = nlohmann::json::parse(result.output).at(0);
  EXPECT_EQ(json["figures"][0]["name"], "peak allocated");
  EXPECT_EQ(json["figures"][0]["difference_bytes"], 6 * kMiB);
}

TEST_F(SnapshotProgram, refuses_what_is_no_snapshot_in_one_line_and_exits_1) {
  write_file(path("text"), "hello");
  write_file(path("empty"), "");
  write_file(path("global"),
             "\x80\x04"
             "cos\nsystem\n.");
  for (const auto& [name, reason] : {std::pair("text", "neither a pickle"), std::pair("empty", "it is empty"),
                                     std::pair("global", "the opcode GLOBAL"), std::pair("none", "No such file")}) {
    const ProgramResult result = run({path(name)});
    EXPECT_EQ(result.exit_code, 1) << name;
    EXPECT_EQ(result.output, "") << name;
    EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: "), HasSubstr(path(name)), HasSubstr(reason)));
    EXPECT_EQ(std::ranges::count(result.error, '\n'), 1) << result.error;
  }
}

TEST_F(SnapshotProgram, wrong_options_exit_2) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {path("a.pickle"), "--device", "1"},
                                                    {path("a.pickle"), "--device", "-1"},
                                                    {path("a.pickle"), "--top", "-1"},
                                                    {path("a.pickle"), "--format", "text"}}) {
    EXPECT_EQ(run(arguments).exit_code, 2);
  }
  EXPECT_THAT(run({}).error, HasSubstr("ridgepoint snapshot FILE"));
  EXPECT_THAT(run({path("a.pickle"), "--device", "1"}).error, HasSubstr("it has 0"));
}

TEST_F(SnapshotProgram, replays_the_requests) {
  const nlohmann::json replay =
      nlohmann::json::parse(output_of(run({path("b.pickle"), "--replay", "--format", "json"}))).at(0).at("replay");
  EXPECT_EQ(replay["reserved_bytes"], 20 * kMiB);  // the file has a segment of 40 MiB, which no rule asks for
  EXPECT_EQ(replay["allocated_bytes"], 14 * kMiB);
  EXPECT_EQ(replay["least_capacity_bytes"], 20 * kMiB);
  EXPECT_EQ(replay["fits"], nullptr);
  EXPECT_EQ(replay["settings"][0]["setting"], "default");
  EXPECT_GT(replay["settings"].size(), 4u);

  EXPECT_THAT(run({path("b.pickle"), "--replay", "--allocator", "expandable_segments:True", "--allocator", "default",
                   "--capacity", "19MiB", "--without", "ffn.w1"}),
              prints(AllOf(HasSubstr("expandable_segments:True"), HasSubstr("Left out by --without 'ffn.w1'"))));
  EXPECT_THAT(run({path("b.pickle"), "--replay", "--capacity", "12MiB"}).output, HasSubstr("no: 8.00 MiB at event 2"));
  EXPECT_THAT(run({path("b.pickle"), "--replay", "--capacity", "4MiB"}).output,
              HasSubstr("The largest request has 8.00 MiB, more than the capacity."));
  EXPECT_THAT(run({path("b.pickle"), "--replay", "--format", "csv"}).output,
              AllOf(StartsWith("device,setting,reserved_bytes"), HasSubstr("0,default,")));
}

TEST_F(SnapshotProgram, a_replay_refuses_what_it_cannot_do) {
  for (const auto& [arguments, reason] :
       {std::pair(std::vector<std::string>{"--allocator", "default"}, "--allocator is an option of --replay"),
        std::pair(std::vector<std::string>{"--capacity", "1GiB"}, "--capacity is an option of --replay"),
        std::pair(std::vector<std::string>{"--without", "x"}, "--without is an option of --replay"),
        std::pair(std::vector<std::string>{"--replay", "--diff", "b"}, "leave --diff out"),
        std::pair(std::vector<std::string>{"--replay", "--capacity", "much"}, "--capacity: 'much' is not a size"),
        std::pair(std::vector<std::string>{"--replay", "--allocator", "max_split:1"},
                  "did you mean 'max_split_size_mb'"),
        std::pair(std::vector<std::string>{"--replay", "--allocator", "max_split_size_mb:x"}, "--allocator: max_split"),
        std::pair(std::vector<std::string>{"--replay", "--without", "nothing"}, "no block of device 0 has a frame")}) {
    std::vector<std::string> all = {path("b.pickle")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_THAT(run(all), fails(2, reason)) << reason;
  }
  write_file(path("state.json"), R"([{"device": 0, "address": 4096, "total_size": 2097152, "blocks": []}])");
  EXPECT_THAT(run({path("state.json"), "--replay"}),
              fails(1, AllOf(HasSubstr(path("state.json")), HasSubstr("_record_memory_history"))));
}

TEST_F(SnapshotProgram, draws_the_timeline_of_a_file) {
  ASSERT_EQ(run({path("a.pickle"), "--picture", path("a.svg")}).exit_code, 0);
  EXPECT_THAT(read_file(path("a.svg"), kMiB), AllOf(StartsWith("<svg"), HasSubstr("a.pickle, device 0"),
                                                    HasSubstr("peak 8.00 MiB allocated"), EndsWith("</svg>\n")));
  EXPECT_THAT(run({path("a.pickle"), path("b.pickle"), "--picture", path("b.svg")}).error,
              HasSubstr("one file is drawn"));
  EXPECT_THAT(run({path("a.pickle"), "--picture", path("a.png")}).error, HasSubstr("does not end in .svg"));
  write_file(path("state.json"), R"([{"device": 0, "address": 4096, "total_size": 2097152, "blocks": []}])");
  EXPECT_THAT(run({path("state.json"), "--picture", path("b.svg")}).error, HasSubstr("has no history to draw"));
}

TEST_F(SnapshotProgram, counts_a_range_alone) {
  const nlohmann::json json =
      nlohmann::json::parse(output_of(run({path("b.pickle"), "--range", "0.015:0.035", "--format", "json"}))).at(0);
  EXPECT_EQ(json["range"]["begin_event"], 2);
  EXPECT_EQ(json["range"]["end_event"], 4);
  EXPECT_EQ(json["at_start"]["allocated_bytes"], 8 * kMiB);
  EXPECT_EQ(json["peak"]["allocated_bytes"], 10 * kMiB);
  EXPECT_EQ(json["at_end"]["allocated_bytes"], 2 * kMiB);
  EXPECT_THAT(run({path("b.pickle"), "--range", "0.015:0.035", "--picture", path("b.svg")}).output,
              HasSubstr("Only events 3 to 4 count, 0.0150 to 0.0350 ms after the first"));
  EXPECT_THAT(read_file(path("b.svg"), kMiB), HasSubstr("peak 10.0 MiB allocated"));
}

TEST_F(SnapshotProgram, refuses_a_range_that_is_none) {
  for (const auto& [arguments, reason] :
       {std::pair(std::vector<std::string>{"--range", "5"}, "--range: '5' is no range of milliseconds"),
        std::pair(std::vector<std::string>{"--range", "2:1"}, "--range: '2:1' is no range of milliseconds"),
        std::pair(std::vector<std::string>{"--range", "7:8"}, "the range begins after the last event, 0.090 ms"),
        std::pair(std::vector<std::string>{"--range", "0:1", "--replay"}, "leave --range out")}) {
    std::vector<std::string> all = {path("b.pickle")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_THAT(run(all), fails(2, reason)) << reason;
  }
}

TEST_F(SnapshotProgram, help_shows_the_file_as_an_argument) {
  EXPECT_THAT(run({"--help"}).output, AllOf(HasSubstr("Usage: ridgepoint snapshot FILE [OPTIONS]"),
                                            HasSubstr("  FILE                 the snapshot")));
}

}  // namespace
}  // namespace ridgepoint
