// A device that does everything as another one; tests derive from it what they change.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/device/device.h"

namespace ridgepoint::testing {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}

  std::string_view kind() const override { return inner_->kind(); }
  std::string name() const override { return inner_->name(); }
  std::size_t total_memory_bytes() const override { return inner_->total_memory_bytes(); }
  void* allocate_memory(std::size_t bytes) override { return inner_->allocate_memory(bytes); }
  void release_memory(void* address, std::size_t bytes) override { inner_->release_memory(address, bytes); }
  void copy_to_device(void* to, const void* from, std::size_t n) override { inner_->copy_to_device(to, from, n); }
  void copy_to_host(void* to, const void* from, std::size_t n) override { inner_->copy_to_host(to, from, n); }
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

 protected:
  std::shared_ptr<Device> inner_;
};

}  // namespace ridgepoint::testing
