#include "runtime/device/host_device.h"

#include <cstring>

#include "ops/layout.h"
#include "runtime/device/communicator.h"
#include "runtime/device/offload_file.h"

namespace ridgepoint {
namespace {

class HostTransfer : public Kernel {
 public:
  explicit HostTransfer(const KernelSpec& spec)
      : name_(ridgepoint::name(spec.node.op)),
        to_host_(spec.node.op == Op::copy_to_host),
        file_(spec.file),
        bytes_(bytes_of_copies(spec)) {}

  std::string_view name() const override { return name_; }
  void launch(const LaunchArguments& arguments) override {
    for (std::size_t i = 0; i < bytes_.size(); ++i) copy(arguments.outputs[i], arguments.inputs[i], bytes_[i]);
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (file_ == nullptr) {
      std::memcpy(to, from, bytes);
    } else if (to_host_) {
      file_->write(to, {static_cast<const std::byte*>(from), bytes});
    } else {
      file_->read(from, {static_cast<std::byte*>(to), bytes});
    }
  }

  std::string_view name_;
  bool to_host_;
  OffloadFile* file_;
  std::vector<std::size_t> bytes_;
};

}  // namespace

std::int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void HostActivityRecorder::start(std::size_t launches) {
  spans_.clear();
  spans_.reserve(launches);
  run_ = kNoRun;
}

ActivityLog HostActivityRecorder::stop() {
  ActivityLog log;
  log.activities.reserve(spans_.size());
  for (const Span& span : spans_) {
    Activity activity;
    activity.run = span.run;
    activity.launch = span.launch;
    activity.start_ns = activity.call_start_ns = span.begin_ns;
    activity.duration_ns = activity.call_duration_ns = span.end_ns - span.begin_ns;
    log.activities.push_back(std::move(activity));
  }
  spans_.clear();
  return log;
}

std::vector<std::size_t> bytes_of_copies(const KernelSpec& transfer) {
  std::vector<std::size_t> bytes;
  for (const Value result : transfer.node.outputs) bytes.push_back(storage_type(transfer.graph, result).bytes());
  return bytes;
}

std::unique_ptr<Kernel> make_host_transfer(const KernelSpec& spec) { return std::make_unique<HostTransfer>(spec); }

void HostDevice::copy_to_device(void* device_address, const void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(device_address, host, bytes);
}

void HostDevice::copy_to_host(void* host, const void* device_address, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host, device_address, bytes);
}

void HostDevice::fill_zero(void* device_address, std::size_t bytes) {
  if (bytes > 0) std::memset(device_address, 0, bytes);
}

std::shared_ptr<Communicator> HostDevice::make_communicator(const std::shared_ptr<ProcessGroup>& group) {
  return group->make_host_communicator();
}

std::unique_ptr<DeviceTimer> HostDevice::make_timer(std::size_t points) {
  return std::make_unique<WallClockTimer>(points);
}

}  // namespace ridgepoint
