// The calls of an executor to its observer, and the records of HostActivityRecorder.
#include "runtime/device/host_device.h"

#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "runtime/device/device.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

class Notes : public LaunchObserver {
 public:
  void run_begins() override { lines.emplace_back("run"); }
  void before_launch(std::uint32_t launch) override { lines.push_back("before " + std::to_string(launch)); }
  void after_launch(std::uint32_t launch) override { lines.push_back("after " + std::to_string(launch)); }
  void run_ends() override { lines.emplace_back("end"); }
  std::vector<std::string> lines;
};

Program two_launches() {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, Shape{4}}, Role::data);
  graph.add_output("y", exp(graph, neg(graph, x)));
  return Program(std::move(graph), open_device("reference"));
}

TEST(LaunchObserver, hears_of_every_launch_in_order) {
  Program program = two_launches();
  Notes notes;
  program.observe(&notes);
  program.run();
  EXPECT_THAT(notes.lines, ElementsAre("run", "before 0", "after 0", "before 1", "after 1", "end"));
}

TEST(LaunchObserver, is_not_called_after_it_is_removed) {
  Program program = two_launches();
  Notes notes;
  program.observe(&notes);
  program.observe(nullptr);
  program.run();
  EXPECT_THAT(notes.lines, SizeIs(0));
}

TEST(LaunchObserver, hears_the_end_of_a_run_that_fails) {
  Graph graph;
  const Value table = input(graph, "table", {DType::fp32, Shape{4, 2}}, Role::parameter);
  const Value wide = broadcast(graph, reshape(graph, table, Shape{4, 2, 1}), Shape{4, 2, 1 << 20});
  graph.add_output("y", copy(graph, exp(graph, wide)));
  Program program(std::move(graph), open_device("reference", {.memory_limit_bytes = std::size_t{4} << 20}));
  Notes notes;
  program.observe(&notes);
  EXPECT_THROW(program.run(), OutOfMemory);
  EXPECT_EQ(notes.lines.front(), "run");
  EXPECT_EQ(notes.lines.back(), "end");
}

TEST(HostActivity, gives_each_launch_a_span_and_each_run_a_number) {
  Program program = two_launches();
  const std::unique_ptr<ActivityRecorder> recorder = program.device().make_activity_recorder();
  recorder->start(4);
  program.observe(recorder.get());
  const std::int64_t begin_ns = steady_now_ns();
  program.run();
  program.run();
  const std::int64_t end_ns = steady_now_ns();
  program.observe(nullptr);
  const ActivityLog log = recorder->stop();
  ASSERT_THAT(log.activities, SizeIs(4));
  std::int64_t previous_end_ns = begin_ns;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Activity& activity = log.activities[i];
    EXPECT_EQ(activity.run, i / 2);
    EXPECT_EQ(activity.launch, i % 2);
    EXPECT_GE(activity.start_ns, previous_end_ns);
    previous_end_ns = activity.start_ns + activity.duration_ns;
  }
  EXPECT_LE(previous_end_ns, end_ns);
}

TEST(HostActivity, forgets_earlier_records_on_start) {
  Program program = two_launches();
  const std::unique_ptr<ActivityRecorder> recorder = program.device().make_activity_recorder();
  for (int i = 0; i < 2; ++i) {
    recorder->start(2);
    program.observe(recorder.get());
    program.run();
    const ActivityLog log = recorder->stop();
    ASSERT_THAT(log.activities, SizeIs(2));
    EXPECT_EQ(log.activities[0].run, 0U);
  }
}

TEST(ProgramLaunches, name_the_node_and_the_kernel_of_each) {
  const Program program = two_launches();
  const std::vector<LaunchInfo> launches = program.launches();
  ASSERT_THAT(launches, SizeIs(program.launches_per_run()));
  EXPECT_EQ(program.graph().node(launches[0].node).op, Op::neg);
  EXPECT_EQ(program.graph().node(launches[1].node).op, Op::exp);
  for (const LaunchInfo& launch : launches) EXPECT_FALSE(launch.kernel.empty());
}

}  // namespace
}  // namespace ridgepoint
