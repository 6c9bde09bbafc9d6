// Sets for blocks: compared with every assignment.
#include "predict/schedule/assign_sets.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace ridgepoint {
namespace {

constexpr std::size_t kBlocks = 5;
constexpr std::size_t kOptions = 3;

AssignmentProblem random_problem(std::mt19937& random) {
  const auto bytes = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random); };
  AssignmentProblem problem;
  for (std::size_t option = 0; option < kOptions; ++option) {
    BlockMemory memory;
    std::vector<double> ms;
    for (std::size_t block = 0; block < kBlocks; ++block) {
      memory.kept_bytes.push_back(bytes(100));
      memory.saved_bytes.push_back(memory.kept_bytes.back() + 15);
      memory.running_bytes.push_back(memory.saved_bytes.back() + bytes(150));
      ms.push_back(static_cast<double>(bytes(30)));
    }
    for (std::size_t i = 0; i <= kBlocks; ++i) memory.outside_bytes.push_back(bytes(100));
    problem.memory.push_back(memory);
    problem.ms.push_back(ms);
  }
  return problem;
}

// By trying all.
std::optional<double> least_ms(const AssignmentProblem& problem, std::size_t memory_bytes) {
  std::optional<double> least;
  std::vector<std::uint8_t> options(kBlocks);
  for (std::size_t number = 0; number < 3 * 3 * 3 * 3 * 3; ++number) {
    double ms = 0;
    std::size_t rest = number;
    for (std::size_t block = 0; block < kBlocks; ++block, rest /= kOptions) {
      options[block] = static_cast<std::uint8_t>(rest % kOptions);
      ms += problem.ms[options[block]][block];
    }
    if (live_bytes(problem.memory, options) <= memory_bytes && (!least || ms < *least)) least = ms;
  }
  return least;
}

TEST(AssignSets, is_as_fast_as_the_best_of_all_assignments_within_the_memory) {
  std::mt19937 random(7);
  int empty = 0;
  for (int i = 0; i < 60; ++i) {
    const AssignmentProblem problem = random_problem(random);
    for (std::size_t memory_bytes = 100; memory_bytes <= 700; memory_bytes += 75) {
      const std::optional<BlockAssignment> found = assign_sets(problem, memory_bytes);
      const std::optional<double> least = least_ms(problem, memory_bytes);
      ASSERT_EQ(found.has_value(), least.has_value()) << memory_bytes;
      empty += found ? 0 : 1;
      if (!found) continue;
      EXPECT_EQ(found->ms, *least) << memory_bytes;
      EXPECT_LE(live_bytes(problem.memory, found->options), memory_bytes);
    }
  }
  EXPECT_GT(empty, 0) << "some memories hold nothing";
}

// Many blocks whose options all differ have more partial assignments than are kept.
TEST(AssignSets, is_a_lower_bound_where_saved_bytes_are_rounded) {
  constexpr std::size_t kMany = 24;
  AssignmentProblem problem;
  std::mt19937 random(11);
  for (std::size_t option = 0; option < 4; ++option) {
    BlockMemory memory;
    std::vector<double> ms;
    for (std::size_t block = 0; block < kMany; ++block) {
      memory.saved_bytes.push_back(1'000'000 / (1 + option) +
                                   std::uniform_int_distribution<std::size_t>(0, 9999)(random));
      ms.push_back(static_cast<double>(option) + std::uniform_real_distribution<double>(0, 0.9)(random));
    }
    memory.kept_bytes = memory.running_bytes = memory.saved_bytes;
    memory.outside_bytes.assign(kMany + 1, 0);
    problem.memory.push_back(memory);
    problem.ms.push_back(ms);
  }
  const std::optional<BlockAssignment> found = assign_sets(problem, 12'000'000);
  ASSERT_TRUE(found);
  EXPECT_LE(live_bytes(problem.memory, found->options), 12'000'000 * 1.02);
  EXPECT_EQ(assign_sets(problem, 12'000'000)->options, found->options) << "nothing else decides";
  // Greedy choices within the memory are never faster.
  for (std::size_t first = 0; first <= kMany; ++first) {
    std::vector<std::uint8_t> options(kMany, 1);
    double ms = 0;
    for (std::size_t block = 0; block < kMany; ++block) {
      if (block < first) options[block] = 2;
      ms += problem.ms[options[block]][block];
    }
    if (live_bytes(problem.memory, options) > 12'000'000) continue;
    EXPECT_LE(found->ms, ms);
  }
}

TEST(AssignSets, of_equal_options_one_is_left) {
  BlockMemory memory{.saved_bytes = {1}, .kept_bytes = {1}, .running_bytes = {1}, .outside_bytes = {0, 0}};
  AssignmentProblem problem{{memory, memory, memory}, {{1}, {1}, {2}}};
  EXPECT_FALSE(is_dominated(problem, 0, 0));
  EXPECT_TRUE(is_dominated(problem, 1, 0));
  EXPECT_TRUE(is_dominated(problem, 2, 0));
  problem.memory[2].running_bytes[0] = 0;
  EXPECT_FALSE(is_dominated(problem, 2, 0)) << "slower, but with less memory";
}

}  // namespace
}  // namespace ridgepoint
