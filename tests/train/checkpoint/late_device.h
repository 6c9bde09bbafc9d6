// The processor as a device that copies as a GPU does: to the host in a queue of its own, which waits until it may
// begin.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include "ridgepoint/runtime/program.h"
#include "support/graphs/forwarding_device.h"

namespace ridgepoint::testing {

class LateDevice : public ForwardingDevice {
 public:
  LateDevice() : ForwardingDevice(open_device("cpu")) {}

  std::string_view kind() const override { return "late"; }
  void copy_to_host(void* to, const void* from, std::size_t n) override {
    waited_bytes += n;
    inner_->copy_to_host(to, from, n);
  }
  std::unique_ptr<DeviceCopies> make_copies() override { return std::make_unique<Copies>(*this); }

  // Copies of the queue wait until then.
  void let_copies_begin() {
    const std::lock_guard lock(mutex_);
    may_begin_ = true;
    changed_.notify_all();
  }

  std::size_t waited_bytes = 0;  // that were copied to the host while the caller waited

 private:
  struct Copies : DeviceCopies {
    explicit Copies(LateDevice& of) : device(of) {}
    void copy_on_device(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
    void copy_to_host(void* host, const void* from, std::size_t bytes) override {
      std::unique_lock lock(device.mutex_);
      device.changed_.wait(lock, [&] { return device.may_begin_; });
      std::memcpy(host, from, bytes);
    }
    LateDevice& device;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  bool may_begin_ = false;
};

}  // namespace ridgepoint::testing
