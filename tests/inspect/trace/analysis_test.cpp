// What a trace says, of traces whose every figure is known.
#include "inspect/trace/analysis.h"

#include <fmt/format.h>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/trace/trace_collector.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// Times in microseconds.
class MadeTrace {
 public:
  // A kernel, and its launch unless `launched` is negative.
  void kernel(const std::string& name, int begin, int end, int launched, int stream = 7, const std::string& gpu = "0",
              const std::string& thread = "main") {
    ++correlation_;
    TraceEvent event = at(begin, end - begin);
    event.name = made_.name(name);
    event.track = made_.track(gpu, fmt::format("{}", stream));
    event.correlation = launched < 0 ? 0 : correlation_;
    made_.add_activity(event);
    if (launched >= 0) call("cudaLaunchKernel", launched, 1, thread);
  }
  void copy(int begin, int end, int launched, int took) {
    ++correlation_;
    TraceEvent event = at(begin, end - begin);
    event.kind = ActivityKind::copy;
    event.name = made_.name("Memcpy DtoH");
    event.track = made_.track("0", "7");
    event.correlation = correlation_;
    made_.add_activity(event);
    call("cudaMemcpyAsync", launched, took, "main");
  }
  void call(const std::string& name, int begin, int duration, const std::string& thread = "main") {
    TraceEvent event = at(begin, duration);
    event.name = made_.name(name);
    event.track = made_.track("host", thread);
    event.correlation = correlation_;
    made_.add_call(event);
  }
  void mark(const std::string& name, int begin, int end, const std::string& thread = "main") {
    TraceEvent event = at(begin, end - begin);
    event.name = made_.name(name);
    event.track = made_.track("host", thread);
    made_.add_mark(event);
  }
  // On an H100.
  void op(const std::string& name, int begin, int end, const TraceWork& work) {
    if (made_.trace().devices.empty()) made_.trace().devices.push_back({"0", "NVIDIA H100 80GB HBM3"});
    made_.trace().works.push_back(work);
    TraceEvent event = at(begin, end - begin);
    event.name = made_.name(name);
    event.track = made_.track("host", "main");
    event.note = static_cast<std::uint32_t>(made_.trace().works.size() - 1);
    made_.add_mark(event);
  }
  void flow(int from, const std::string& thread, int to, const std::string& other) {
    ++correlation_;
    for (const bool is_end : {false, true}) {
      TraceEvent event = at(is_end ? to : from, 0);
      event.correlation = correlation_;
      event.track = made_.track("host", is_end ? other : thread);
      made_.add_flow(event, is_end);
    }
  }
  std::vector<TraceLane> lanes(const TraceSelection& selection = {}) {
    return analyse_trace(made_.finish(), KernelRules(), selection);
  }

 private:
  static TraceEvent at(int begin_us, int duration_us) {
    return {.start_ns = 1000 * (1'000'000 + std::int64_t{begin_us}), .duration_ns = 1000 * std::int64_t{duration_us}};
  }
  TraceCollector made_;
  std::uint64_t correlation_ = 0;
};

std::int64_t idle_us(const TraceLane& lane, IdleCause cause) {
  return lane.idle.by_cause_ns[static_cast<std::size_t>(cause)] / 1000;
}

ProfilePhase phase_of(const TraceLane& lane, const std::string& kernel) {
  for (const DeviceEvent& event : lane.timeline.events)
    if (lane.timeline.name_of(event) == kernel) return event.phase;
  throw Error("no such kernel");
}

