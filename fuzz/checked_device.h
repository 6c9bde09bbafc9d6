// A device that computes with another one and knows of every byte of its memory which value of the graph it holds. A
// kernel that reads a byte of another value, or one that nothing wrote in this run, is reported: two values share
// memory while both are live, a launch comes too early, or a kernel reads what was never written. Before each launch,
// its results and its workspace are filled with NaN, so that a kernel that leaves out elements shows in the results.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/layout.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"

namespace ridgepoint::testing {

class CheckedDevice final : public Device {
 public:
  explicit CheckedDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Call this before each run: of the run before, only inputs and their new values stay.
  void begin_run(const Graph& graph);
  // What was wrong, a line each.
  const std::vector<std::string>& problems() const { return problems_; }
  // The kernels of collectives with the same checks. It must not outlive this device.
  std::shared_ptr<Communicator> checked(std::shared_ptr<Communicator> communicator);

  std::string_view kind() const override { return device_->kind(); }
  std::string name() const override { return device_->name(); }
  DeviceFacts facts() const override { return device_->facts(); }
  std::size_t total_memory_bytes() const override { return device_->total_memory_bytes(); }
  void* allocate_memory(std::size_t bytes) override;
  void release_memory(void* address, std::size_t bytes) override;
  void copy_to_device(void* device_address, const void* host, std::size_t bytes) override;
  void copy_to_host(void* host, const void* device_address, std::size_t bytes) override {
    device_->copy_to_host(host, device_address, bytes);
  }
  void fill_zero(void* device_address, std::size_t bytes) override;
  void fill_random(void* device_address, DType dtype, std::int64_t count, const TruncatedNormal& distribution,
                   std::uint64_t stream, const StopPoint& stop_point) override;
  void synchronize() override { device_->synchronize(); }
  bool has_kernel(const Graph& graph, const Node& node) const override { return device_->has_kernel(graph, node); }
  OperandLayout operand_layout(const Graph& graph, const Node& node, int index) const override {
    return device_->operand_layout(graph, node, index);
  }
  bool writes_strided(const Graph& graph, const Node& node) const override {
    return device_->writes_strided(graph, node);
  }
  KernelOutline outline(const KernelSpec& spec) override { return device_->outline(spec); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return checked(device_->make_kernel(spec), spec);
  }
  std::unique_ptr<DeviceTimer> make_timer(std::size_t points) override { return device_->make_timer(points); }

  std::unique_ptr<Kernel> checked(std::unique_ptr<Kernel> kernel, const KernelSpec& spec);

 private:
  friend class CheckedKernel;
  // What a byte holds: nothing of this run, an input as it was given, or the value 2 less.
  using Tag = std::uint32_t;
  static constexpr Tag kNothing = 0, kInput = 1;
  static Tag tag_of(Value root) { return root.id + 2; }

  const std::vector<ValueLayout>& layouts_of(const Graph& graph);
  // The tags of the bytes from this address on, of which none is outside of an allocation.
  Tag* tags_at(const void* address);
  void set_tags(void* address, std::size_t bytes, Tag tag);

  std::shared_ptr<Device> device_;
  std::map<std::uintptr_t, std::vector<Tag>> tags_;  // by the first address of an allocation
  std::vector<std::string> problems_;
  const Graph* graph_ = nullptr;  // of the program, whose kernels are made one after another
  std::vector<ValueLayout> layouts_;
};

}  // namespace ridgepoint::testing
