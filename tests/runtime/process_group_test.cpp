#include "runtime/device/communicator.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/graphs/rank_threads.h"

namespace ridgepoint {
namespace {

using testing::RankThreads;

TEST(ProcessGroup, gathers_the_texts_of_all_ranks_in_their_order) {
  RankThreads threads(3);
  threads.run([&](std::size_t rank, const auto&) {
    const std::string mine = std::string(rank, 'x') + '\0' + std::to_string(rank);
    const std::vector<std::string> all = threads.process_group(rank)->all_gather(mine, "words");
    ASSERT_EQ(all.size(), 3U);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::string(i, 'x') + '\0' + std::to_string(i));
  });
}

TEST(ProcessGroup, finds_the_problem_of_the_first_rank_that_has_one) {
  RankThreads threads(3);
  threads.run([&](std::size_t rank, const auto&) {
    const std::shared_ptr<ProcessGroup> group = threads.process_group(rank);
    EXPECT_EQ(problem_of_ranks(group.get(), rank == 0 ? "" : std::to_string(rank), "problems"), "1");
    EXPECT_EQ(problem_of_ranks(group.get(), "", "problems"), "");
  });
  EXPECT_EQ(problem_of_ranks(nullptr, "mine", "problems"), "mine");
}

// The texts of one exchange must not be taken for those of another.
TEST(ProcessGroup, loses_ranks_that_exchange_something_else) {
  RankThreads threads(2);
  std::vector<std::string> messages(2);
  threads.run([&](std::size_t rank, const auto&) {
    try {
      threads.process_group(rank)->all_gather("1", rank == 0 ? "times" : "memory");
    } catch (const LostRanks& lost) {
      messages[rank] = lost.message;
    }
  });
  EXPECT_EQ(messages[0], "the ranks have lost each other: rank 0 exchanges times, and rank 1 memory");
  EXPECT_EQ(messages[1], "the ranks have lost each other: rank 1 exchanges memory, and rank 0 times");
}

}  // namespace
}  // namespace ridgepoint
