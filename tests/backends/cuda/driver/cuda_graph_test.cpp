// Captured runs: which runs are captured, and what happens when the driver cannot capture one.
#include "backends/cuda/driver/cuda_graph.h"

#include <gmock/gmock.h>

#include <string>

#include "backends/cuda/device.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "backends/null/null_device.h"
#include "core/warning.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "run/session/steps/step_benchmark.h"
#include "runtime/device/activity.h"

namespace ridgepoint {
namespace {

using cuda::CudaContext;
using cuda::CudaGraph;

Graph two_sums() {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp32, {8, 8}}, Role::data);
  const Value b = matmul(graph, a, a);
  graph.add_output("c", add(graph, matmul(graph, b, a), a));
  return graph;
}

class NoObserver : public LaunchObserver {
 public:
  void before_launch(std::uint32_t) override { ++launches; }
  void after_launch(std::uint32_t) override {}
  std::size_t launches = 0;
};

struct CudaGraphOnFakeCard : testing::OnFakeCard {
  static int captured_runs() { return fake_count("fake_card_captured_runs"); }
  static Program program(Compile level) { return {two_sums(), open_device("cuda"), {.compile = {.level = level}}}; }
};

TEST_F(CudaGraphOnFakeCard, the_second_run_is_captured_and_later_ones_repeat_it) {
  on_fake_card([] {
    Program full = program(Compile::full);
    for (const int expected : {0, 1, 2, 3}) {
      full.run();
      EXPECT_EQ(captured_runs(), expected);
    }
    full.synchronize();
    EXPECT_NO_THROW(full.read_output("c"));
  });
}

TEST_F(CudaGraphOnFakeCard, generated_kernels_start_early_in_a_captured_run_only) {
  on_fake_card([] {
    Program full = program(Compile::full);
    full.run();
    EXPECT_EQ(fake_count("fake_card_early_launches"), 0);
    full.run();
    EXPECT_EQ(fake_count("fake_card_early_launches"), 1) << "the sum; the library's products are launched as before";
    full.synchronize();
  });
}

TEST_F(CudaGraphOnFakeCard, runs_are_captured_with_either_allocator_and_its_memory_is_predicted_to_the_byte) {
  on_fake_card([] {
    int captured = 0;
    for (const AllocatorKind allocator : kAllAllocatorKinds) {
      const ProgramPlan plan(two_sums(), open_device("cuda"),
                             {.compile = {.level = Compile::full}, .allocator = allocator});
      Program full(plan);
      Program predicted(plan, make_null_device(plan.device()));
      for (int run = 0; run < 4; ++run) {
        full.run();
        predicted.run();
        EXPECT_EQ(full.memory_use().peak_reserved_bytes, predicted.memory_use().peak_reserved_bytes);
        EXPECT_EQ(full.memory_use().peak_allocated_bytes, predicted.memory_use().peak_allocated_bytes);
        EXPECT_EQ(full.memory_use().allocated_bytes, predicted.memory_use().allocated_bytes);
      }
      EXPECT_EQ(captured_runs(), captured += 3) << name(allocator);
      full.reset_peak_memory();
      full.run();
      EXPECT_EQ(captured_runs(), captured += 1) << "it is captured anew, and the capture counts its peak";
      EXPECT_EQ(full.memory_use().peak_allocated_bytes, predicted.memory_use().peak_allocated_bytes);
      full.synchronize();
    }
  });
}

TEST_F(CudaGraphOnFakeCard, a_measured_step_is_captured_too) {
  on_fake_card([] {
    RunConfig config;
    config.device = "cuda";
    config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 1, 2}, 2);
    config.compile.level = Compile::full;
    config.warmup = 1;
    config.steps = 4;
    CeilingCache ceilings;
    const std::optional<Record> record = measure_step(config, ceilings);
    EXPECT_EQ(captured_runs(), 4) << record->error.message;
    EXPECT_EQ(record->allocator, AllocatorKind::arena);
    EXPECT_EQ(record->memory_bytes.peak_allocated, record->memory_bytes.planned_peak);
  });
}

TEST_F(CudaGraphOnFakeCard, lower_levels_launch_one_by_one) {
  on_fake_card([] {
    Program fused = program(Compile::fuse);
    for (int run = 0; run < 3; ++run) fused.run();
    EXPECT_EQ(captured_runs(), 0);
  });
}

TEST_F(CudaGraphOnFakeCard, an_observer_sees_every_launch_of_every_run) {
  on_fake_card([] {
    Program full = program(Compile::full);
    for (int run = 0; run < 3; ++run) full.run();
    EXPECT_EQ(captured_runs(), 2);
    NoObserver observer;
    full.observe(&observer);
    full.run();
    full.run();
    EXPECT_EQ(captured_runs(), 2);
    EXPECT_EQ(observer.launches, 2 * full.launches_per_run());
    full.observe(nullptr);
    full.run();
    EXPECT_EQ(captured_runs(), 3) << "it captures the run again, because the observed runs moved the outputs";
  });
}

TEST_F(CudaGraphOnFakeCard, a_driver_that_cannot_capture_is_warned_of_once_and_runs_go_on) {
  set("FAKE_CARD_REFUSES_CAPTURE", "1");
  on_fake_card([] {
    std::vector<std::string> warnings;
    set_warning_handler([&](std::string_view message) { warnings.emplace_back(message); });
    Program full = program(Compile::full);
    for (int run = 0; run < 4; ++run) full.run();
    full.synchronize();
    EXPECT_EQ(captured_runs(), 0);
    EXPECT_THAT(warnings, ::testing::ElementsAre(::testing::HasSubstr("capture a run")));
    EXPECT_NO_THROW(full.read_output("c"));
    set_warning_handler({});
  });
}

TEST_F(CudaGraphOnFakeCard, a_record_says_whether_and_why_not_runs_were_captured) {
  RunConfig config;
  config.device = "cuda";
  config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 1, 2}, 2);
  config.compile.level = Compile::full;
  const auto record_of = [config] {
    CeilingCache ceilings;
    return *measure_step(config, ceilings);
  };
  on_fake_card([&] {
    const Record record = record_of();
    EXPECT_EQ(record.captured, true);
    EXPECT_EQ(record.capture_problem, std::nullopt);
  });
  set("FAKE_CARD_REFUSES_CAPTURE", "1");
  on_fake_card([&] {
    const Record record = record_of();
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.captured, false);
    EXPECT_THAT(record.capture_problem.value(), ::testing::HasSubstr("capture a run"));
  });
}

TEST_F(CudaGraphOnFakeCard, an_exception_within_the_captured_code_ends_the_capture) {
  on_fake_card([] {
    CudaContext& card = CudaContext::of_card(0);
    EXPECT_THROW(CudaGraph(card, [] { throw Error("no"); }), Error);
    int calls = 0;
    CudaGraph graph(card, [&] { ++calls; });
    graph.run();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(captured_runs(), 1);
  });
}

}  // namespace
}  // namespace ridgepoint
