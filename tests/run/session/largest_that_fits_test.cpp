#include "run/session/largest_that_fits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace ridgepoint {
namespace {

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

std::int64_t search(std::int64_t threshold, std::int64_t granularity, std::int64_t most) {
  return largest_that_fits([&](std::int64_t size) { return size <= threshold; }, granularity, most);
}

TEST(LargestThatFits, is_the_last_multiple_that_fits) {
  for (const std::int64_t granularity : {1, 3, 16}) {
    for (std::int64_t threshold = 0; threshold < 200; ++threshold)
      EXPECT_EQ(search(threshold, granularity, kEndless), threshold / granularity * granularity);
  }
}

TEST(LargestThatFits, is_bounded_by_the_most) {
  for (const std::int64_t granularity : {1, 3, 16}) {
    for (std::int64_t most = 0; most < 100; ++most) {
      EXPECT_EQ(search(kEndless, granularity, most), most / granularity * granularity);
      EXPECT_EQ(search(40, granularity, most), std::min<std::int64_t>(40, most) / granularity * granularity);
    }
  }
  EXPECT_EQ(search(kEndless, 1, kEndless), kEndless);
}

TEST(LargestThatFits, tries_no_size_twice_and_ends_beside_its_result) {
  std::vector<std::int64_t> tried;
  std::int64_t last_fit = 0, last_failure = 0;
  const std::int64_t largest = largest_that_fits(
      [&](std::int64_t size) {
        tried.push_back(size);
        (size <= 21 ? last_fit : last_failure) = size;
        return size <= 21;
      },
      2, 1000);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{2, 8, 32, 20, 26, 22}));
  EXPECT_EQ(largest, 20);
  EXPECT_EQ(last_fit, 20);
  EXPECT_EQ(last_failure, 22);
}

}  // namespace
}  // namespace ridgepoint
