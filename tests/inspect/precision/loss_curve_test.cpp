// Training on a text in several precisions.
#include "inspect/precision/loss_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/transformer.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

using ::testing::SizeIs;

TEST(LossCurves, that_are_stopped_keep_those_that_are_finished) {
  const Transformer model({"custom", 256, 8, 16, 24, 1, 2}, 1);
  const LossCurveOptions options{.precisions = {Precision::fp32, Precision::bf16, Precision::fp16}, .steps = 3};
  const std::vector<LossCurve> curves = measure_loss_curves(
      model, std::string(100, 'x'), options, open_device("cpu"),
      [](Precision precision, std::int64_t step) { return precision != Precision::bf16 || step < 1; });
  ASSERT_THAT(curves, SizeIs(1));
  EXPECT_EQ(curves[0].precision, Precision::fp32);
  EXPECT_THAT(curves[0].losses, SizeIs(3));
}

}  // namespace
}  // namespace ridgepoint
