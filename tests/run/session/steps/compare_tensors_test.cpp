#include "run/session/steps/compare_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

HostTensor tensor(Shape shape, std::initializer_list<float> values) {
  HostTensor result(TensorType{DType::fp32, std::move(shape)});
  std::copy(values.begin(), values.end(), result.as<float>().begin());
  return result;
}

TEST(CompareTensors, updates_are_held_to_their_norm) {
  // Of 1000 updates of 1e-3 one lies elsewhere within the learning rate.
  HostTensor before(TensorType{DType::fp32, {1000}}), theirs = before;
  for (float& x : theirs.as<float>()) x = 1e-3F;
  HostTensor ours = theirs;
  ours.as<float>()[7] = 0.8e-3F;
  const Tolerance tolerance{.relative = 1e-4, .absolute = 1e-5};
  EXPECT_EQ(compare_tensors(ours, theirs, tolerance).beyond, 1);
  const auto held = [&](const HostTensor& updated) {
    return compare_tensors(update_of(updated, before), update_of(theirs, before), update_tolerance(tolerance));
  };
  EXPECT_LE(held(ours).tolerance_ratio, 1);
  EXPECT_EQ(held(ours).beyond, 0);
  for (float& x : ours.as<float>()) x = 1.02e-3F;  // of which no element is beyond 1e-5 + 1e-4
  EXPECT_GT(held(ours).tolerance_ratio, 1);
  ours.as<float>()[7] = std::nanf("");
  EXPECT_FALSE(held(ours).tolerance_ratio <= 1);
}

TEST(CompareTensors, exact_updates_stay_exact) {
  EXPECT_TRUE(update_tolerance({.relative = 0, .absolute = 0}).elementwise);
}

TEST(CompareTensors, measures_the_distance) {
  const TensorDifference d = compare_tensors(tensor({3}, {1, 2, 5}), tensor({3}, {1, 2, 4}), {});
  EXPECT_DOUBLE_EQ(d.max_absolute, 1);
  EXPECT_DOUBLE_EQ(d.max_relative, 0.25);
  EXPECT_DOUBLE_EQ(d.relative_l2, 1 / std::sqrt(21.0));
  EXPECT_EQ(d.worst_element, 2);
  EXPECT_EQ(d.worst_value, 5);
  EXPECT_EQ(d.worst_reference, 4);
  EXPECT_EQ(d.beyond, 1);
}

TEST(CompareTensors, allows_the_absolute_plus_the_relative_tolerance) {
  const HostTensor reference = tensor({2}, {10, 10});
  const Tolerance tolerance{.relative = 0.0625, .absolute = 0.375};
  EXPECT_EQ(compare_tensors(tensor({2}, {11, 9}), reference, tolerance).beyond, 0);
  EXPECT_EQ(compare_tensors(tensor({2}, {11.001F, 9}), reference, tolerance).beyond, 1);
}

TEST(CompareTensors, finds_the_worst_by_its_tolerance_not_by_its_size) {
  const TensorDifference d = compare_tensors(tensor({2}, {1001, 0.5}), tensor({2}, {1000, 0.1F}), {0.01, 0});
  EXPECT_EQ(d.worst_element, 1);
}

TEST(CompareTensors, agrees_on_equal_infinities_and_on_no_nan) {
  EXPECT_EQ(compare_tensors(tensor({1}, {kInfinity}), tensor({1}, {kInfinity}), {}).beyond, 0);
  EXPECT_EQ(compare_tensors(tensor({1}, {-kInfinity}), tensor({1}, {kInfinity}), {}).beyond, 1);
  EXPECT_EQ(compare_tensors(tensor({1}, {1}), tensor({1}, {kInfinity}), {}).beyond, 1);
  const float nan = std::nanf("");
  EXPECT_EQ(compare_tensors(tensor({1}, {nan}), tensor({1}, {1}), {}).beyond, 1);
  EXPECT_EQ(compare_tensors(tensor({1}, {1}), tensor({1}, {nan}), {}).beyond, 1);
  EXPECT_EQ(compare_tensors(tensor({1}, {nan}), tensor({1}, {nan}), {}).max_absolute, double{kInfinity});
}

TEST(CompareTensors, with_no_tolerance_passes_only_equals) {
  EXPECT_EQ(compare_tensors(tensor({2}, {1, 2}), tensor({2}, {1, 2}), {0, 0}).beyond, 0);
  EXPECT_EQ(compare_tensors(tensor({2}, {1, 2}), tensor({2}, {1, 2.000001F}), {0, 0}).beyond, 1);
}

TEST(CompareTensors, sees_a_wrong_factor_below_the_absolute_tolerance) {
  const HostTensor tiny = tensor({2}, {2e-7F, 2e-7F}), reference = tensor({2}, {1e-7F, 1e-7F});
  const TensorDifference d = compare_tensors(tiny, reference, {.relative = 1e-4, .absolute = 1e-5});
  EXPECT_EQ(d.beyond, 0);
  EXPECT_GT(d.tolerance_ratio, 1);
  EXPECT_LE(compare_tensors(tiny, reference, {.relative = 0, .absolute = 1e-5}).tolerance_ratio, 1);
}

TEST(CompareTensors, takes_rounding_for_what_is_mathematically_zero) {
  const HostTensor ours = tensor({3}, {1e-9F, -2e-9F, 1e-9F}), theirs = tensor({3}, {-1e-9F, 1e-10F, 2e-9F});
  const TensorDifference d = compare_tensors(ours, theirs, {});
  EXPECT_GT(d.relative_l2, 1);
  EXPECT_LE(d.tolerance_ratio, 1);
  EXPECT_TRUE(d.is_rounding);
  EXPECT_GT(compare_tensors(ours, theirs, {.relative = 1e-4, .absolute = 1e-7}).tolerance_ratio, 1);
  EXPECT_FALSE(compare_tensors(ours, ours, {}).is_rounding);
}

TEST(CompareTensors, has_infinite_relative_errors_instead_of_none) {
  EXPECT_EQ(compare_tensors(tensor({2}, {1e-3F, 1}), tensor({2}, {0, 1}), {}).max_relative, double{kInfinity});
  const TensorDifference d = compare_tensors(tensor({1}, {1}), tensor({1}, {kInfinity}), {});
  EXPECT_EQ(d.max_relative, double{kInfinity});
  EXPECT_EQ(d.relative_l2, double{kInfinity});
}

TEST(CompareTensors, against_zeros_goes_by_the_elements_alone) {
  EXPECT_LE(compare_tensors(tensor({2}, {1e-6F, 0}), tensor({2}, {0, 0}), {}).tolerance_ratio, 1);
  EXPECT_GT(compare_tensors(tensor({2}, {1e-4F, 0}), tensor({2}, {0, 0}), {}).tolerance_ratio, 1);
}

TEST(CompareTensors, refuses_different_shapes) {
  EXPECT_THROW(compare_tensors(tensor({2}, {1, 2}), tensor({1, 2}, {1, 2}), {}), Error);
}

TEST(CompareTensors, reads_any_dtype) {
  EXPECT_EQ(compare_tensors(convert(tensor({2}, {1, 2}), DType::bf16), tensor({2}, {1, 2}), {}).beyond, 0);
}

TEST(ElementName, counts_row_major) {
  EXPECT_EQ(element_name({2, 3, 4}, 23), "[1,2,3]");
  EXPECT_EQ(element_name({}, 0), "[]");
}

}  // namespace
}  // namespace ridgepoint
