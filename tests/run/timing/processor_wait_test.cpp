#include "run/timing/machine_state.h"

#include <pthread.h>
#include <sched.h>

#include <string>
#include <thread>
#include <vector>

#include "core/warning.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// Puts the calling thread on the first processor it may use, and works there.
void work_on_one_processor(std::chrono::milliseconds time) {
  cpu_set_t all;
  CPU_ZERO(&all);
  pthread_getaffinity_np(pthread_self(), sizeof all, &all);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Whatever else runs can only make them wait longer.
TEST(ProcessorWait, counts_threads_that_share_one_processor) {
  ProcessorWait wait;
  EXPECT_FALSE(wait.threads_waiting().has_value());
  constexpr std::chrono::milliseconds kTime{300};
  wait.start();
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; ++i) {
    workers.emplace_back([&] {
      work_on_one_processor(kTime);
      std::this_thread::sleep_for(kTime);  // a thread that has ended is no longer counted
    });
  }
  std::this_thread::sleep_for(kTime + kTime / 2);
  wait.stop();
  for (std::thread& worker : workers) worker.join();
  if (!wait.threads_waiting()) GTEST_SKIP() << "this Linux does not count the time on run queues";
  EXPECT_GT(*wait.threads_waiting(), kManyWaitingThreads);
}

class BusyWarning : public ::testing::Test {
 protected:
  BusyWarning() {
    set_warning_handler([this](std::string_view message) { warnings_.emplace_back(message); });
  }
  ~BusyWarning() override { set_warning_handler({}); }
  std::vector<std::string> warnings_;
};

TEST_F(BusyWarning, is_given_once_where_threads_waited) {
  warn_if_busy(0.8, 2);
  warn_if_busy(0.9, 2);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("0.8 of 2 threads waited for a processor")));
}

TEST_F(BusyWarning, is_not_given_where_none_did_or_nothing_counts) {
  warn_if_busy(0.02, 2);
  warn_if_busy(std::nullopt, 2);
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace ridgepoint
