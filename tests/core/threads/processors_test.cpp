#include "core/threads/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <climits>
#include <fstream>
#include <string>
#include <thread>

#include "core/files/temporary_folder.h"

namespace ridgepoint {
namespace {

// Simulated control groups; `membership` is the content of /proc/self/cgroup.
class Processors : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  int granted(const std::string& membership) {
    write("membership", membership);
    return control_group_processors({.membership = folder_.path() / "membership", .root = folder_.path()});
  }
  TemporaryFolder folder_;
};

TEST_F(Processors, uses_the_quota_of_its_group) {
  write("work/cpu.max", "400000 100000\n");
  EXPECT_EQ(granted("0::/work\n"), 4);
}

TEST_F(Processors, rounds_a_quota_down_but_not_to_none) {
  write("work/cpu.max", "250000 100000\n");
  EXPECT_EQ(granted("0::/work\n"), 2);
  write("work/cpu.max", "50000 100000\n");
  EXPECT_EQ(granted("0::/work\n"), 1);
}

TEST_F(Processors, uses_the_smallest_quota_of_a_group_and_its_parents) {
  write("outer/inner/cpu.max", "max 100000\n");
  write("outer/cpu.max", "300000 100000\n");
  write("cpu.max", "800000 100000\n");
  EXPECT_EQ(granted("0::/outer/inner\n"), 3);
}

TEST_F(Processors, reads_the_files_of_version_1) {
  write("cpu/work/cpu.cfs_quota_us", "200000\n");
  write("cpu/work/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(granted("5:memory:/other\n4:cpu,cpuacct:/work\n"), 2);
  write("cpu/work/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(granted("4:cpu,cpuacct:/work\n"), INT_MAX);
}

TEST_F(Processors, no_quota_is_no_limit) {
  EXPECT_EQ(granted("0::/work\n"), INT_MAX);
  EXPECT_EQ(granted(""), INT_MAX);
  write("work/cpu.max", "max 100000\n");
  EXPECT_EQ(granted("0::/work\n"), INT_MAX);
  write("work/cpu.max", "nonsense\n");
  EXPECT_EQ(granted("0::/work\n"), INT_MAX);
}

TEST_F(Processors, counts_those_the_scheduler_may_use) {
  int usable = 0;
  std::thread([&] {  // the affinity mask is per thread
    cpu_set_t all;
    CPU_ZERO(&all);
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
      if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    usable = usable_processors();
  })
      .join();
  EXPECT_EQ(usable, 1);
}

}  // namespace
}  // namespace ridgepoint
