#include "core/threads/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

// Restores the thread count.
class Parallel : public ::testing::Test {
 protected:
  ~Parallel() override { set_thread_count(before_); }
  int before_ = thread_count();
};

TEST_F(Parallel, visits_every_index_once) {
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    for (const std::int64_t count : {0, 1, 3, 100, 1001}) {
      std::vector<int> visits(static_cast<std::size_t>(count));
      parallel_for(count, 10, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0), count);
      EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
    }
  }
}

TEST_F(Parallel, gives_each_worker_its_own_range_in_order) {
  set_thread_count(3);
  std::vector<IndexRange> ranges(3);
  parallel_for_workers(10, 3, [&](int worker, std::int64_t begin, std::int64_t end) {
    ranges[static_cast<std::size_t>(worker)] = {begin, end};
  });
  EXPECT_EQ(ranges[0].begin, 0);
  EXPECT_EQ(ranges[0].end, 4);
  EXPECT_EQ(ranges[1].end, 7);
  EXPECT_EQ(ranges[2].end, 10);
}

TEST_F(Parallel, does_not_split_less_than_a_grain) {
  set_thread_count(8);
  EXPECT_EQ(worker_count(99, 100), 1);
  EXPECT_EQ(worker_count(250, 100), 2);
  EXPECT_EQ(worker_count(1'000'000, 100), 8);
}

TEST_F(Parallel, rethrows_what_a_body_throws_and_stays_usable) {
  set_thread_count(2);
  const auto fail = [] {
    parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
      if (begin > 0) throw Error("late");
    });
  };
  EXPECT_THROW(fail(), Error);
  std::atomic<std::int64_t> sum{0};
  parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 100);
}

TEST_F(Parallel, runs_a_loop_within_a_loop) {
  set_thread_count(2);
  std::atomic<std::int64_t> sum{0};
  parallel_for(4, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(10, 1, [&](std::int64_t b, std::int64_t e) { sum += e - b; });
    }
  });
  EXPECT_EQ(sum, 40);
}

TEST_F(Parallel, takes_callers_from_several_threads) {
  set_thread_count(2);
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int n = 0; n < 50; ++n)
        parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 3 * 50 * 8);
}

TEST_F(Parallel, refuses_a_thread_count_that_cannot_be_and_takes_zero_for_every_core) {
  EXPECT_THROW(set_thread_count(-1), Error);
  EXPECT_THROW(set_thread_count(1025), Error);
  EXPECT_EQ(thread_count(), before_);
  set_thread_count(0);
  EXPECT_GE(thread_count(), 1);
}

}  // namespace
}  // namespace ridgepoint
