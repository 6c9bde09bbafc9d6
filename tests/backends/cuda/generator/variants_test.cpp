// Compares every variant of generated kernels with the reference back end, at sizes for which the generator chooses it.
#include <gtest/gtest.h>

#include "backends/cuda/generator/cases.h"
#include "backends/cuda/generator/emulated_device.h"
#include "support/graphs/agreement.h"

namespace ridgepoint {
namespace {

constexpr double kVariantTolerance = 5e-6;

void expect_agreement(int multiprocessors, bool scalar) {
  const std::vector<testing::OpCase> cases = testing::generator_cases();
  testing::Emulator emulator(multiprocessors, scalar);
  const auto run = [&](const testing::OpCase& op_case) {
    return testing::disagreements(op_case, std::make_shared<testing::EmulatedDevice>(emulator), 7, kVariantTolerance);
  };
  for (const testing::OpCase& op_case : cases) run(op_case);
  ASSERT_GT(emulator.source_count(), 80U);
  emulator.build();
  for (const testing::OpCase& op_case : cases) {
    for (const testing::Disagreement& found : run(op_case)) {
      ADD_FAILURE() << op_case.name << ": " << found.output << " differs by " << found.relative_error;
    }
  }
}

using GeneratedVariants = testing::Emulated;

TEST_F(GeneratedVariants, agree_with_the_reference_on_a_large_card) { expect_agreement(132, false); }
TEST_F(GeneratedVariants, agree_with_the_reference_on_a_small_card) { expect_agreement(2, false); }
TEST_F(GeneratedVariants, agree_with_the_reference_element_by_element) { expect_agreement(4, true); }

}  // namespace
}  // namespace ridgepoint
