#include "run/machine/nvml.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

using ::testing::Optional;

constexpr const char* kGpu = "00000000:19:00.0";

TEST(Nvml, reads_the_state_of_a_gpu) {
  const Nvml nvml(built_for_tests("libfake_nvml.so"));
  const GpuReading reading = nvml.read(nvml.find(kGpu));
  EXPECT_THAT(reading.sm_clock_mhz, Optional(1980));
  EXPECT_THAT(reading.memory_clock_mhz, Optional(2619));
  EXPECT_THAT(reading.power_watts, Optional(350.5));
  EXPECT_THAT(reading.temperature_celsius, Optional(45));
  EXPECT_THAT(reading.energy_joules, Optional(1000.0));
  EXPECT_THAT(reading.throttle_reasons, Optional(ElementsAre("gpu_idle")));
  EXPECT_THAT(nvml.read(nvml.find(kGpu)).throttle_reasons, Optional(ElementsAre("gpu_idle", "hw_thermal_slowdown")));
}

TEST(Nvml, leaves_empty_what_the_library_does_not_have) {
  const Nvml nvml(built_for_tests("libfake_old_nvml.so"));
  const GpuReading reading = nvml.read(nvml.find(kGpu));
  EXPECT_TRUE(reading.sm_clock_mhz);
  EXPECT_FALSE(reading.power_watts);
  EXPECT_FALSE(reading.energy_joules);
  EXPECT_FALSE(reading.throttle_reasons);
}

TEST(Nvml, reads_nothing_of_a_gpu_that_it_does_not_know) {
  const Nvml nvml(built_for_tests("libfake_nvml.so"));
  EXPECT_EQ(nvml.find("00000000:20:00.0"), nullptr);
  EXPECT_FALSE(nvml.read(nullptr).sm_clock_mhz);
}

TEST(Nvml, may_be_missing) {
  const Nvml nvml("libno-such-nvml.so.1");
  EXPECT_EQ(nvml.find(kGpu), nullptr);
  EXPECT_FALSE(nvml.read(nvml.find(kGpu)).throttle_reasons);
}

}  // namespace
}  // namespace ridgepoint
