// The state of the machine around timed iterations: load, clocks, power, temperature and throttling.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "ridgepoint/record.h"
#include "run/machine/nvml.h"
#include "run/timing/processor_wait.h"

namespace ridgepoint {

// Reads in start() and stop(), and in between() at most every kBetween. Call none of them within an iteration.
class MachineState {
 public:
  static constexpr std::chrono::milliseconds kBetween{200};

  // `pci_bus_id`: of the GPU that runs; empty for other devices, of which the processor's clock is read. `nvml` must
  // outlive the object.
  explicit MachineState(const std::optional<std::string>& pci_bus_id, const Nvml& nvml = Nvml::of_driver());

  void start();
  void between();
  void stop();

  const ProcessorWait& wait() const { return wait_; }
  // The fields of the machine's state; others are empty.
  const TimingSection& timing() const { return timing_; }

 private:
  void read_gpu();
  void read_processor();

  const Nvml& nvml_;
  bool runs_on_gpu_;
  Nvml::Gpu gpu_;  // null if NVML does not know it
  std::chrono::steady_clock::time_point last_read_;
  ProcessorWait wait_;
  TimingSection timing_;
};

}  // namespace ridgepoint
