#include "run/timing/machine_state.h"

#include <algorithm>
#include <vector>

#include "run/machine/processor_clock.h"

namespace ridgepoint {
namespace {

void append(std::optional<std::vector<double>>& values, const std::optional<double>& value) {
  if (!value) return;
  if (!values) values.emplace();
  values->push_back(*value);
}

}  // namespace

MachineState::MachineState(const std::optional<std::string>& pci_bus_id, const Nvml& nvml)
    : nvml_(nvml), runs_on_gpu_(pci_bus_id.has_value()), gpu_(pci_bus_id ? nvml.find(*pci_bus_id) : nullptr) {}

void MachineState::start() {
  read_processor();
  read_gpu();
  wait_.start();
}

void MachineState::between() {
  if (gpu_ != nullptr && std::chrono::steady_clock::now() - last_read_ >= kBetween) read_gpu();
}

void MachineState::stop() {
  wait_.stop();
  read_gpu();
  read_processor();
  timing_.stolen_share = wait_.stolen_share();
}

// While a GPU runs, the processor may rest.
void MachineState::read_processor() {
  if (!runs_on_gpu_) append(timing_.cpu_mhz, fastest_processor_mhz());
}

void MachineState::read_gpu() {
  const GpuReading reading = nvml_.read(gpu_);
  append(timing_.sm_clock_mhz, reading.sm_clock_mhz);
  append(timing_.memory_clock_mhz, reading.memory_clock_mhz);
  append(timing_.power_watts, reading.power_watts);
  append(timing_.temperature_celsius, reading.temperature_celsius);
  if (reading.throttle_reasons) {
    if (!timing_.throttle_reasons) timing_.throttle_reasons.emplace();
    for (const std::string& reason : *reading.throttle_reasons) {
      if (std::ranges::find(*timing_.throttle_reasons, reason) == timing_.throttle_reasons->end())
        timing_.throttle_reasons->push_back(reason);
    }
  }
  last_read_ = std::chrono::steady_clock::now();
}

}  // namespace ridgepoint
