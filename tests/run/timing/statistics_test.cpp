#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ridgepoint/record.h"

namespace ridgepoint {
namespace {

TEST(Statistics, agree_with_values_worked_out_by_hand) {
  const Statistics s = describe({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(s.mean, 2.5);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt(5.0 / 3.0));
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 4);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_THAT(s.quartiles, ::testing::ElementsAre(1.75, 2.5, 3.25));
  EXPECT_DOUBLE_EQ(s.cv, s.std / 2.5);
}

TEST(Statistics, keep_the_samples_in_the_order_they_were_taken) {
  EXPECT_THAT(describe({4, 1, 3}).samples, ::testing::ElementsAre(4, 1, 3));
}

TEST(Statistics, of_one_sample_have_no_deviation) {
  const Statistics s = describe({7});
  EXPECT_EQ(s.mean, 7);
  EXPECT_EQ(s.median, 7);
  EXPECT_TRUE(std::isnan(s.std));
  EXPECT_TRUE(std::isnan(s.cv));
}

TEST(Statistics, of_no_sample_are_all_undefined) {
  const Statistics s = describe({});
  for (const double value : {s.mean, s.std, s.min, s.max, s.median, s.quartiles[0], s.cv, s.median_half_width}) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Statistics, keep_the_spread_of_nearly_equal_times) {
  EXPECT_NEAR(describe({1e9, 1e9 + 1, 1e9 + 2}).std, 1.0, 1e-9);
}

TEST(Statistics, have_the_interval_of_the_median_whatever_the_order_of_the_samples) {
  EXPECT_DOUBLE_EQ(describe({12, 8, 11, 10, 9, 10}).median_half_width, 0.2);
}

TEST(Statistics, interpolate_quartiles_between_neighbours) {
  EXPECT_THAT(describe({40, 10, 20}).quartiles, ::testing::ElementsAre(15, 20, 30));
}

}  // namespace
}  // namespace ridgepoint
