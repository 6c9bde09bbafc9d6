// The families of docs/models.md on a card against golden files, as tests/golden/families_test.cpp does it on the CPU.
#include "support/graphs/golden_families.h"

#include <gtest/gtest.h>

#include "backends/cuda/card.h"

namespace ridgepoint {
namespace {

constexpr double kFamilyTolerance = 1e-5;
constexpr Compile kLevels[] = {Compile::off, Compile::full};

class OnCardGoldenFamilies : public ::testing::TestWithParam<testing::GoldenFamilyCase> {};

TEST_P(OnCardGoldenFamilies, have_the_defined_logits_loss_and_gradients) {
  if (const std::string why = testing::missing_card(); !why.empty()) GTEST_SKIP() << why;
  for (const testing::Disagreement& found : testing::disagreements(GetParam(), make_cuda_device(0), kFamilyTolerance))
    ADD_FAILURE() << found.output << " differs by " << found.relative_error;
}

INSTANTIATE_TEST_SUITE_P(all, OnCardGoldenFamilies, ::testing::ValuesIn(testing::golden_family_cases("cuda", kLevels)),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace ridgepoint
