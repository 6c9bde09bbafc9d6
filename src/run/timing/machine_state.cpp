#include "run/timing/machine_state.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "core/warning.h"
#include "run/machine/host.h"

namespace ridgepoint {
namespace {

void append(std::optional<std::vector<double>>& values, const std::optional<double>& value) {
  if (!value) return;
  if (!values) values.emplace();
  values->push_back(*value);
}

// The sum over all threads of the second number in schedstat: nanoseconds on a run queue.
std::optional<double> waited_seconds() {
  std::error_code error;
  std::optional<double> total;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    double ran_ns = 0.0;
    double waited_ns = 0.0;
    if (file >> ran_ns >> waited_ns)
      total = total.value_or(0.0) + waited_ns * 1e-9;  // false for a thread that has ended
  }
  return total;
}

// Seconds of all processors since boot: user, nice, system, idle, iowait, irq, softirq, steal.
std::array<double, 8> processor_seconds() {
  std::array<double, 8> seconds{};
  std::ifstream file("/proc/stat");
  std::string label;
  file >> label;
  const auto ticks_per_second = static_cast<double>(std::max(sysconf(_SC_CLK_TCK), 1L));
  for (double& entry : seconds) {
    double ticks = 0.0;
    if (file >> ticks) entry = ticks / ticks_per_second;
  }
  return seconds;
}

double own_processor_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace

MachineState::MachineState(const std::optional<std::string>& pci_bus_id, const Nvml& nvml)
    : nvml_(nvml), runs_on_gpu_(pci_bus_id.has_value()), gpu_(pci_bus_id ? nvml.find(*pci_bus_id) : nullptr) {}

void MachineState::start() {
  read_processor();
  energy_at_start_ = read_gpu();
  started_ = last_read_;
  wait_.start();
}

void MachineState::between() {
  if (gpu_ != nullptr && std::chrono::steady_clock::now() - last_read_ >= kBetween) read_gpu();
}

void MachineState::stop(std::int64_t iterations) {
  wait_.stop();
  const std::optional<double> energy = read_gpu();
  if (energy && energy_at_start_ && iterations > 0 && last_read_ - started_ >= kLeastOfEnergy)
    timing_.joules = (*energy - *energy_at_start_) / static_cast<double>(iterations);
  read_processor();
  timing_.stolen_share = wait_.stolen_share();
}

// While a GPU runs, the processor may rest.
void MachineState::read_processor() {
  if (!runs_on_gpu_) append(timing_.cpu_mhz, fastest_processor_mhz());
}

std::optional<double> MachineState::read_gpu() {
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
  return reading.energy_joules;
}

ProcessorWait::Counts ProcessorWait::read_counts() {
  const auto [user, nice, system, idle, iowait, irq, softirq, steal] = processor_seconds();
  const double busy = user + nice + system + irq + softirq;
  return {.at = std::chrono::steady_clock::now(),
          .waited_seconds = waited_seconds(),
          .stolen_seconds = steal,
          .busy_seconds = busy,
          .all_seconds = busy + idle + iowait + steal,
          .own_seconds = own_processor_seconds()};
}

void ProcessorWait::start() { begin_ = read_counts(); }

void ProcessorWait::stop() {
  const Counts end = read_counts();
  seconds_ += std::chrono::duration<double>(end.at - begin_.at).count();
  stolen_seconds_ += std::max(end.stolen_seconds - begin_.stolen_seconds, 0.0);
  all_seconds_ += std::max(end.all_seconds - begin_.all_seconds, 0.0);
  counted_ = counted_ && begin_.waited_seconds && end.waited_seconds;
  if (!counted_) return;
  // The sum may decrease when a thread ends.
  waited_seconds_ += std::max(*end.waited_seconds - *begin_.waited_seconds, 0.0);
  const double busy = end.busy_seconds - begin_.busy_seconds;
  const double own = end.own_seconds - begin_.own_seconds;
  const double share = busy > 0.0 ? std::clamp(own / busy, 0.0, 1.0) : 0.0;
  waited_seconds_ += share * std::max(end.stolen_seconds - begin_.stolen_seconds, 0.0);
}

std::optional<double> ProcessorWait::threads_waiting() const {
  if (!counted_ || !(seconds_ > 0.0)) return std::nullopt;
  return waited_seconds_ / seconds_;
}

std::optional<double> ProcessorWait::stolen_share() const {
  return all_seconds_ > 0.0 ? std::optional(stolen_seconds_ / all_seconds_) : std::nullopt;
}

void warn_if_busy(std::optional<double> threads_waiting, std::int64_t threads) {
  if (!threads_waiting || *threads_waiting < kManyWaitingThreads) return;
  warn_once(
      "busy machine",
      fmt::format("other programs kept the processor busy: on average {:.1f} of {} thread{} waited for a processor "
                  "during the timing, so the times are too long; stop other programs or use fewer --threads",
                  *threads_waiting, threads, threads == 1 ? "" : "s"));
}

}  // namespace ridgepoint
