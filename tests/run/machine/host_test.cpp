#include "run/machine/host.h"

#include <fstream>
#include <sstream>

#include "core/files/temporary_folder.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(Host, counts_cores_once_and_threads_each) {
  std::istringstream text(
      "processor\t: 0\nphysical id\t: 0\ncore id\t\t: 0\nflags\t\t: fpu sse4_2 avx2 fma avx512f\n\n"
      "processor\t: 1\nphysical id\t: 0\ncore id\t\t: 0\nflags\t\t: fpu sse4_2 avx2 fma avx512f\n\n"
      "processor\t: 2\nphysical id\t: 1\ncore id\t\t: 0\nflags\t\t: fpu sse4_2 avx2 fma avx512f\n");
  const Host host = parse_cpuinfo(text);
  EXPECT_EQ(host.sockets, 2);
  EXPECT_EQ(host.cores, 2);
  EXPECT_EQ(host.threads, 3);
  EXPECT_THAT(host.instruction_sets, ElementsAre("sse4_2", "fma", "avx2", "avx512f"));
}

TEST(Host, of_an_unreadable_text_is_empty) {
  std::istringstream text("no colon here\n:\n");
  const Host host = parse_cpuinfo(text);
  EXPECT_EQ(host.threads, 0);
  EXPECT_TRUE(host.instruction_sets.empty());
}

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
