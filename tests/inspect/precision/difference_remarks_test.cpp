// What is said of a tensor that differs, and of one for which it would be false.
#include "inspect/precision/difference_remarks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ridgepoint {
namespace {

constexpr Tolerance kTolerance = {};

HostTensor numbers() {
  HostTensor tensor(TensorType{DType::fp32, {2, 8, 4}});
  float at = 0;
  for (float& x : tensor.as<float>()) x = std::sin(at += 1.3F);
  return tensor;
}

std::string remark(const HostTensor& theirs, const tables::NamedSizes& sizes = {{"the head size", 64}}) {
  const HostTensor ours = numbers();
  const TensorDifference difference = compare_tensors(ours, theirs, kTolerance);
  EXPECT_GT(difference.tolerance_ratio, 1);
  return tables::remark_on({"o", ours.type.shape, difference, kTolerance}, ours, theirs, sizes);
}

HostTensor times(float factor) {
  HostTensor tensor = numbers();
  for (float& x : tensor.as<float>()) x *= factor;
  return tensor;
}

TEST(DifferenceRemarks, name_a_constant_factor_and_the_size_that_it_comes_from) {
  EXPECT_EQ(remark(times(8)),
            "8 times what it should be (sqrt(64), and 64 is the head size); divided by that, it agrees");
  EXPECT_EQ(remark(times(3)), "3 times what it should be; divided by that, it agrees");
  EXPECT_EQ(remark(times(-1)), "-1 times what it should be; divided by that, it agrees");
  HostTensor almost = times(8);
  almost.as<float>()[5] = 1;
  EXPECT_EQ(remark(almost), "") << "one element has another factor, and all differ";
}

TEST(DifferenceRemarks, name_the_place_of_all_that_differs) {
  HostTensor one = numbers();
  one.as<float>()[1 * 32 + 5 * 4 + 2] += 1;
  EXPECT_EQ(remark(one), "1 of 64 elements is beyond tolerance, at [1, 5, 2]");
  HostTensor tile = numbers();
  for (std::size_t batch : {0U, 1U})
    for (std::size_t i = 24; i < 32; ++i) tile.as<float>()[batch * 32 + i] = 0;
  EXPECT_EQ(remark(tile), "16 of 64 elements are beyond tolerance, all in [:, 6:8, :]; they are 0 in the file");
  HostTensor ends = numbers();
  ends.as<float>().front() += 1;
  ends.as<float>().back() += 1;
  EXPECT_EQ(remark(ends), "") << "nothing less than the whole tensor has both";
}

TEST(DifferenceRemarks, count_what_is_no_number) {
  HostTensor none = numbers();
  none.as<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  none.as<float>()[9] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(remark(none), "2 of 64 elements are NaN or infinite in the file, the first at [0,1,3]");
}

TEST(DifferenceRemarks, say_how_another_shape_becomes_the_right_one) {
  EXPECT_EQ(tables::remark_on_shape({2, 4, 8, 16}, {2, 8, 4, 16}),
            "; its axes stand in another order: transpose it to [2,4,8,16]");
  EXPECT_EQ(tables::remark_on_shape({2, 4, 8}, {2, 4, 8, 1}), "; reshape it to [2,4,8]");
  EXPECT_EQ(tables::remark_on_shape({2, 4, 8}, {2, 4, 9}), "");
  EXPECT_EQ(tables::remark_on_shape({2, 4, 8}, {2, 4, 8}), "") << "its type is another";
}

}  // namespace
}  // namespace ridgepoint
