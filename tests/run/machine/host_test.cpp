#include "run/machine/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

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
  EXPECT_THAT(host.instruction_sets, ::testing::ElementsAre("sse4_2", "fma", "avx2", "avx512f"));
}

TEST(Host, of_an_unreadable_text_is_empty) {
  std::istringstream text("no colon here\n:\n");
  const Host host = parse_cpuinfo(text);
  EXPECT_EQ(host.threads, 0);
  EXPECT_TRUE(host.instruction_sets.empty());
}

}  // namespace
}  // namespace ridgepoint
