#include "run/timing/machine_state.h"

#include <thread>
#include <vector>

#include "run/timing/timing_quality.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"

namespace ridgepoint {
namespace {

using ::testing::Optional;

constexpr const char* kGpu = "00000000:19:00.0";

TEST(MachineState, keeps_the_readings_of_a_gpu_in_their_order) {
  const Nvml nvml(built_for_tests("libfake_nvml.so"));
  MachineState machine(kGpu, nvml);
  machine.start();
  machine.stop(1);
  EXPECT_THAT(machine.timing().sm_clock_mhz, Optional(ElementsAre(1980, 1880)));
  EXPECT_THAT(machine.timing().memory_clock_mhz, Optional(ElementsAre(2619, 2619)));
  EXPECT_THAT(machine.timing().power_watts, Optional(ElementsAre(350.5, 350.5)));
  EXPECT_THAT(machine.timing().temperature_celsius, Optional(ElementsAre(45, 45)));
  EXPECT_THAT(machine.timing().throttle_reasons, Optional(ElementsAre("gpu_idle", "hw_thermal_slowdown")));
  EXPECT_EQ(judge_timing(std::vector<double>(10, 1.0), machine.timing(), {}).verdict, TimingVerdict::throttled);
}

TEST(MachineState, does_not_read_again_at_once) {
  const Nvml nvml(built_for_tests("libfake_nvml.so"));
  MachineState machine(kGpu, nvml);
  machine.start();
  const std::size_t readings = machine.timing().power_watts->size();
  const auto begin = std::chrono::steady_clock::now();
  machine.between();
  if (std::chrono::steady_clock::now() - begin < MachineState::kBetween / 2) {
    EXPECT_EQ(machine.timing().power_watts->size(), readings);
  }
}

TEST(MachineState, knows_nothing_of_a_gpu_without_nvml) {
  const Nvml missing("libno-such-nvml.so.1");
  MachineState machine(kGpu, missing);
  machine.start();
  machine.between();
  machine.stop(1);
  EXPECT_EQ(machine.timing().sm_clock_mhz, std::nullopt);
  EXPECT_EQ(machine.timing().throttle_reasons, std::nullopt);
}

TEST(MachineState, divides_the_energy_of_a_second_or_more_among_the_iterations) {
  const Nvml nvml(built_for_tests("libfake_nvml.so"));
  MachineState machine(kGpu, nvml);
  const auto begin = std::chrono::steady_clock::now();
  machine.start();
  machine.stop(4);
  if (std::chrono::steady_clock::now() - begin < MachineState::kLeastOfEnergy) {
    EXPECT_EQ(machine.timing().joules, std::nullopt);
  }
  machine.start();
  std::this_thread::sleep_for(MachineState::kLeastOfEnergy);
  machine.stop(4);
  EXPECT_THAT(machine.timing().joules, Optional(25.0));
}

TEST(MachineState, reads_no_gpu_for_another_device) {
  const Nvml nvml(built_for_tests("libfake_nvml.so"));
  MachineState machine(std::nullopt, nvml);
  machine.start();
  machine.stop(1);
  EXPECT_EQ(machine.timing().power_watts, std::nullopt);
}

}  // namespace
}  // namespace ridgepoint
