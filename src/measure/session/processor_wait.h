// How long this process's threads had work and no processor to do it on: what makes a measured time too long on a
// machine that is busy with something else.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace ridgepoint {

// Sums over what lies between start() and stop(), which may be called again and again. Counts the time that the
// scheduler kept threads of this process waiting (another program or a quota), and of the time that the hypervisor gave
// to other virtual machines the part that fell on this process.
class ProcessorWait {
 public:
  void start();
  void stop();
  // How many threads were waiting on the average; empty before the first stop() and where Linux does not count
  // (/proc/self/task/*/schedstat).
  std::optional<double> threads_waiting() const;

 private:
  struct Counts {
    std::chrono::steady_clock::time_point at;
    std::optional<double> waited_seconds;  // by all threads
    double stolen_seconds = 0.0;           // from all processors
    double busy_seconds = 0.0;             // of all processors, whoever used them
    double own_seconds = 0.0;              // processor time of this process
  };
  static Counts read_counts();

  Counts begin_;
  bool counted_ = true;
  double seconds_ = 0.0;
  double waited_seconds_ = 0.0;
};

// From this many waiting threads on a measurement is not to be trusted.
inline constexpr double kManyWaitingThreads = 0.1;

// Warns, once in a process, where more than that waited.
void warn_if_busy(std::optional<double> threads_waiting, std::int64_t threads);

}  // namespace ridgepoint
