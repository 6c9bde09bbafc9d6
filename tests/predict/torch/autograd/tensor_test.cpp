#include "predict/torch/autograd/tensor.h"

#include <gtest/gtest.h>

namespace ridgepoint::torch {
namespace {

Tensor contiguous(const Sizes& sizes) { return {.sizes = sizes, .strides = contiguous_strides(sizes)}; }

TEST(TorchTensor, merges_and_splits_axes_without_a_copy) {
  const Tensor x = contiguous({2, 3, 4});
  EXPECT_EQ(x.viewed_as({6, 4})->strides, (Sizes{4, 1}));
  EXPECT_EQ(x.viewed_as({2, 3, 2, 2})->strides, (Sizes{12, 4, 2, 1}));
  EXPECT_EQ(x.viewed_as({1, 24, 1})->strides, (Sizes{1, 1, 1}));
  EXPECT_EQ(x.transposed(0, 1).viewed_as({3, 2, 2, 2})->strides, (Sizes{4, 12, 2, 1}));
}

TEST(TorchTensor, has_no_view_across_axes_that_are_apart_in_memory) {
  const Tensor x = contiguous({2, 3, 4, 5});
  EXPECT_EQ(x.transposed(1, 2).viewed_as({8, 3, 5}), std::nullopt);
  EXPECT_EQ(x.transposed(1, 2).viewed_as({2, 4, 15}), std::nullopt);
  EXPECT_EQ(x.sliced_in_two().viewed_as({2, 3, 8}), std::nullopt);
  // An axis of size 1 is never apart.
  EXPECT_TRUE(contiguous({1, 3, 4, 5}).transposed(1, 2).viewed_as({4, 3, 5}).has_value());
}

TEST(TorchTensor, tells_apart_contiguous_dense_and_repeated_elements) {
  const Tensor x = contiguous({2, 3, 4});
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_FALSE(x.transposed(0, 2).is_contiguous());
  EXPECT_TRUE(x.transposed(0, 2).fills_a_block());
  EXPECT_FALSE(x.sliced_in_two().fills_a_block());
  EXPECT_FALSE(contiguous({2, 1}).expanded({5, 2, 4}).fills_a_block());
  EXPECT_TRUE(contiguous({}).is_contiguous());
}

}  // namespace
}  // namespace ridgepoint::torch
