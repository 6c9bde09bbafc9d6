// The processor as a device that copies as a GPU does: to the host in a queue of its own, which waits until it may
// begin.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include "ridgepoint/program.h"
#include "runtime/device/device.h"

namespace ridgepoint::testing {

class LateDevice : public Device {
 public:
  std::string_view kind() const override { return "late"; }
  std::string name() const override { return "late device"; }
  std::size_t total_memory_bytes() const override { return inner_->total_memory_bytes(); }
  void* allocate_memory(std::size_t bytes) override { return inner_->allocate_memory(bytes); }
  void release_memory(void* address, std::size_t bytes) override { inner_->release_memory(address, bytes); }
  void copy_to_device(void* to, const void* from, std::size_t n) override { inner_->copy_to_device(to, from, n); }
  void copy_to_host(void* to, const void* from, std::size_t n) override {
    waited_bytes += n;
    inner_->copy_to_host(to, from, n);
  }
  void fill_zero(void* address, std::size_t bytes) override { inner_->fill_zero(address, bytes); }
  void synchronize() override { inner_->synchronize(); }
  bool has_kernel(const Graph& graph, const Node& node) const override { return inner_->has_kernel(graph, node); }
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override {
    return inner_->operand_layout(graph, node, index);
  }
  bool writes_strided(const Graph& graph, const Node& node) const override {
    return inner_->writes_strided(graph, node);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override { return inner_->make_kernel(spec); }
  std::unique_ptr<DeviceTimer> make_timer(std::size_t points) override { return inner_->make_timer(points); }
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
    explicit Copies(LateDevice& device) : device(device) {}
    void copy_on_device(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
    void copy_to_host(void* host, const void* from, std::size_t bytes) override {
      std::unique_lock lock(device.mutex_);
      device.changed_.wait(lock, [&] { return device.may_begin_; });
      std::memcpy(host, from, bytes);
    }
    LateDevice& device;
  };

  std::shared_ptr<Device> inner_ = open_device("cpu");
  std::mutex mutex_;
  std::condition_variable changed_;
  bool may_begin_ = false;
};

}  // namespace ridgepoint::testing
