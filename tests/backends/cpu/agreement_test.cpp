// Compares the CPU back end with the reference back end, op by op.
#include "support/graphs/agreement.h"

#include <gtest/gtest.h>

namespace ridgepoint {
namespace {

class CpuAgreement : public ::testing::TestWithParam<testing::OpCase> {};

TEST_P(CpuAgreement, with_the_reference_to_single_precision) {
  for (const int threads : {1, 2}) {
    DeviceOptions options;
    options.threads = threads;
    for (unsigned seed = 1; seed <= 3; ++seed) {
      for (const testing::Disagreement& found :
           testing::disagreements(GetParam(), open_device("cpu", options), seed, 2e-6)) {
        ADD_FAILURE() << found.output << " differs by " << found.relative_error << " with " << threads
                      << " threads, seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all_ops, CpuAgreement, ::testing::ValuesIn(testing::op_cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace ridgepoint
