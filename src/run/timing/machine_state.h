// The state of the machine around timed iterations: load, clocks, power, temperature, throttling, and the time that
// threads of this process wait for a processor, which makes measured times too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "ridgepoint/record/record.h"
#include "run/machine/nvml.h"

namespace ridgepoint {

// Sums two times over any number of intervals between start() and stop(): the time in which the scheduler kept threads
// of this process waiting (another program, a quota), and this process's share of the time that the hypervisor gave to
// other virtual machines.
class ProcessorWait {
 public:
  void start();
  void stop();
  // The average number of waiting threads; empty before the first stop() and without /proc/self/task/*/schedstat.
  std::optional<double> threads_waiting() const;
  // The share of the processors' time, idle time included, that the hypervisor gave to other virtual machines; empty
  // before the first stop() and without /proc/stat.
  std::optional<double> stolen_share() const;

 private:
  struct Counts {
    std::chrono::steady_clock::time_point at;
    std::optional<double> waited_seconds;  // by all threads
    double stolen_seconds = 0.0;           // from all processors
    double busy_seconds = 0.0;             // of all processors, whoever used them
    double all_seconds = 0.0;              // of all processors, idle time included
    double own_seconds = 0.0;              // processor time of this process
  };
  static Counts read_counts();

  Counts begin_;
  bool counted_ = true;
  double seconds_ = 0.0;
  double waited_seconds_ = 0.0;
  double stolen_seconds_ = 0.0;
  double all_seconds_ = 0.0;
};

// With this many waiting threads, a measurement is not valid.
inline constexpr double kManyWaitingThreads = 0.1;

// Warns once in a process if `threads_waiting` is kManyWaitingThreads or more.
void warn_if_busy(std::optional<double> threads_waiting, std::int64_t threads);

// Reads in start() and stop(), and in between() at most every kBetween. Call none of them within an iteration.
class MachineState {
 public:
  static constexpr std::chrono::milliseconds kBetween{200};
  // The energy of a shorter time is not exact, because a GPU updates its counter about ten times a second.
  static constexpr std::chrono::milliseconds kLeastOfEnergy{1000};

  // `pci_bus_id`: of the GPU that runs; empty for other devices, of which the processor's clock is read. `nvml` must
  // outlive the object.
  explicit MachineState(const std::optional<std::string>& pci_bus_id, const Nvml& nvml = Nvml::of_driver());

  void start();
  void between();
  void stop(std::int64_t iterations);

  const ProcessorWait& wait() const { return wait_; }
  // The fields of the machine's state; others are empty.
  const TimingSection& timing() const { return timing_; }

 private:
  // Returns its counter of energy, in joules.
  std::optional<double> read_gpu();
  void read_processor();

  const Nvml& nvml_;
  bool runs_on_gpu_;
  Nvml::Gpu gpu_;  // null if NVML does not know it
  std::chrono::steady_clock::time_point last_read_;
  std::chrono::steady_clock::time_point started_;
  std::optional<double> energy_at_start_;
  ProcessorWait wait_;
  TimingSection timing_;
};

}  // namespace ridgepoint
