#include "run/machine/processor_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/files/temporary_folder.h"

namespace ridgepoint {
namespace {

TEST(ProcessorClock, is_the_highest_of_all_processors) {
  const TemporaryFolder folder;
  for (const auto& [processor, khz] : {std::pair{"cpu0", 800'000}, {"cpu1", 3'250'000}}) {
    std::filesystem::create_directories(folder / processor / "cpufreq");
    std::ofstream(folder / processor / "cpufreq" / "scaling_cur_freq") << khz << '\n';
  }
  std::filesystem::create_directories(folder / "cpuidle");
  EXPECT_THAT(fastest_processor_mhz(folder.path()), ::testing::Optional(3250));
}

TEST(ProcessorClock, is_unknown_where_the_kernel_does_not_tell) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "cpu0");
  EXPECT_EQ(fastest_processor_mhz(folder.path()), std::nullopt);
  EXPECT_EQ(fastest_processor_mhz(folder / "missing"), std::nullopt);
}

}  // namespace
}  // namespace ridgepoint
