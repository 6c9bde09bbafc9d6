#include "train/schedule.h"

#include <gtest/gtest.h>

#include "ridgepoint/core/error.h"

namespace ridgepoint::train {
namespace {

TEST(Schedule, rises_along_a_line_and_stays) {
  const Schedule schedule{.decay = Decay::constant, .peak = 4, .warmup = 4, .iterations = 10};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10), 4);
}

TEST(Schedule, falls_along_half_a_cosine_to_the_lowest_rate) {
  const Schedule schedule{.decay = Decay::cosine, .peak = 3, .lowest = 1, .warmup = 2, .iterations = 10};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(2), 3);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(6), 2);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(20), 1);
}

TEST(Schedule, falls_along_a_line) {
  const Schedule schedule{.decay = Decay::linear, .peak = 3, .lowest = 1, .warmup = 0, .iterations = 4};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(2), 2);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 1);
}

TEST(Schedule, stays_and_falls_in_the_last_steps) {
  const Schedule schedule{.decay = Decay::wsd, .peak = 4, .lowest = 0, .warmup = 2, .iterations = 10, .decay_steps = 4};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(6), 4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(8), 2);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10), 0);
}

TEST(Schedule, has_names) {
  for (const Decay decay : kAllDecays) EXPECT_EQ(decay_from_name(name(decay)), decay);
  EXPECT_THROW(decay_from_name("cosin"), Error);
}

}  // namespace
}  // namespace ridgepoint::train
