// A memory snapshot beside a trace, of both of which every figure is known.
#include "inspect/trace/memory.h"

#include <fmt/format.h>

#include "inspect/trace/analysis.h"
#include "interchange/trace/trace_collector.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/made_snapshot.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kBaseUs = 1'700'000'000'000'000;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// Times in microseconds since kBaseUs.
class MadeBoth {
 public:
  MadeBoth() { snapshot_.time_us = kBaseUs; }

  void kernel(const char* name, int launched, int begin, int end) {
    ++correlation_;
    TraceEvent event{.start_ns = 1000 * begin, .duration_ns = 1000 * (end - begin), .correlation = correlation_};
    event.name = trace_.name(name);
    event.track = trace_.track("0", "7");
    trace_.add_activity(event);
    call("cudaLaunchKernel", launched, 1);
  }
  void call(const char* name, int begin, int duration) {
    trace_.add_call({.start_ns = 1000 * begin,
                     .duration_ns = 1000 * duration,
                     .correlation = correlation_,
                     .name = trace_.name(name),
                     .track = trace_.track("host", "main")});
  }
  void mark(const char* name, int begin, int end) {
    trace_.add_mark({.start_ns = 1000 * begin,
                     .duration_ns = 1000 * (end - begin),
                     .name = trace_.name(name),
                     .track = trace_.track("host", "main")});
  }
  void memory(MemoryEventKind kind, int at, std::uint64_t address, std::uint64_t mib, const char* by = "") {
    snapshot_.time_us = kBaseUs + at;
    MemoryHistory::Request request{.size_bytes = mib * kMiB, .rounding_bytes = 0};
    if (*by != '\0') request.origin = snapshot_.origin("model.py", 3, by);
    snapshot_.event(kind, address, request);
  }
  TraceMemory beside(std::optional<std::int64_t> base_ns = 1000 * kBaseUs) {
    trace_.trace().base_ns = base_ns;
    std::vector<TraceLane> lanes = analyse_trace(trace_.finish(), KernelRules());
    add_memory(lanes, snapshot_.snapshot, "snapshot.pickle");
    return *lanes.at(0).memory;
  }
  Snapshot& snapshot() { return snapshot_.snapshot; }

 private:
  TraceCollector trace_;
  MadeSnapshot snapshot_;
  std::uint64_t correlation_ = 0;
};

using enum MemoryEventKind;

// Forward asks for 10 MiB, backward for 20 MiB more, after a segment for them, and frees 10 MiB.
MadeBoth step() {
  MadeBoth made;
  made.mark("ProfilerStep#1", 0, 200);
  made.memory(alloc, 5, 0x1000, 10, "forward");
  made.kernel("gemm", 10, 12, 60);
  made.mark("autograd::engine::evaluate_function: MmBackward0", 20, 150);
  made.call("cudaMalloc", 70, 29);
  made.memory(segment_alloc, 100, 0x100000, 40);
  made.memory(alloc, 101, 0x100000, 20, "backward");
  made.kernel("dgrad_gemm", 105, 110, 140);
  made.memory(free_requested, 120, 0x1000, 10);
  made.memory(free_completed, 120, 0x1000, 10);
  return made;
}