TEST(TraceAnalysis, counts_kernels_that_overlap_once_in_busy_time) {
  MadeTrace made;
  made.kernel("gemm", 0, 10, -1, 7);
  made.kernel("nccl", 5, 20, -1, 8);
  made.kernel("gemm", 30, 40, -1, 7);
  const std::vector<TraceLane> lanes = made.lanes();
  ASSERT_THAT(lanes, SizeIs(1));
  EXPECT_EQ(lanes[0].kernels.calls, 3);
  EXPECT_EQ(lanes[0].kernels.time_ns, 35'000);
  EXPECT_EQ(lanes[0].idle.busy_ns, 30'000);
  EXPECT_EQ(lanes[0].idle.wall_ns, 40'000);
  EXPECT_EQ(lanes[0].streams, 2);
}

TEST(TraceAnalysis, says_why_the_device_was_idle) {
  MadeTrace made;
  made.kernel("a", 10, 20, 0);
  made.kernel("b", 25, 30, 15);  // launched in time
  made.kernel("c", 40, 50, 38);  // late
  made.call("cudaStreamSynchronize", 39, 18);
  made.kernel("d", 60, 70, 58);  // the host had waited for the device
  made.mark("enumerate(DataLoader)#_SingleProcess.__next__", 60, 88);
  made.kernel("e", 90, 100, 89);
  made.call("cudaMalloc", 91, 27);
  made.kernel("f", 120, 130, 119);
  made.kernel("g", 150, 160, -1);
  const TraceLane lane = made.lanes().at(0);
  EXPECT_EQ(idle_us(lane, IdleCause::dependency), 5);
  EXPECT_EQ(idle_us(lane, IdleCause::host_late), 10);
  EXPECT_EQ(idle_us(lane, IdleCause::synchronisation), 10);
  EXPECT_EQ(idle_us(lane, IdleCause::data_loading), 20);
  EXPECT_EQ(idle_us(lane, IdleCause::allocator), 20);
  EXPECT_EQ(idle_us(lane, IdleCause::launch_unknown), 20);
  EXPECT_EQ(lane.idle.idle_ns(), 85'000);
}

TEST(TraceAnalysis, blames_a_copy_that_the_host_waited_in) {
  MadeTrace made;
  made.kernel("a", 10, 20, 0);
  made.copy(20, 22, 5, 20);
  made.kernel("b", 30, 40, 27);
  EXPECT_EQ(idle_us(made.lanes().at(0), IdleCause::copies), 8);
}

TEST(TraceAnalysis, tells_phases_by_autograd_and_the_optimizer) {
  MadeTrace made;
  made.mark("ProfilerStep#1", 0, 100);
  made.kernel("f", 10, 20, 5);
  made.mark("autograd::engine::evaluate_function: MmBackward0", 20, 30, "autograd");
  made.kernel("b", 30, 40, 25, 7, "0", "autograd");
  made.mark("Optimizer.step#SGD.step", 50, 60);
  made.kernel("o", 60, 70, 55);
  made.mark("Optimizer.zero_grad#SGD.zero_grad", 70, 80);
  made.kernel("z", 80, 90, 75);
  const TraceLane lane = made.lanes().at(0);
  EXPECT_TRUE(lane.timeline.has_phases);
  EXPECT_EQ(phase_of(lane, "f"), ProfilePhase::forward);
  EXPECT_EQ(phase_of(lane, "b"), ProfilePhase::backward);
  EXPECT_EQ(phase_of(lane, "o"), ProfilePhase::optimizer);
  EXPECT_EQ(phase_of(lane, "z"), ProfilePhase::zeroing);
}

TEST(TraceAnalysis, takes_a_node_of_old_forms_as_backward_and_as_no_module) {
  MadeTrace made;
  made.mark("nn.Module: Linear_0", 0, 10);
  made.kernel("f", 10, 20, 5);
  made.mark("MmBackward", 20, 30, "autograd");
  made.kernel("b", 30, 40, 25, 7, "0", "autograd");
  made.mark("torch::autograd::AccumulateGrad", 40, 50, "autograd");
  made.kernel("a", 50, 60, 45, 7, "0", "autograd");
  const TraceLane lane = made.lanes().at(0);
  EXPECT_EQ(phase_of(lane, "f"), ProfilePhase::forward);
  EXPECT_EQ(phase_of(lane, "b"), ProfilePhase::backward);
  EXPECT_EQ(phase_of(lane, "a"), ProfilePhase::backward);
  const std::vector<ScopeRow> rows = by_scope(lane.timeline, 1);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[1].path, "(in no mark)");
}

TEST(TraceAnalysis, has_no_phases_where_no_mark_tells_any) {
  MadeTrace made;
  made.kernel("f", 10, 20, 5);
  EXPECT_FALSE(made.lanes().at(0).timeline.has_phases);
}

TEST(TraceAnalysis, adds_up_modules_without_the_numbers_of_their_instances) {
  MadeTrace made;
  made.mark("nn.Module: Block_0", 0, 20);
  made.mark("nn.Module: Linear_3", 2, 10);
  made.kernel("gemm_a", 10, 20, 5);
  made.mark("nn.Module: Block_1", 20, 40);
  made.mark("nn.Module: Linear_4", 22, 30);
  made.kernel("gemm_b", 30, 50, 25);
  const std::vector<ScopeRow> rows = by_scope(made.lanes().at(0).timeline, 3);
  std::vector<std::string> paths;
  for (const ScopeRow& row : rows) paths.push_back(row.path);
  EXPECT_THAT(paths, ElementsAre("Block", "Block.Linear", "Block.Linear.matmul"));
  EXPECT_EQ(rows[0].sum.time_ns, 30'000);
}

TEST(TraceAnalysis, puts_backward_into_the_module_of_its_forward) {
  MadeTrace made;
  made.mark("nn.Module: Linear_0", 0, 10);
  made.kernel("gemm", 10, 20, 5);
  made.mark("autograd::engine::evaluate_function: AddmmBackward0", 20, 30, "autograd");
  made.mark("autograd::engine::evaluate_function: AccumulateGrad", 30, 40, "autograd");
  made.flow(4, "main", 21, "autograd");
  made.kernel("gemm", 30, 50, 25, 7, "0", "autograd");
  made.kernel("add", 50, 60, 35, 7, "0", "autograd");
  const std::vector<ScopeRow> rows = by_scope(made.lanes().at(0).timeline, 1);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].path, "Linear");
  EXPECT_EQ(rows[0].sum.time_ns, 30'000);
  EXPECT_EQ(rows[1].path, "(in no mark)");
}

TEST(TraceAnalysis, gives_the_work_of_a_product_to_its_longest_kernel) {
  MadeTrace made;
  made.op("aten::mm", 100, 200, {.flops = 1000, .bytes = 60, .dtype = "bf16", .is_product = true});
  made.kernel("splitk_reduce", 300, 310, 110);
  made.kernel("gemm", 400, 490, 120);
  made.kernel("gemm", 500, 590, 250);
  const TraceLane lane = made.lanes().at(0);
  ASSERT_THAT(lane.timeline.work, SizeIs(3));
  EXPECT_EQ(lane.timeline.work[0].flops, 0);
  EXPECT_EQ(lane.timeline.work[1].flops, 1000);
  EXPECT_EQ(lane.timeline.work[2].flops, 0) << "it was launched behind the op";
  ASSERT_TRUE(lane.products.has_value());
  EXPECT_EQ(lane.products->time_ns, 100'000);
  EXPECT_DOUBLE_EQ(lane.products->flops_per_second(), 1e7);
  EXPECT_TRUE(lane.products->datasheet_flops_per_second.has_value());
}

// One kernel in an op whose work is this.
TraceLane lane_with_work(const TraceWork& work, const char* kernel, int duration_us) {
  MadeTrace made;
  made.op("aten::nll_loss_forward", 100, 200, work);
  made.kernel(kernel, 300, 300 + duration_us, 110);
  return made.lanes().at(0);
}

TEST(TraceAnalysis, compares_kernels_with_the_datasheet_of_their_card) {
  // 3350 GB/s and 989.4 Tflop/s: a kernel of 2 us that moves 3.35 MB takes 1 us at least.
  const TraceLane memory = lane_with_work({.flops = 0, .bytes = 3'350'000}, "vectorized_elementwise_kernel", 2);
  ASSERT_TRUE(memory.roofline.has_value());
  EXPECT_EQ(memory.roofline->card, "H100 SXM");
  ASSERT_THAT(memory.roofline->classes, SizeIs(1));
  const RooflineRow& row = memory.roofline->classes[0];
  EXPECT_EQ(row.what, "elementwise");
  EXPECT_DOUBLE_EQ(row.floor_ns, 1000);
  EXPECT_DOUBLE_EQ(row.memory_ns, 1000);
  EXPECT_TRUE(row.bound_by_memory);
  const TraceWork product{.flops = 989'400'000, .bytes = 3350, .dtype = "bf16", .is_product = true};
  const TraceLane compute = lane_with_work(product, "gemm", 4);
  EXPECT_DOUBLE_EQ(compute.roofline->classes.at(0).floor_ns, 1000);
  EXPECT_FALSE(compute.roofline->classes.at(0).bound_by_memory);
}

TEST(TraceAnalysis, tells_tf32_by_the_name_of_the_kernel) {
  const TraceWork product{.flops = 67'000'000, .bytes = 1, .dtype = "fp32", .is_product = true};
  const auto floor_of = [&](const char* kernel) {
    const std::vector<RooflineRow> rows = lane_with_work(product, kernel, 4).roofline->classes;
    return rows.empty() ? 0 : rows[0].floor_ns;
  };
  EXPECT_DOUBLE_EQ(floor_of("ampere_sgemm_128x64_tn"), 1000);
  EXPECT_NEAR(floor_of("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n"), 1000 * 67 / 494.7, 1e-6);
  EXPECT_DOUBLE_EQ(floor_of("nvjet_other"), 0) << "its name tells nothing";
  EXPECT_EQ(lane_with_work(product, "nvjet_other", 4).products->dtype, "fp32 or tf32");
}

TEST(TraceAnalysis, takes_no_phase_from_ops_whose_work_is_known) {
  EXPECT_FALSE(lane_with_work({.flops = 0, .bytes = 8}, "elementwise", 10).timeline.has_phases);
}

TEST(TraceAnalysis, puts_the_first_step_beside_the_median_of_the_later_ones) {
  MadeTrace made;
  const std::vector<int> lengths = {100, 10, 30, 20};
  int at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    made.mark(fmt::format("ProfilerStep#{}", i), at, at + lengths[i]);
    if (i == 0) made.call("cudaMalloc", at + 1, 40);
    made.kernel("gemm", at + 5, at + 8, at + 2);
    at += lengths[i];
  }
  const std::vector<FirstStepRow> rows = first_against_later(made.lanes().at(0).steps);
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].what, "the step, on the host");
  EXPECT_DOUBLE_EQ(rows[0].first_ms, 0.1);
  EXPECT_DOUBLE_EQ(rows[0].later_ms, 0.02);
  EXPECT_EQ(rows[1].what, "the host in calls for memory");
  EXPECT_DOUBLE_EQ(rows[1].first_ms, 0.04);
  EXPECT_DOUBLE_EQ(rows[1].later_ms, 0);
  EXPECT_EQ(rows[3].what, "matmul");
  EXPECT_DOUBLE_EQ(rows[3].first_ms, 0.003);
  EXPECT_THAT(first_against_later({TraceStep{}}), SizeIs(0));
}

TEST(TraceAnalysis, of_a_range_has_the_steps_with_kernels_in_it) {
  MadeTrace made;
  for (int step = 0; step < 3; ++step) {
    made.mark(fmt::format("ProfilerStep#{}", step), 100 * step, 100 * step + 100);
    made.kernel("gemm", 100 * step + 10, 100 * step + 20, 100 * step + 5);
  }
  const std::vector<TraceStep> steps = made.lanes({.step = {}, .range_ns = std::pair(90'000, 150'000)}).at(0).steps;
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_EQ(steps[0].name, "ProfilerStep#1");
}

TEST(TraceAnalysis, follows_what_held_up_the_end) {
  MadeTrace made;
  made.kernel("gemm", 0, 100, 0, 7);
  made.kernel("nccl", 10, 130, 1, 8);     // the update waits for it
  made.kernel("add", 100, 110, 2, 7);     // beside it
  made.kernel("adam", 135, 150, 3, 7);    // launched in time
  made.kernel("adam", 170, 180, 165, 7);  // launched late
  const CriticalPath path = made.lanes().at(0).path;
  const auto of_class = [&](KernelClass which) { return path.by_class_ns[static_cast<std::size_t>(which)] / 1000; };
  EXPECT_EQ(path.events, 3);
  EXPECT_EQ(of_class(KernelClass::optimizer), 25);
  EXPECT_EQ(of_class(KernelClass::communication), 120);
  EXPECT_EQ(of_class(KernelClass::matmul), 0);
  EXPECT_EQ(path.by_cause_ns[static_cast<std::size_t>(IdleCause::dependency)], 5'000);
  EXPECT_EQ(path.by_cause_ns[static_cast<std::size_t>(IdleCause::host_late)], 20'000 + 10'000);
}

TEST(TraceAnalysis, ends_for_events_of_no_duration) {
  MadeTrace made;
  for (int i = 0; i < 3; ++i) made.kernel("gemm", 5, 5, -1);
  EXPECT_EQ(made.lanes().at(0).path.events, 3);
}

TEST(TraceAnalysis, gives_a_step_the_kernels_that_it_launched) {
  MadeTrace made;
  made.mark("ProfilerStep#4", 0, 20);
  made.mark("ProfilerStep#5", 20, 40);
  made.kernel("a", 10, 30, 5);
  made.kernel("b", 30, 60, 19);
  made.kernel("c", 60, 65, 25);
  const std::vector<TraceStep> steps = made.lanes().at(0).steps;
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[0].kernels, 2);
  EXPECT_EQ(steps[0].busy_ns, 50'000);
  EXPECT_EQ(steps[1].kernels, 1);
  EXPECT_EQ(steps[1].wall_ns(), 20'000);
}

TEST(TraceAnalysis, selects_a_step_and_a_range) {
  const auto made = [] {
    MadeTrace trace;
    trace.mark("ProfilerStep#4", 0, 20);
    trace.mark("ProfilerStep#5", 20, 40);
    trace.kernel("a", 10, 30, 5);
    trace.kernel("c", 60, 65, 25);
    return trace;
  };
  const TraceLane step = made().lanes({.step = 5, .range_ns = {}}).at(0);
  EXPECT_EQ(step.kernels.time_ns, 5'000);
  EXPECT_THAT(step.steps, SizeIs(1));
  EXPECT_EQ(made().lanes({.step = {}, .range_ns = std::pair(0, 10'000)}).at(0).kernels.time_ns, 20'000);
  EXPECT_EQ(made().lanes({.step = 5, .range_ns = std::pair(0, 500'000)}).at(0).selection,
            "ProfilerStep#5, 0 to 0.5 ms");
  EXPECT_THROW(made().lanes({.step = 9, .range_ns = {}}), Error);
}

TEST(TraceAnalysis, finds_what_repeats_behind_a_first_step_that_differs) {
  MadeTrace made;
  made.kernel("tune", 0, 5, -1);
  for (int step = 1; step <= 4; ++step) {
    made.kernel("gemm", 100 * step, 100 * step + 20, -1);
    made.kernel("gemm", 100 * step + 20, 100 * step + 40, -1);
    made.kernel("add", 100 * step + 50, 100 * step + 60, -1);
  }
  const TraceLane lane = made.lanes().at(0);
  ASSERT_TRUE(lane.repetition.has_value());
  EXPECT_EQ(lane.repetition->times, 4);
  EXPECT_EQ(lane.repetition->kernels, 3);
  EXPECT_DOUBLE_EQ(lane.repetition->mean_ns, 100'000);
}

TEST(TraceAnalysis, finds_no_repetition_in_what_does_not_repeat) {
  MadeTrace made;
  for (int i = 0; i < 9; ++i) made.kernel(fmt::format("k{}", i), 10 * i, 10 * i + 5, -1);
  EXPECT_FALSE(made.lanes().at(0).repetition.has_value());
}

TEST(TraceAnalysis, measures_launches_and_what_waits_at_them) {
  MadeTrace made;
  made.kernel("a", 10, 20, 5);
  made.kernel("b", 20, 30, 6);
  made.kernel("c", 30, 40, 7);
  const LaunchDelay found = made.lanes().at(0).launches;
  EXPECT_EQ(found.launches, 3);
  EXPECT_EQ(found.median_ns, 14'000);
  EXPECT_EQ(found.most_ns, 23'000);
  EXPECT_EQ(found.longest_queue, 2);
  EXPECT_DOUBLE_EQ(found.mean_queue, 1);
}

TEST(TraceAnalysis, keeps_devices_of_a_file_apart) {
  MadeTrace made;
  made.kernel("a", 0, 10, -1, 7, "0");
  made.kernel("b", 5, 15, -1, 7, "1");
  const std::vector<TraceLane> lanes = made.lanes();
  ASSERT_THAT(lanes, SizeIs(2));
  EXPECT_EQ(lanes[1].kernels.time_ns, 10'000);
  EXPECT_EQ(lanes[1].streams, 1);
}

TEST(TraceAnalysis, counts_kernels_that_begin_within_the_one_before_on_their_stream) {
  MadeTrace made;
  made.kernel("a", 0, 100, -1);
  made.kernel("b", 50, 60, -1);
  EXPECT_EQ(made.lanes().at(0).faults[static_cast<std::size_t>(TraceFault::overlaps_on_stream)], 1u);
}

TEST(TraceAnalysis, takes_the_launch_of_a_graph_for_all_of_its_kernels) {
  TraceCollector graph;
  const auto add = [&](int begin) {
    graph.add_activity({.start_ns = 1000 * begin,
                        .duration_ns = 1000,
                        .correlation = 3,
                        .name = graph.name("k"),
                        .track = graph.track("0", "7")});
  };
  add(10);
  add(20);
  graph.add_call({.start_ns = 1000,
                  .duration_ns = 500,
                  .correlation = 3,
                  .name = graph.name("cudaGraphLaunch"),
                  .track = graph.track("host", "main")});
  const TraceLane lane = analyse_trace(graph.finish(), KernelRules()).at(0);
  EXPECT_EQ(lane.launches.launches, 2);
  EXPECT_EQ(idle_us(lane, IdleCause::dependency), 9);
}

TEST(TraceAnalysis, classes_the_sums_of_a_file_without_times) {
  Trace trace;
  trace.names = {"sgemm", "add_elementwise"};
  trace.notes.emplace_back();
  trace.works.emplace_back();
  trace.sums = {{.name = 0, .calls = 2, .total_ns = 300}, {.name = 1, .calls = 1, .total_ns = 100}};
  const TraceLane lane = analyse_trace(trace, KernelRules()).at(0);
  EXPECT_EQ(lane.kernels.calls, 3);
  EXPECT_EQ(total(lane.timeline).time_ns, 400);
  EXPECT_EQ(by_kernel(lane.timeline).at(0).name, "sgemm");
  EXPECT_EQ(by_class(lane.timeline).at(0).kernel_class, KernelClass::matmul);
}

TEST(TraceAnalysis, is_empty_for_a_trace_of_a_cpu) {
  MadeTrace made;
  made.mark("ProfilerStep#1", 0, 10);
  const std::vector<TraceLane> lanes = made.lanes();
  ASSERT_THAT(lanes, SizeIs(1));
  EXPECT_EQ(lanes[0].kernels.calls, 0);
  EXPECT_THAT(lanes[0].steps, SizeIs(1));
}

TEST(TraceRanks, find_who_comes_last_whatever_the_clocks_say) {
  std::vector<TraceLane> lanes;
  for (const int clock : {0, 5000}) {
    MadeTrace made;
    const bool is_late = clock > 0;
    for (int i = 0; i < 4; ++i)
      made.kernel("ncclKernel_AllReduce", clock + 100 * i + (is_late ? 30 : 0), clock + 100 * i + 50, -1);
    lanes.push_back(made.lanes().at(0));
  }
  const std::vector<TraceRank> ranks = compare_ranks(lanes);
  ASSERT_THAT(ranks, SizeIs(2));
  EXPECT_EQ(ranks[0].matched, 4);
  EXPECT_EQ(ranks[1].clock_ns, 5'000'000);
  EXPECT_EQ(ranks[0].late_ns, 4 * 30'000);
  EXPECT_EQ(ranks[1].late_ns, 0);
  EXPECT_EQ(ranks[1].last, 4);
}

TEST(TraceRanks, match_only_collectives_that_all_have) {
  std::vector<TraceLane> lanes;
  for (const char* name : {"ncclA", "ncclB"}) {
    MadeTrace made;
    made.kernel(name, 0, 10, -1);
    lanes.push_back(made.lanes().at(0));
  }
  EXPECT_THAT(compare_ranks(lanes), SizeIs(0));
}

TEST(TraceRanks, are_not_matched_between_two_runs_of_one_rank) {
  std::vector<TraceLane> lanes;
  for (const char* file : {"before.json", "after.json"}) {
    MadeTrace made;
    made.kernel("ncclA", 0, 10, -1);
    lanes.push_back(made.lanes().at(0));
    lanes.back().file = file;
    lanes.back().rank = 0;
  }
  EXPECT_THAT(compare_ranks(lanes), SizeIs(0));
  lanes.back().rank = 1;
  EXPECT_THAT(compare_ranks(lanes), SizeIs(2));
}

TEST(TraceRanks, match_those_that_have_collectives_beside_one_without) {
  std::vector<TraceLane> lanes;
  for (const char* name : {"ncclA", "gemm", "ncclA"}) {
    MadeTrace made;
    made.kernel(name, lanes.empty() ? 0 : 4, 10, -1);
    lanes.push_back(made.lanes().at(0));
  }
  const std::vector<TraceRank> ranks = compare_ranks(lanes);
  ASSERT_THAT(ranks, SizeIs(3));
  EXPECT_EQ(ranks[0].matched, 1);
  EXPECT_EQ(ranks[0].late_ns, 4'000);
  EXPECT_EQ(ranks[1].matched, 0);
  EXPECT_EQ(ranks[2].last, 1);
}

TEST(TraceOfProfile, has_the_sums_of_its_steps) {
  Profile profile;
  profile.steps = {{0, 100}, {100, 200}};
  for (const std::uint32_t step : {0U, 1U}) {
    KernelRecord& kernel = profile.kernels.emplace_back();
    kernel.name = "k";
    kernel.kernel_class = KernelClass::matmul;
    kernel.step = step;
    kernel.start_ns = 100 * step + 10;
    kernel.duration_ns = 40;
  }
  const TraceLane lane = lane_of_profile(profile);
  EXPECT_EQ(lane.kernels.time_ns, 80);
  ASSERT_THAT(lane.steps, SizeIs(2));
  EXPECT_EQ(lane.steps[1].busy_ns, 40);
  EXPECT_EQ(lane.steps[1].by_class_ns[0], 40);
  EXPECT_EQ(lane.idle.idle_ns(), 120);
}

TEST(KernelRules, know_the_kernels_of_libraries) {
  const KernelRules rules;
  using enum KernelClass;
  EXPECT_EQ(rules.class_of("ampere_sgemm_32x32_sliced1x4_tn"), matmul);
  EXPECT_EQ(rules.class_of("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x>"), matmul);
  EXPECT_EQ(rules.class_of("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32"), matmul);
  EXPECT_EQ(rules.class_of("void pytorch_flash::flash_fwd_kernel<cutlass::bfloat16_t>"), attention);
  EXPECT_EQ(rules.class_of("fmha_cutlassF_bf16_aligned_64x64_rf_sm80"), attention);
  EXPECT_EQ(rules.class_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), communication);
  EXPECT_EQ(rules.class_of("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdam>"), optimizer);
  EXPECT_EQ(rules.class_of("void cunn_SoftMaxForward<4, float, LogSoftMaxForwardEpilogue>"), loss);
  EXPECT_EQ(rules.class_of("void at::native::softmax_warp_forward<float, float>"), softmax);
  EXPECT_EQ(rules.class_of("void at::native::vectorized_layer_norm_kernel<float, float>"), norm);
  EXPECT_EQ(rules.class_of("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"),
            memory_movement);
  EXPECT_EQ(rules.class_of("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"),
            elementwise);
  EXPECT_EQ(rules.class_of("void vllm::rotary_embedding_kernel<c10::BFloat16, true>"), elementwise);
  EXPECT_EQ(rules.class_of("mystery"), unknown);
}

TEST(KernelRules, of_a_file_come_before_the_built_in_ones) {
  const TemporaryFolder folder;
  const auto write = [&](std::string_view text) {
    OutputFile file(folder / "rules");
    file.write(text);
    file.commit();
    return KernelRules::with_file(folder / "rules");
  };
  EXPECT_EQ(write("# mine\nattention my_*_GEMM\n").class_of("void my_fused_gemm<1>"), KernelClass::attention);
  EXPECT_EQ(write("memory_movement mystery").class_of("mystery"), KernelClass::memory_movement);
  EXPECT_THROW(write("attention"), Error);
  EXPECT_THROW(write("atention x"), Error);
}

}  // namespace
}  // namespace ridgepoint
