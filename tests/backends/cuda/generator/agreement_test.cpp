// Compares the generated kernels of every op with the reference back end, without a GPU.
#include <gtest/gtest.h>

#include "backends/cuda/generator/emulated_device.h"
#include "support/graphs/agreement.h"

namespace ridgepoint {
namespace {

constexpr double kTolerance = 5e-6;

// Each case runs twice: first to collect its sources, then for its results.
void expect_agreement(int multiprocessors, bool scalar) {
  testing::Emulator emulator(multiprocessors, scalar);
  for (const testing::OpCase& op_case : testing::op_cases()) {
    testing::disagreements(op_case, std::make_shared<testing::EmulatedDevice>(emulator), 1, kTolerance);
  }
  ASSERT_GT(emulator.source_count(), 100U);
  emulator.build();
  for (const testing::OpCase& op_case : testing::op_cases()) {
    for (const testing::Disagreement& found :
         testing::disagreements(op_case, std::make_shared<testing::EmulatedDevice>(emulator), 1, kTolerance)) {
      ADD_FAILURE() << op_case.name << ": " << found.output << " differs by " << found.relative_error;
    }
  }
}

using GeneratedKernels = testing::Emulated;

TEST_F(GeneratedKernels, agree_with_the_reference_on_every_op) { expect_agreement(132, false); }
TEST_F(GeneratedKernels, agree_with_the_reference_when_the_card_is_small) { expect_agreement(1, false); }
TEST_F(GeneratedKernels, agree_with_the_reference_element_by_element) { expect_agreement(132, true); }

}  // namespace
}  // namespace ridgepoint
