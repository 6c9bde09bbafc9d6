// The time of each phase of a run, on devices whose clock is the host's.
#include "runtime/execution/executor.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/forwarding_device.h"

namespace ridgepoint {
namespace {

// Takes a point for a millisecond more than the point before it.
class CountingTimer : public DeviceTimer {
 public:
  explicit CountingTimer(std::vector<std::size_t>& marks) : marks_(marks) {}
  void mark(std::size_t point) override { marks_.push_back(point); }
  double elapsed_ms(std::size_t from, std::size_t to) override { return static_cast<double>(to * to - from * from); }

 private:
  std::vector<std::size_t>& marks_;
};

// Of the null device, with timers that say what was marked.
class CountingDevice : public testing::ForwardingDevice {
 public:
  CountingDevice() : ForwardingDevice(open_device("null")) {}

  std::unique_ptr<DeviceTimer> make_timer(std::size_t points) override {
    requested_points = points;
    return std::make_unique<CountingTimer>(marks);
  }

  std::size_t requested_points = 0;
  std::vector<std::size_t> marks;
};

void run(PhaseTimer& timer, std::size_t launches) {
  timer.begin();
  for (std::size_t i = 0; i < launches; ++i) timer.before_launch(i);
  timer.end();
}

TEST(PhaseTimer, markseach_change_of_phase_and_the_end_in_every_run) {
  CountingDevice device;
  const std::array phases = {Phase::forward, Phase::forward, Phase::loss, Phase::backward, Phase::backward};
  PhaseTimer timer(device, phases);
  EXPECT_EQ(device.requested_points, 4U);
  run(timer, phases.size());
  EXPECT_EQ(device.marks, (std::vector<std::size_t>{0, 1, 2, 3}));
  run(timer, phases.size());
  EXPECT_EQ(device.marks, (std::vector<std::size_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  const PhaseTimes times = timer.read();
  EXPECT_EQ(times[Phase::forward], 1.0);
  EXPECT_EQ(times[Phase::loss], 3.0);
  EXPECT_EQ(times[Phase::backward], 5.0);
  EXPECT_EQ(times[Phase::optimizer], std::nullopt);
}

TEST(PhaseTimer, adds_up_the_parts_of_a_phase_that_is_interrupted) {
  CountingDevice device;
  const std::array phases = {Phase::backward, Phase::optimizer, Phase::backward, Phase::optimizer};
  PhaseTimer timer(device, phases);
  run(timer, phases.size());
  EXPECT_EQ(timer.read()[Phase::backward], 1.0 + 5.0);
  EXPECT_EQ(timer.read()[Phase::optimizer], 3.0 + 7.0);
}

TEST(PhaseTimer, has_no_times_for_a_run_without_launches) {
  CountingDevice device;
  PhaseTimer timer(device, {});
  run(timer, 0);
  EXPECT_EQ(timer.read()[Phase::forward], std::nullopt);
}

// A long forward phase and a short optimizer phase.
Graph long_forward() {
  Graph graph;
  Value x = input(graph, "x", {DType::fp32, {1 << 16}}, Role::data);
  const Value short_one = reduce_sum(graph, x, {0});
  for (int i = 0; i < 20; ++i) x = exp(graph, x);
  graph.add_output("long", x);
  graph.set_phase(Phase::optimizer);
  graph.add_output("short", neg(graph, short_one));
  return graph;
}

class PhaseTimesOn : public ::testing::TestWithParam<const char*> {};

TEST_P(PhaseTimesOn, are_those_of_the_last_run_from_the_call_on) {
  Program program(long_forward(), open_device(GetParam()), {.compile = {.level = Compile::full}});
  for (int i = 0; i < 3; ++i) program.run();
  program.time_phases();
  for (int i = 0; i < 3; ++i) {
    program.run();
    const PhaseTimes times = program.phase_times();
    EXPECT_GT(*times[Phase::forward], 4 * *times[Phase::optimizer]);
    EXPECT_GT(*times[Phase::optimizer], 0);
    EXPECT_EQ(times[Phase::backward], std::nullopt);
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, PhaseTimesOn, ::testing::Values("reference", "cpu"));

class CapturingDevice : public CountingDevice {
 public:
  std::unique_ptr<CapturedLaunches> capture(const std::function<void()>& body) override {
    struct Launches : CapturedLaunches {
      void run() override {}
    };
    ++captures;
    body();
    return std::make_unique<Launches>();
  }

  int captures = 0;
};

TEST(PhaseTimes, have_a_captured_run_be_captured_anew_with_marks) {
  const auto device = std::make_shared<CapturingDevice>();
  Program program(long_forward(), device, {.compile = {.level = Compile::full}});
  for (int i = 0; i < 3; ++i) program.run();
  EXPECT_TRUE(program.is_captured());
  EXPECT_EQ(device->captures, 1);
  EXPECT_TRUE(device->marks.empty());
  program.time_phases();
  for (int i = 0; i < 2; ++i) program.run();
  EXPECT_EQ(device->captures, 2);
  EXPECT_EQ(device->marks, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(PhaseTimes, are_zero_on_a_device_that_computes_nothing) {
  Program program(long_forward(), open_device("null"));
  program.time_phases();
  program.run();
  EXPECT_EQ(program.phase_times()[Phase::forward], 0.0);
}

}  // namespace
}  // namespace ridgepoint
