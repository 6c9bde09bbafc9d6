// Compares the CUDA back end with the reference back end, op by op.
#include "support/graphs/agreement.h"

#include <gtest/gtest.h>

#include "backends/cuda/card.h"

namespace ridgepoint {
namespace {

constexpr double kTolerance = 5e-6;
constexpr double kFloat8Tolerance = 1e-3;  // tensor cores keep 14 bits of the sums of 8-bit products

class OnCardAgreement : public ::testing::TestWithParam<testing::OpCase> {};

TEST_P(OnCardAgreement, with_the_reference_to_single_precision) {
  if (const std::string why = testing::missing_card(); !why.empty()) GTEST_SKIP() << why;
  const double tolerance = GetParam().op == Op::scaled_matmul ? kFloat8Tolerance : kTolerance;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    for (const testing::Disagreement& found :
         testing::disagreements(GetParam(), testing::open_card(), seed, tolerance)) {
      ADD_FAILURE() << found.output << " differs by " << found.relative_error << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all_ops, OnCardAgreement, ::testing::ValuesIn(testing::op_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ridgepoint
