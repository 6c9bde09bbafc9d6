// Addresses of a plan: blocks that lie one behind another.
#include "plan/arena.h"

#include <gtest/gtest.h>

#include <string>

#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

void expect_apart(const Arena& arena) {
  for (std::size_t i = 0; i < arena.lifetimes.size(); ++i) {
    EXPECT_LE(arena.offset_bytes[i] + arena.lifetimes[i].bytes, arena.bytes) << i;
    for (std::size_t j = 0; j < i; ++j) {
      if (arena.lifetimes[i].bytes == 0 || arena.lifetimes[j].bytes == 0) continue;
      if (!arena.lifetimes[i].overlaps(arena.lifetimes[j])) continue;
      EXPECT_TRUE(arena.offset_bytes[i] >= arena.offset_bytes[j] + arena.lifetimes[j].bytes ||
                  arena.offset_bytes[j] >= arena.offset_bytes[i] + arena.lifetimes[i].bytes)
          << i << " and " << j;
    }
  }
}

// Each of these ends before the next two begin, so without the group they would share addresses.
TEST(Arena, has_the_blocks_of_a_group_one_behind_another) {
  const std::vector<Lifetime> lifetimes = {{512, 0, 1}, {1024, 2, 3}, {2048, 4, 5}, {512, 1, 4}, {1536, 0, 5}};
  const Arena arena = place_in_arena(lifetimes, {{2, 0, 1}});
  EXPECT_EQ(arena.offset_bytes[0], arena.offset_bytes[2] + 2048);
  EXPECT_EQ(arena.offset_bytes[1], arena.offset_bytes[0] + 512);
  EXPECT_EQ(arena.bytes, 512U + 1024 + 2048 + 512 + 1536) << "all of a group are kept while one is live";
  EXPECT_EQ(arena.lifetimes[0].last, 1U) << "what is counted as live stays as it is";
  expect_apart(arena);
  EXPECT_LT(place_in_arena(lifetimes).bytes, arena.bytes);
}

TEST(Arena, has_no_address_twice_with_several_groups) {
  std::vector<Lifetime> lifetimes;
  for (std::uint32_t i = 0; i < 40; ++i) lifetimes.push_back({512 * (1 + i * 7 % 11), i, i + 3 + i % 5});
  const Arena arena = place_in_arena(lifetimes, {{1, 3, 5}, {10, 12}, {30, 2, 38, 20}});
  EXPECT_EQ(arena.offset_bytes[3], arena.offset_bytes[1] + lifetimes[1].bytes);
  EXPECT_EQ(arena.offset_bytes[20], arena.offset_bytes[38] + lifetimes[38].bytes);
  expect_apart(arena);
}

TEST(BlocksOfSums, are_those_that_a_sum_over_ranks_reads_by_type) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {4}}, Role::parameter);
  const Value a = exp(graph, x);
  const Value low = cast(graph, x, DType::bf16);
  const Value b = tanh(graph, x);
  const std::vector<Value> sums = all_reduce(graph, {a, low, x, b}, 2);
  for (std::size_t i = 0; i < sums.size(); ++i) graph.add_output("sum" + std::to_string(i), sums[i]);
  const ExecutionPlan plan = make_plan(graph);
  const AdjacentBlocks groups = blocks_of_sums(graph, plan);
  ASSERT_EQ(groups.size(), 1U) << "an input keeps its place, and one tensor of a type has no neighbour";
  EXPECT_EQ(groups[0], (std::vector{plan.values[a.id].buffer, plan.values[b.id].buffer}));
}

}  // namespace
}  // namespace ridgepoint