TEST(TraceMemory, gives_steps_and_phases_their_levels) {
  const TraceMemory found = step().beside();
  ASSERT_THAT(found.stretches, SizeIs(3));
  const MemoryStretch& whole = found.stretches[0];
  EXPECT_EQ(whole.step, "ProfilerStep#1");
  EXPECT_EQ(whole.phase, "");
  EXPECT_EQ(whole.begin_bytes, 0u);
  EXPECT_EQ(whole.peak_bytes, 30 * kMiB);
  EXPECT_EQ(whole.end_bytes, 20 * kMiB);
  EXPECT_EQ(whole.peak_ns, 101'000);
  EXPECT_EQ(whole.segments.count, 1);
  EXPECT_EQ(whole.segments.bytes, 40 * kMiB);
  EXPECT_EQ(found.stretches[1].phase, "forward");
  EXPECT_EQ(found.stretches[1].peak_bytes, 10 * kMiB);
  EXPECT_EQ(found.stretches[1].end_bytes, 10 * kMiB);
  EXPECT_EQ(found.stretches[2].phase, "backward");
  EXPECT_EQ(found.stretches[2].begin_bytes, 10 * kMiB);
  EXPECT_EQ(found.stretches[2].peak_bytes, 30 * kMiB);
}

TEST(TraceMemory, says_what_asked_and_what_ran_at_a_peak) {
  const TraceMemory found = step().beside();
  EXPECT_THAT(found.stretches[0].asked, HasSubstr("backward (model.py:3)"));
  EXPECT_EQ(found.stretches[0].ran, "") << "the device waited";
  EXPECT_THAT(found.stretches[1].asked, HasSubstr("forward"));
  MadeBoth made = step();
  made.memory(alloc, 130, 0x5000, 50, "late");
  EXPECT_EQ(made.beside().stretches[0].ran, "dgrad_gemm");
}

TEST(TraceMemory, puts_requests_for_segments_beside_the_gap_that_they_caused) {
  const TraceMemory found = step().beside();
  ASSERT_THAT(found.gaps, SizeIs(1));
  EXPECT_EQ(found.gaps[0].begin_ns, 60'000);
  EXPECT_EQ(found.gaps[0].duration_ns, 50'000);
  EXPECT_EQ(found.gaps[0].calls_ns, 29'000);
  EXPECT_EQ(found.gaps[0].segments.count, 1);
  ASSERT_TRUE(found.clock.has_value());
  EXPECT_EQ(found.clock->requests, 1);
  EXPECT_EQ(found.clock->median_ns, 1'000) << "the call ended at 99";
}

TEST(TraceMemory, has_no_gap_where_the_launch_came_in_time) {
  MadeBoth made;
  made.kernel("gemm", 10, 12, 60);
  made.memory(segment_alloc, 20, 0x1000, 40);
  made.memory(alloc, 21, 0x1000, 10);
  made.kernel("gemm", 25, 70, 80);
  const TraceMemory found = made.beside();
  EXPECT_THAT(found.gaps, SizeIs(0));
  EXPECT_EQ(found.segments.count, 1);
  ASSERT_THAT(found.stretches, SizeIs(1)) << "no steps are marked";
  EXPECT_EQ(found.stretches[0].step, "");
  EXPECT_FALSE(found.clock.has_value()) << "the trace has no calls for memory";
}

std::string problem_of(MadeBoth made, std::optional<std::int64_t> base_ns) {
  return error_of([&] { made.beside(base_ns); });
}

TEST(TraceMemory, refuses_what_has_no_common_clock) {
  EXPECT_THAT(problem_of(step(), std::nullopt), HasSubstr("does not say when its time 0 was"));
  EXPECT_THAT(problem_of(step(), 1000 * (kBaseUs + 3'600'000'000)),
              AllOf(HasSubstr("is of another time than"), HasSubstr("from 2023-11-14 22:13:20.000 UTC"),
                    HasSubstr("2023-11-14 23:13:20.000 UTC")));
  MadeBoth without_times;
  without_times.kernel("gemm", 10, 12, 60);
  without_times.snapshot().histories[0].add(alloc, 0x1000, {.size_bytes = 5}, std::nullopt);
  EXPECT_THAT(problem_of(std::move(without_times), 1000 * kBaseUs), HasSubstr("have no times"));
}

TEST(TraceMemory, refuses_a_snapshot_of_other_devices) {
  MadeBoth made = step();
  made.snapshot().histories.insert(made.snapshot().histories.begin(), 3, MemoryHistory());
  made.snapshot().histories.push_back(made.snapshot().histories.back());
  EXPECT_THAT(problem_of(std::move(made), 1000 * kBaseUs), HasSubstr("has nothing of the devices of '': it has 3, 4"));
}

TEST(TraceMemory, of_a_trace_of_several_devices_is_that_of_the_same_number) {
  TraceCollector trace;
  for (const char* device : {"0", "1"})
    trace.add_activity(
        {.start_ns = 5000, .duration_ns = 100'000, .name = trace.name("gemm"), .track = trace.track(device, "7")});
  trace.trace().base_ns = 1000 * kBaseUs;
  std::vector<TraceLane> lanes = analyse_trace(trace.finish(), KernelRules());
  MadeSnapshot made;
  made.snapshot.histories.emplace_back();
  made.snapshot.histories[1].add(alloc, 0x1000, {.size_bytes = 512, .rounding_bytes = 0}, kBaseUs + 10);
  add_memory(lanes, made.snapshot, "snapshot.pickle");
  ASSERT_THAT(lanes, SizeIs(2));
  EXPECT_FALSE(lanes[0].memory.has_value());
  ASSERT_TRUE(lanes[1].memory.has_value());
  EXPECT_EQ(lanes[1].memory->device, 1);
  EXPECT_EQ(lanes[1].memory->stretches.at(0).end_bytes, 512u);
}

}  // namespace
}  // namespace ridgepoint
