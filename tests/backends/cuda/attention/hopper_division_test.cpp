// How attention on Hopper divides a problem among multiprocessors.
#include "backends/cuda/attention/wgmma/hopper_division.h"

#include <gtest/gtest.h>

#include <array>

namespace ridgepoint {
namespace {

using cuda::BackwardDivision;
using cuda::HopperBackwardTiling;
using cuda::HopperForwardTiling;
using cuda::HopperProblem;

constexpr int kH200Multiprocessors = 132;  // of an H200
constexpr HopperForwardTiling kDividedForward{.width = 64, .rows = 192, .keys = 128, .divided = true};
constexpr HopperBackwardTiling kDividedBackward{.width = 64, .rows = 128, .divided = true};

HopperProblem problem_of(std::int64_t heads, std::int64_t length, bool causal) {
  return {.matrices = heads, .groups = heads, .queries = length, .keys = length, .causal = causal};
}

TEST(HopperDivision, counts_the_steps_that_a_mask_leaves) {
  EXPECT_EQ(cuda::forward_steps(kDividedForward, problem_of(3, 400, false)), 3 * 4);
  EXPECT_EQ(cuda::forward_steps(kDividedForward, problem_of(3, 400, true)), 2 + 3 + 4);
  EXPECT_EQ(cuda::backward_steps(kDividedBackward, problem_of(3, 400, false)), 4 * 4);
  EXPECT_EQ(cuda::backward_steps(kDividedBackward, problem_of(3, 400, true)), 4 + 3 + 2 + 1);
  constexpr HopperBackwardTiling kNarrowSteps{.width = 128, .rows = 64};
  EXPECT_EQ(cuda::backward_steps(kNarrowSteps, problem_of(1, 400, true)), 7 + 5 + 3 + 1);
}

TEST(HopperDivision, a_set_of_the_forward_fits_the_cache_and_divides_the_heads) {
  constexpr HopperForwardTiling kTiling{.width = 128, .rows = 128, .keys = 128};
  const auto set = [&](std::int64_t heads, std::int64_t length, bool causal) {
    return cuda::matrices_of_set(kTiling, problem_of(heads, length, causal));
  };
  EXPECT_EQ(set(16, 16384, true), 4);  // 8 MiB of keys and values each
  EXPECT_EQ(set(15, 16384, true), 3);
  EXPECT_EQ(set(13, 16384, true), 1);
  EXPECT_EQ(set(16, 1024, true), 16);
  EXPECT_EQ(set(16, 1 << 20, true), 1);
  EXPECT_EQ(set(16, 16384, false), 1);  // tiles are as long as one another
  constexpr HopperForwardTiling kDivided{.width = 128, .rows = 128, .keys = 128, .divided = true};
  EXPECT_EQ(cuda::matrices_of_set(kDivided, problem_of(16, 1024, true)), 1);  // shares are of consecutive tiles
}

TEST(HopperDivision, of_the_forward_is_for_few_or_unequal_tiles) {
  const auto suits = [](std::int64_t heads, std::int64_t length, bool causal) {
    return cuda::suits_division(kDividedForward, problem_of(heads, length, causal), kH200Multiprocessors);
  };
  EXPECT_TRUE(suits(1, 16384, true));
  EXPECT_TRUE(suits(1, 16384, false));   // 86 tiles
  EXPECT_TRUE(suits(8, 4096, false));    // 176 tiles are two waves
  EXPECT_FALSE(suits(16, 4096, false));  // 352 tiles are nearly three
  EXPECT_FALSE(suits(16, 16384, true));
  EXPECT_FALSE(suits(8, 1024, false));  // a combination would cost more than four steps
  EXPECT_FALSE(cuda::suits_division(kDividedForward, problem_of(1, 16384, true), 0));
}

TEST(HopperDivision, of_the_forward_leaves_two_parts_of_each_thread_block) {
  EXPECT_EQ(cuda::sharing_blocks(kDividedForward, problem_of(1, 16384, true), kH200Multiprocessors),
            kH200Multiprocessors);
  EXPECT_EQ(cuda::sharing_blocks(kDividedForward, problem_of(1, 400, true), kH200Multiprocessors), 2 + 3 + 4);
}

TEST(HopperDivision, of_the_backward_gives_each_multiprocessor_as_many_steps) {
  const BackwardDivision small =
      cuda::divide_backward(kDividedBackward, problem_of(8, 1024, false), kH200Multiprocessors);
  EXPECT_EQ(small.chunk, 4);  // 8 heads, 8 blocks of keys and 2 chunks: 128 thread blocks
  EXPECT_EQ(small.slices, 8);
  const BackwardDivision large =
      cuda::divide_backward(kDividedBackward, problem_of(1, 16384, true), kH200Multiprocessors);
  EXPECT_EQ(large.chunk, 64);  // 8,256 steps on 132 multiprocessors are 63 each
  EXPECT_EQ(large.slices, 8);
  const BackwardDivision one = cuda::divide_backward(kDividedBackward, problem_of(1, 20, true), kH200Multiprocessors);
  EXPECT_EQ(one.chunk, 1);
  EXPECT_EQ(one.slices, 1);
}

TEST(HopperDivision, of_the_backward_is_for_heads_whose_blocks_would_wait_for_one_another) {
  const auto suits = [](std::int64_t heads, std::int64_t length, bool causal) {
    return cuda::suits_division(kDividedBackward, problem_of(heads, length, causal), kH200Multiprocessors);
  };
  EXPECT_TRUE(suits(8, 1024, false));
  EXPECT_TRUE(suits(1, 16384, true));
  EXPECT_TRUE(suits(1, 16384, false));
  EXPECT_FALSE(suits(4, 16384, true));
  EXPECT_FALSE(suits(320, 512, true));
  EXPECT_FALSE(cuda::suits_division(kDividedBackward, problem_of(1, 16384, true), 0));
}

TEST(HopperDivision, numbers_as_many_heads_together_as_the_cache_holds) {
  const auto heads = [](std::int64_t all, std::int64_t length, bool causal) {
    return cuda::heads_of_set(kDividedBackward, problem_of(all, length, causal), kH200Multiprocessors);
  };
  EXPECT_EQ(heads(320, 512, true), 160);  // two sets, near one head for each multiprocessor
  EXPECT_EQ(heads(512, 1024, true), 74);  // seven sets of 512 KiB a head
  EXPECT_EQ(heads(512, 1024, false), 74);
  EXPECT_EQ(heads(128, 4096, true), 32);  // at least a quarter of the multiprocessors
  EXPECT_EQ(heads(128, 4096, false), 19);
  EXPECT_EQ(heads(16, 16384, true), 16);
  EXPECT_EQ(heads(1, 64, true), 1);
}

TEST(HopperDivision, long_sequences_of_wide_heads_come_in_smaller_sets) {
  constexpr HopperBackwardTiling kWide{.width = 128, .rows = 64};
  const auto heads = [&](std::int64_t all, std::int64_t length, bool causal) {
    return cuda::heads_of_set(kWide, problem_of(all, length, causal), kH200Multiprocessors);
  };
  EXPECT_EQ(heads(16, 16384, true), 4);  // an eighth of the 256 steps of a block: 32 blocks of keys at a time
  EXPECT_EQ(heads(16, 16384, false), 4);
  EXPECT_EQ(heads(64, 4096, true), 16);
  EXPECT_EQ(heads(64, 4096, false), 16);
  EXPECT_EQ(heads(2, 16384, false), 2);
  EXPECT_EQ(heads(256, 1024, true), 37);  // what the cache holds
}

TEST(HopperDivision, sets_of_heads_of_256_columns_are_smaller_still) {
  constexpr HopperBackwardTiling kWidest{.width = 256, .rows = 64, .keys = 64};
  const auto heads = [&](std::int64_t all, std::int64_t length, bool causal) {
    return cuda::heads_of_set(kWidest, problem_of(all, length, causal), kH200Multiprocessors);
  };
  EXPECT_EQ(heads(32, 4096, true), 8);  // a quarter of the 64 steps of a block: 16 blocks of keys at a time
  EXPECT_EQ(heads(8, 16384, false), 2);
  EXPECT_EQ(heads(32, 4096, false), 8);
}

// Heads that share keys and add their gradients are one.
TEST(HopperDivision, counts_heads_that_add_their_gradients_together) {
  HopperProblem shared = problem_of(512, 1024, true);
  shared.groups = 128;
  EXPECT_EQ(cuda::heads_of_set(kDividedBackward, shared, kH200Multiprocessors), 32);
}

// Groups, each of `heads` heads of q.
HopperProblem sharing_problem(std::int64_t groups, std::int64_t heads, std::int64_t length, bool causal) {
  HopperProblem problem = problem_of(groups * heads, length, causal);
  problem.groups = groups;
  return problem;
}

TEST(HopperDivision, takes_heads_that_share_keys_in_parts_where_one_block_would_take_longer_than_the_others) {
  constexpr HopperBackwardTiling kWide{.width = 128, .rows = 64, .copies_sums = true, .dq_apart = true};
  const auto parts = [&](const HopperProblem& problem) {
    const cuda::SharedHeads shared = cuda::share_heads(kWide, problem, kH200Multiprocessors);
    return std::array{shared.parts, shared.heads_of_part};
  };
  using Parts = std::array<std::int64_t, 2>;
  EXPECT_EQ(parts(sharing_problem(32, 6, 1024, true)), (Parts{1, 6}));  // 96 steps, and 105 for each multiprocessor
  EXPECT_EQ(parts(sharing_problem(16, 7, 1024, true)), (Parts{2, 4}));  // 112 and 61
  EXPECT_EQ(parts(sharing_problem(8, 4, 2048, true)), (Parts{2, 2}));   // 128 and 66
  EXPECT_EQ(parts(sharing_problem(16, 4, 4096, true)), (Parts{1, 4}));  // 256 and 512
  EXPECT_EQ(parts(sharing_problem(8, 4, 2048, false)), (Parts{1, 4}));  // 128 and 124
  EXPECT_EQ(parts(sharing_problem(1, 8, 1024, true)), (Parts{8, 1}));   // 128 and 4
  EXPECT_EQ(parts(sharing_problem(128, 1, 1024, true)), (Parts{1, 1}));
}

// Where dq is finished in the last block of keys, and with a soft cap, registers are too few.
TEST(HopperDivision, takes_heads_in_parts_where_a_kernel_can) {
  constexpr HopperBackwardTiling kShort{.width = 128, .rows = 64, .key_stages = 2, .most_causal_keys = 1024};
  constexpr HopperBackwardTiling kSoftCap{.width = 128, .rows = 64, .scores = cuda::HopperScores::soft_cap};
  const HopperProblem problem = sharing_problem(16, 7, 1024, true);
  EXPECT_EQ(cuda::wanted_parts(kShort, problem, kH200Multiprocessors), 2);
  EXPECT_EQ(cuda::share_heads(kShort, problem, kH200Multiprocessors).parts, 1);
  EXPECT_EQ(cuda::share_heads(kSoftCap, problem, kH200Multiprocessors).parts, 1);
  EXPECT_EQ(cuda::share_heads(kDividedBackward, problem, kH200Multiprocessors).parts, 1);
}

}  // namespace
}  // namespace ridgepoint
