// When launches and collectives of a rank run, alone and beside each other.
#include "predict/time/kernel_time.h"

#include <gtest/gtest.h>

namespace ridgepoint {
namespace {

constexpr bool kCaptured = true;
constexpr KernelTime kOneSecond{.work = 1};

TEST(LaunchTimeline, runs_launches_one_after_another) {
  LaunchTimeline timeline(kCaptured);
  timeline.launch(kOneSecond);
  timeline.launch({.fixed = 1, .work = 1});
  EXPECT_DOUBLE_EQ(timeline.seconds(), 2 + kCapturedShare);
  EXPECT_EQ(timeline.communication_seconds(), 0);
}

TEST(LaunchTimeline, waits_for_the_host_where_launches_are_not_captured) {
  LaunchTimeline timeline(!kCaptured);
  for (int i = 0; i < 1000; ++i) timeline.launch({.work = 1e-9});
  EXPECT_NEAR(timeline.seconds(), 1000 * kHostSecondsPerLaunch, 2e-9);
}

TEST(LaunchTimeline, runs_a_collective_alone_as_long_as_it_takes) {
  LaunchTimeline timeline(kCaptured);
  timeline.wait_for(timeline.begin_collective(3));
  EXPECT_DOUBLE_EQ(timeline.seconds(), 3);
  EXPECT_DOUBLE_EQ(timeline.communication_seconds(), 3);
  timeline.launch(kOneSecond);
  EXPECT_DOUBLE_EQ(timeline.seconds(), 4) << "nothing runs beside it any more";
}

TEST(LaunchTimeline, slows_launches_and_collectives_beside_each_other) {
  LaunchTimeline timeline(kCaptured);
  timeline.begin_collective(1);
  timeline.launch({.work = 10});
  timeline.wait_for_all();
  const double both = timeline.communication_seconds();
  EXPECT_GT(both, 1);
  EXPECT_GT(timeline.seconds(), 10);
  EXPECT_LT(timeline.seconds(), 10 + both);

  LaunchTimeline in_pieces(kCaptured);
  in_pieces.begin_collective(1);
  for (int i = 0; i < 100; ++i) in_pieces.launch({.work = 0.1});
  EXPECT_NEAR(in_pieces.seconds(), timeline.seconds(), 1e-9);
  EXPECT_NEAR(in_pieces.communication_seconds(), both, 1e-9);
}

// They leave the multiprocessors to the launch.
TEST(LaunchTimeline, slows_launches_less_where_copy_engines_send) {
  double seconds[2], communication[2];
  for (const Sender sender : {Sender::kernels, Sender::copy_engines}) {
    LaunchTimeline timeline(kCaptured);
    timeline.begin_collective(1, sender);
    timeline.launch({.work = 100});
    seconds[static_cast<int>(sender)] = timeline.seconds();
    communication[static_cast<int>(sender)] = timeline.communication_seconds();
  }
  EXPECT_GT(seconds[1], 100);
  EXPECT_LT(seconds[1], seconds[0]);
  EXPECT_GT(communication[1], communication[0]);
}

TEST(LaunchTimeline, runs_collectives_one_after_another) {
  LaunchTimeline timeline(kCaptured);
  const std::size_t first = timeline.begin_collective(1);
  const std::size_t second = timeline.begin_collective(2);
  timeline.wait_for(first);
  EXPECT_DOUBLE_EQ(timeline.seconds(), 1);
  timeline.wait_for(second);
  EXPECT_DOUBLE_EQ(timeline.seconds(), 3);
  timeline.wait_for(first);
  timeline.wait_for_all();
  EXPECT_DOUBLE_EQ(timeline.seconds(), 3) << "both have ended";
}

// Without captured launches, collectives go on while the GPU waits for the host.
TEST(LaunchTimeline, runs_collectives_alone_while_the_host_is_late) {
  LaunchTimeline timeline(!kCaptured);
  const double host = kHostSecondsPerLaunch;
  timeline.begin_collective(host / 2);
  timeline.launch({.work = 1e-9});
  EXPECT_DOUBLE_EQ(timeline.communication_seconds(), host / 2);
  EXPECT_DOUBLE_EQ(timeline.seconds(), host + 1e-9);
}

TEST(LaunchTimeline, runs_transfers_of_each_direction_one_after_another) {
  using Direction = LaunchTimeline::Direction;
  LaunchTimeline timeline(kCaptured);
  const std::size_t first = timeline.begin_transfer(Direction::from_host, 3);
  const std::size_t second = timeline.begin_transfer(Direction::from_host, 3);
  const std::size_t back = timeline.begin_transfer(Direction::to_host, 4);
  timeline.launch({.work = 1});
  EXPECT_DOUBLE_EQ(timeline.seconds(), 1);  // none holds a launch up
  timeline.wait_for_transfer(first);
  EXPECT_DOUBLE_EQ(timeline.seconds(), 3);
  timeline.wait_for_transfer(back);
  EXPECT_DOUBLE_EQ(timeline.seconds(), 4);
  timeline.wait_for_transfer(second);
  EXPECT_DOUBLE_EQ(timeline.seconds(), 6);
  timeline.launch({.work = 1});
  timeline.begin_transfer(Direction::to_host, 2);  // begins behind the launch
  timeline.wait_for_all_transfers();
  EXPECT_DOUBLE_EQ(timeline.seconds(), 9);
}

}  // namespace
}  // namespace ridgepoint
