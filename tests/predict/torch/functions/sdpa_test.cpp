// What backward of scaled_dot_product_attention allocates.
#include <gtest/gtest.h>

#include <algorithm>

#include "predict/torch/functions/functions.h"
#include "predict/torch/recording_allocator.h"

namespace ridgepoint::torch {
namespace {

// FlashAttention makes the gradients of keys and values for each head of the queries, and then sums those of heads that
// share them: two tensors as large as with heads of their own, beside the smaller gradients.
TEST(TorchFlashAttention, has_gradients_of_keys_and_values_for_every_head_of_the_queries) {
  constexpr std::int64_t kBatch = 2, kHeads = 8, kTokens = 128, kWidth = 64;
  constexpr std::int64_t kQueryBytes = 2 * kBatch * kHeads * kTokens * kWidth;
  const auto allocations = [&](std::int64_t key_heads, std::int64_t bytes) {
    RecordingAllocator allocator;
    Kernels kernels(allocator, 0);
    Functions functions(kernels, DType::bf16);
    const Tensor q = functions.parameter({kBatch, kHeads, kTokens, kWidth});
    const Tensor k = functions.parameter({kBatch, key_heads, kTokens, kWidth});
    const Tensor v = functions.parameter({kBatch, key_heads, kTokens, kWidth});
    functions.enter_autocast();
    const Tensor result = functions.scaled_dot_product_attention(q, k, v);
    const Tensor loss = functions.sum(functions.view(result, {kBatch * kHeads * kTokens * kWidth}));
    functions.exit_autocast();
    allocator.reset_peak();
    run_backward(loss, kernels);
    return std::ranges::count(allocator.last_phases(1), bytes);
  };
  EXPECT_GE(allocations(kHeads, kQueryBytes), 3);
  EXPECT_EQ(allocations(2, kQueryBytes), allocations(kHeads, kQueryBytes));
  EXPECT_EQ(allocations(2, kQueryBytes / 4), 2);
}

}  // namespace
}  // namespace ridgepoint::torch
