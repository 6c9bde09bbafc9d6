// What an emulated block refuses, and what it gives where a kernel is wrong (block.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cuda/host/block.h"

extern emulated::Index threadIdx, blockIdx;

namespace {

using emulated::Launch;
using emulated::Order;
using ::testing::ExitedWithCode;

Launch threads(unsigned count, unsigned shared_bytes = 0) { return {{1, 1, 1}, {count, 1, 1}, shared_bytes}; }

void run(unsigned count, unsigned shared_bytes, const std::function<void()>& body) {
  emulated::run(threads(count, shared_bytes), Order::in_step, body);
}

TEST(EmulatedBlock, runs_each_thread_of_each_block_once) {
  std::vector<int> seen(2 * 3 * 64);
  emulated::run({{2, 3, 1}, {32, 2, 1}, 0}, Order::one_after_another,
                [&] { ++seen[((blockIdx.y * 2 + blockIdx.x) * 2 + threadIdx.y) * 32 + threadIdx.x]; });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 2 * 3 * 64);
}

// Each thread stores a number and reads that of a thread of another warp.
std::vector<float> read_from_others(Order order, bool meets) {
  std::vector<float> found(64);
  emulated::run(threads(64, 64 * sizeof(float)), order, [&] {
    auto* const numbers = reinterpret_cast<float*>(emulated::shared());
    numbers[threadIdx.x] = static_cast<float>(threadIdx.x);
    if (meets) emulated::meet(0, 0);
    found[threadIdx.x] = numbers[63 - threadIdx.x];
  });
  return found;
}

TEST(EmulatedBlock, gives_other_results_in_each_order_where_a_barrier_is_missing) {
  EXPECT_EQ(read_from_others(Order::in_step, true), read_from_others(Order::one_after_another, true));
  const std::vector<float> in_step = read_from_others(Order::in_step, false);
  const std::vector<float> one_after_another = read_from_others(Order::one_after_another, false);
  EXPECT_TRUE(std::isnan(in_step[0])) << "nobody had stored the number yet";
  EXPECT_TRUE(std::isnan(one_after_another[63]));
  EXPECT_EQ(in_step[63], 0);
}

TEST(EmulatedBlock, has_nan_until_a_thread_waits_for_its_copy) {
  alignas(16) float from[4] = {1, 2, 3, 4};
  run(1, 32, [&] {
    auto* const to = reinterpret_cast<float*>(emulated::shared());
    std::fill_n(to, 8, 7.0F);
    emulated::copy_in(0, from, false);
    emulated::end_copies();
    emulated::copy_in(16, from, true);
    emulated::end_copies();
    EXPECT_TRUE(std::isnan(to[3]));
    emulated::wait_for_copies(1);
    EXPECT_EQ(to[3], 4);
    EXPECT_TRUE(std::isnan(to[4]));
    emulated::wait_for_copies(0);
    EXPECT_EQ(to[4], 0);
  });
}

TEST(EmulatedBlock, refuses_accesses_beyond_its_shared_memory) {
  EXPECT_EXIT(run(1, 64, [] { emulated::shared()[64] = 0; }), ExitedWithCode(1), "a write beyond");
  EXPECT_EXIT(run(1, 64, [] { emulated::at_shared_address(64, 16); }), ExitedWithCode(1), "an access beyond");
  EXPECT_EXIT(run(1, 64, [] { emulated::at_shared_address(0xfffffff0, 16); }), ExitedWithCode(1), "an access beyond");
  EXPECT_EXIT(run(1, 64, [] { emulated::at_shared_address(8, 16); }), ExitedWithCode(1), "multiple of its size");
}

TEST(EmulatedBlock, refuses_to_wait_for_what_never_comes) {
  EXPECT_EXIT(run(2, 0,
                  [] {
                    if (threadIdx.x == 0) emulated::meet(1, 2);
                  }),
              ExitedWithCode(1), "threads that have ended");
  EXPECT_EXIT(run(32, 0,
                  [] {
                    if (threadIdx.x % 2 == 0) {
                      emulated::exchange(~0U, 0, [](auto) {});
                    } else {
                      emulated::exchange(~0U, 1, [](auto) {});
                    }
                  }),
              ExitedWithCode(1), "different operations");
}

}  // namespace
