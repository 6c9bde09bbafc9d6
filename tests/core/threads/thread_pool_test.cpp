#include "core/threads/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <ctime>
#include <thread>

#include "core/threads/parallel.h"

namespace ridgepoint {
namespace {

class ThreadPoolTest : public ::testing::Test {
 protected:
  ~ThreadPoolTest() override { set_thread_count(before_); }
  int before_ = thread_count();
};

// Waits up to 20 s for the condition. Returns whether it became true.
template <typename Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

double processor_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

TEST_F(ThreadPoolTest, other_threads_run_the_ranges_of_a_blocked_thread) {
  set_thread_count(2);
  for (const int held_up : {0, 1, 2, 3}) {
    std::atomic<int> done{0};
    std::atomic<bool> came{true};
    parallel_for_workers(4, 4, [&](int worker, std::int64_t, std::int64_t) {
      if (worker == held_up) came = comes_true([&] { return done == 3; });
      ++done;
    });
    EXPECT_TRUE(came) << "the other three ranges waited for range " << held_up;
  }
}

TEST_F(ThreadPoolTest, runs_each_range_once_over_many_loops) {
  for (const int threads : {2, 3, 7}) {
    set_thread_count(threads);
    std::atomic<std::int64_t> sum{0};
    for (int loop = 0; loop < 3000; ++loop) {
      parallel_for_workers(threads, threads, [&](int worker, std::int64_t, std::int64_t) { sum += worker + 1; });
    }
    EXPECT_EQ(sum, std::int64_t{3000} * threads * (threads + 1) / 2);
  }
}

TEST_F(ThreadPoolTest, follows_a_thread_count_that_changes_between_loops) {
  std::int64_t expected = 0;
  std::atomic<std::int64_t> sum{0};
  for (const int threads : {4, 1, 2, 5, 2}) {
    set_thread_count(threads);
    // Five workers, whatever the thread count.
    parallel_for_workers(100, 5, [&](int, std::int64_t begin, std::int64_t end) { sum += end - begin; });
    expected += 100;
    EXPECT_EQ(sum, expected) << threads << " threads";
  }
}

// Measures the processor time of this process, so that other processes do not matter.
TEST_F(ThreadPoolTest, its_threads_sleep_when_there_is_no_loop) {
  set_thread_count(3);
  parallel_for_workers(3, 3, [](int, std::int64_t, std::int64_t) {});
  const double begin = processor_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(processor_ms() - begin, 20.0);
}

TEST_F(ThreadPoolTest, the_caller_sleeps_while_a_thread_has_the_last_range) {
  set_thread_count(2);
  double spent = 0.0;
  std::atomic<bool> elsewhere{false};
  parallel_for_workers(2, 2, [&](int worker, std::int64_t, std::int64_t) {
    if (worker == 0) {
      comes_true([&] { return elsewhere.load(); });  // until the other thread runs the other range
      return;
    }
    elsewhere = true;
    const double begin = processor_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    spent = processor_ms() - begin;
  });
  EXPECT_LT(spent, 20.0);
}

TEST_F(ThreadPoolTest, its_threads_take_no_signals) {
  set_thread_count(2);
  sigset_t blocked;
  sigemptyset(&blocked);
  const pthread_t caller = pthread_self();
  std::atomic<bool> elsewhere{false};
  parallel_for_workers(2, 2, [&](int, std::int64_t, std::int64_t) {
    if (pthread_equal(pthread_self(), caller) != 0) {
      comes_true([&] { return elsewhere.load(); });
    } else {
      pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      elsewhere = true;
    }
  });
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
}

}  // namespace
}  // namespace ridgepoint
