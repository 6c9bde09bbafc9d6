#include "core/random/random_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random/element.h"

namespace ridgepoint {
namespace {

double normal_probability(double value) { return 0.5 * std::erfc(-value / std::sqrt(2.0)); }

std::vector<float> values(std::size_t count, const TruncatedNormal& distribution, std::int64_t first = 0) {
  std::vector<float> result(count);
  fill_random(result, distribution, random_stream("w", 3), first);
  return result;
}

TEST(RandomElement, logarithm_is_that_of_the_library) {
  for (double x = 1e-3; x < 4; x *= 1.0007) EXPECT_NEAR(natural_log(x), std::log(x), 1e-13) << x;
}

TEST(RandomElement, quantiles_have_their_probability) {
  for (double p = 0.00135; p < 0.99865; p += 0.00037) {
    const double value = is_in_tail(p) ? tail_quantile(p, std::sqrt(tail_square(p))) : central_quantile(p);
    EXPECT_NEAR(normal_probability(value), p, 1e-7) << p;
  }
}

TEST(RandomElement, probabilities_stay_within_three_deviations) {
  for (std::uint64_t number = 0; number < 100'000; ++number) {
    const double p = random_probability(5, number);
    EXPECT_GE(p, normal_probability(-3.0));
    EXPECT_LE(p, normal_probability(3.0));
  }
}

TEST(RandomValues, have_the_mean_and_the_deviation) {
  const std::vector<float> sample = values(1'000'000, {.mean = 5, .deviation = 0.5});
  double sum = 0, squares = 0;
  for (const float value : sample) {
    sum += value;
    squares += (value - 5.0) * (value - 5.0);
  }
  EXPECT_NEAR(sum / 1e6, 5.0, 4 * 0.5 / 1e3);
  EXPECT_NEAR(squares / 1e6, 0.25 * 0.97331, 0.001) << "0.97331 is the variance of the distribution truncated at 3";
}

TEST(RandomValues, are_the_mean_without_a_deviation) {
  EXPECT_EQ(values(3, {.mean = 1}), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(values(3, {}), (std::vector<float>{0, 0, 0}));
}

TEST(RandomValues, from_a_number_on_are_those_of_the_whole) {
  const std::vector<float> whole = values(70'000, {.deviation = 1});
  for (const std::size_t first : {1U, 255U, 256U, 16384U, 65537U}) {
    const std::vector<float> rest = values(whole.size() - first, {.deviation = 1}, static_cast<std::int64_t>(first));
    EXPECT_EQ(rest, std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end())) << first;
  }
}

// They begin published runs, and must be the same with every compiler and on every processor.
TEST(RandomValues, are_these) {
  std::vector<float> first(8);
  fill_random(first, {.deviation = 1}, random_stream("layers.0.ffn.w1.weight", 0));
  EXPECT_EQ(first, (std::vector<float>{-0.115674451F, 0.420499504F, 0.540944934F, 1.62716186F, -1.61987233F,
                                       0.662855566F, -0.631424069F, 1.81868243F}));
}

}  // namespace
}  // namespace ridgepoint
