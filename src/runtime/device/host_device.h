// Devices whose memory is the host's, and whose kernels end before launch() returns: their transfers, and activity and
// times by the host's clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/device/activity.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// The kernel of a copy_from_host or copy_to_host. It ends before launch() returns.
std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec);

// The bytes that a transfer copies from each of its operands to the result of the same number.
std::vector<std::size_t> bytes_of_copies(const KernelSpec& transfer);

// The current time, in the unit and clock of Activity.
std::int64_t steady_now_ns();

class HostActivityRecorder final : public ActivityRecorder {
 public:
  void start(std::size_t launches) override;
  ActivityLog stop() override;

  void run_begins() override { ++run_; }
  void before_launch(std::uint32_t) override { begin_ns_ = steady_now_ns(); }
  void after_launch(std::uint32_t launch) override {
    const std::int64_t end_ns = steady_now_ns();
    spans_.push_back({begin_ns_, end_ns, launch, run_});
  }

 private:
  struct Span {
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::uint32_t launch;
    std::uint32_t run;
  };
  std::vector<Span> spans_;
  std::int64_t begin_ns_ = 0;
  std::uint32_t run_ = kNoRun;  // the first run_begins() makes it 0
};

class WallClockTimer : public DeviceTimer {
 public:
  explicit WallClockTimer(std::size_t points) : times_(points) {}
  void mark(std::size_t point) override { times_[point] = std::chrono::steady_clock::now(); }
  double elapsed_ms(std::size_t from, std::size_t to) override {
    return std::chrono::duration<double, std::milli>(times_[to] - times_[from]).count();
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> times_;
};

// The parts of a device whose memory is the host's, and whose kernels end before launch() returns.
class HostDevice : public Device {
 public:
  void copy_to_device(void* device_address, const void* host, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device_address, std::size_t bytes) override;
  void fill_zero(void* device_address, std::size_t bytes) override;
  void synchronize() override {}
  std::shared_ptr<Communicator> make_communicator(const std::shared_ptr<ProcessGroup>& group) override;
  std::unique_ptr<DeviceTimer> make_timer(std::size_t points) override;
};

}  // namespace ridgepoint
