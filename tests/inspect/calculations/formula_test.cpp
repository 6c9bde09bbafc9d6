#include "inspect/calculations/formula.h"

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const Symbols kSymbols = {{"N", 8}, {"G", 6.865152e9}, {"W", 3.51e11}, {"R_L", 2}, {"k", 3}};

TEST(Formula, multiplies_factors_that_follow_one_another) {
  EXPECT_DOUBLE_EQ(value_of("2 (N-1)/N G", kSymbols), 2 * 7.0 / 8 * 6.865152e9);
  EXPECT_DOUBLE_EQ(value_of("N/R_L k", kSymbols), 12) << "from left to right";
  EXPECT_DOUBLE_EQ(value_of("N/(R_L k)", kSymbols), 8.0 / 6);
  EXPECT_DOUBLE_EQ(value_of("k R_L^2 + 1", kSymbols), 13);
  EXPECT_DOUBLE_EQ(value_of("N - k - R_L", kSymbols), 3);
}

TEST(Formula, has_functions) {
  EXPECT_DOUBLE_EQ(value_of("max(0, k - N) + max(k, N)", kSymbols), 8);
  EXPECT_DOUBLE_EQ(value_of("ceil(N/k) log2(N) sqrt(k + 1)", kSymbols), 18);
}

TEST(Formula, reads_with_figures) {
  EXPECT_EQ(with_figures("2 (N-1)/N G / W", kSymbols), "2 × (8-1)/8 × 6.865e9 / 3.51e11");
  EXPECT_EQ(with_figures("ceil(N/k) k^2", kSymbols), "ceil(8/3) × 3^2");
  EXPECT_EQ(figure(999999), "999999");
  EXPECT_EQ(figure(1.5e-5), "1.5e-5");
  EXPECT_EQ(figure(0.78), "0.78");
}

TEST(Formula, refuses_what_is_none) {
  for (const char* formula : {"", "2 +", "(N", "N)", "max(N)", "1.2.3", "N * k"})
    EXPECT_THROW(value_of(formula, kSymbols), Error) << formula;
  EXPECT_THROW(value_of("N M", kSymbols), Error);
  EXPECT_THROW(with_figures("N M", kSymbols), Error);
}

}  // namespace
}  // namespace ridgepoint
