#include "runtime/device/activity.h"

#include <gtest/gtest.h>

namespace ridgepoint {
namespace {

TEST(BusyTime, counts_kernels_side_by_side_once) {
  BusyTime busy(0, 100);
  busy.add(10, 40);  // to 50
  const BusyTime::Added inside = busy.add(20, 10);
  EXPECT_EQ(inside.gap_ns, 0);
  EXPECT_EQ(inside.busy_ns, 0);
  const BusyTime::Added beyond = busy.add(40, 20);  // to 60
  EXPECT_EQ(beyond.busy_ns, 10);
  EXPECT_EQ(busy.busy_ns(), 50);
  EXPECT_EQ(busy.until_ns(), 60);
  EXPECT_EQ(busy.rest_ns(), 40);
}

TEST(BusyTime, tells_the_gap_before_a_kernel) {
  BusyTime busy(100, 200);
  EXPECT_EQ(busy.add(110, 10).gap_ns, 10);
  EXPECT_EQ(busy.add(150, 10).gap_ns, 30);
}

TEST(BusyTime, leaves_out_what_lies_outside) {
  BusyTime busy(100, 200);
  EXPECT_EQ(busy.add(50, 60).busy_ns, 10);    // from 50 to 110
  EXPECT_EQ(busy.add(190, 100).busy_ns, 10);  // to 290
  EXPECT_EQ(busy.add(300, 10).busy_ns, 0);
  EXPECT_EQ(busy.busy_ns(), 20);
  EXPECT_EQ(busy.rest_ns(), 0);
}

}  // namespace
}  // namespace ridgepoint
