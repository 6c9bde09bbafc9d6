// Captured runs: which runs are captured, and what happens when the driver cannot capture one.
#include "backends/cuda/driver/cuda_graph.h"

#include <gmock/gmock.h>

#include <string>

#include "backends/cuda/device.h"
#include "backends/cuda/fake/on_fake_card.h"
#include "core/warning.h"
#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/program.h"
#include "runtime/activity.h"

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

class CudaGraphOnFakeCard : public testing::OnFakeCard {
 protected:
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

TEST_F(CudaGraphOnFakeCard, an_exception_within_the_captured_code_ends_the_capture) {
  on_fake_card([] {
    const CudaContext& card = CudaContext::of_card(0);
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
