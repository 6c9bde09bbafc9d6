#include "core/threads/deadline.h"

#include <gtest/gtest.h>

#include <atomic>

namespace ridgepoint {
namespace {

using std::chrono::milliseconds;

TEST(Deadline, calls_once_where_the_work_is_late) {
  std::atomic<int> calls = 0;
  {
    const Deadline deadline(milliseconds(1), [&] { ++calls; });
    while (calls == 0) std::this_thread::yield();
  }
  EXPECT_EQ(calls, 1);
}

TEST(Deadline, calls_nothing_and_does_not_wait_where_the_work_is_done) {
  std::atomic<int> calls = 0;
  const auto begin = std::chrono::steady_clock::now();
  {
    const Deadline deadline(std::chrono::hours(1), [&] { ++calls; });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace ridgepoint
