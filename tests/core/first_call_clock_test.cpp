#include "core/first_call_clock.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace ridgepoint {
namespace {

using namespace std::chrono_literals;

double ms_in(FirstCallStage stage, FirstCallClock& clock) {
  return clock.elapsed_ms()[static_cast<std::size_t>(stage)];
}

TEST(FirstCallClock, counts_an_inner_stage_for_itself_alone) {
  FirstCallClock clock;
  {
    const InStage kernels(FirstCallStage::kernels);
    std::this_thread::sleep_for(2ms);
    {
      const InStage libraries(FirstCallStage::libraries);
      std::this_thread::sleep_for(40ms);
    }
  }
  EXPECT_GE(ms_in(FirstCallStage::libraries, clock), 40);
  EXPECT_GE(ms_in(FirstCallStage::kernels, clock), 2);
  EXPECT_LT(ms_in(FirstCallStage::kernels, clock), ms_in(FirstCallStage::libraries, clock));
}

TEST(FirstCallClock, has_the_whole_time_in_its_stages) {
  const auto begin = std::chrono::steady_clock::now();
  FirstCallClock clock;
  {
    const InStage graph(FirstCallStage::graph);
    std::this_thread::sleep_for(5ms);
  }
  std::this_thread::sleep_for(5ms);
  const auto stages = clock.elapsed_ms();
  const std::chrono::duration<double, std::milli> whole = std::chrono::steady_clock::now() - begin;
  const double sum = std::accumulate(stages.begin(), stages.end(), 0.0);
  EXPECT_GE(sum, 10);
  EXPECT_LE(sum, whole.count());
  EXPECT_GE(ms_in(FirstCallStage::other, clock), 5);
}

TEST(FirstCallClock, does_not_count_stages_of_other_threads) {
  FirstCallClock clock;
  std::thread([] {
    const InStage kernels(FirstCallStage::kernels);
    std::this_thread::sleep_for(1ms);
  }).join();
  EXPECT_EQ(ms_in(FirstCallStage::kernels, clock), 0);
}

}  // namespace
}  // namespace ridgepoint
