// Runs one kernel on the GPU on operands with chosen layouts, as backends/cpu/kernel_harness.h does on the host.
#pragma once

#include "backends/cpu/kernel_harness.h"
#include "ridgepoint/error.h"

namespace ridgepoint::testing {

// Memory of a device that holds a copy of host bytes.
class DeviceCopy {
 public:
  DeviceCopy(Device& device, std::span<const std::byte> bytes) : device_(device), bytes_(bytes.size()) {
    address_ = device.allocate_memory(bytes_);
    if (address_ == nullptr) throw Error("the GPU has no memory for a test's operands");
    device.copy_to_device(address_, bytes.data(), bytes_);
  }
  ~DeviceCopy() { device_.release_memory(address_, bytes_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  std::byte* address() const { return static_cast<std::byte*>(address_); }
  std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(bytes_);
    device_.copy_to_host(bytes.data(), address_, bytes_);
    return bytes;
  }

 private:
  Device& device_;
  std::size_t bytes_;
  void* address_ = nullptr;
};

// A kernel with one dense output. Output and workspace are filled with a pattern and end in a guard.
class CardRun {
 public:
  CardRun(Device& device, Op op, std::vector<Operand> operands, Attributes attributes = {})
      : operands_(std::move(operands)) {
    std::vector<Value> values;
    std::vector<TensorLayout> layouts;
    for (const Operand& operand : operands_) {
      values.push_back(input(graph_, std::to_string(values.size()), operand.type(), Role::data));
      layouts.push_back(operand.layout);
    }
    const Node& node = graph_.node(make_node(graph_, op, values, std::move(attributes)));
    output = HostTensor(graph_.type(node.outputs[0]));
    const std::array outputs = {dense_layout(output.type)};
    kernel_ = device.make_kernel({graph_, node, layouts, outputs});
    launch(device);
  }

  double at(std::int64_t element) const {
    return load_element(output.type.dtype,
                        output.data.data() + static_cast<std::size_t>(element) * size_bytes(output.type.dtype));
  }
  const Operand& operand(std::size_t i) const { return operands_[i]; }
  Kernel& kernel() { return *kernel_; }

  HostTensor output;

 private:
  static constexpr std::byte kGuard{0x7f};  // 3e38 as a float, so that an unwritten element is far from any result
  static constexpr std::size_t kGuardBytes = 64;

  void launch(Device& device) {
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<void*> inputs;
    for (const Operand& operand : operands_) {
      copies.push_back(std::make_unique<DeviceCopy>(device, operand.storage));
      inputs.push_back(operand.layout.immediate ? nullptr
                                                : copies.back()->address() + static_cast<std::size_t>(operand.offset) *
                                                                                 size_bytes(operand.layout.dtype));
    }
    const DeviceCopy result(device, std::vector(output.data.size() + kGuardBytes, kGuard));
    const DeviceCopy workspace(device, std::vector(kernel_->workspace_bytes() + kGuardBytes, kGuard));
    void* address = result.address();
    kernel_->launch({inputs.data(), &address, workspace.address()});
    device.synchronize();
    const std::vector<std::byte> bytes = result.read();
    std::copy_n(bytes.begin(), output.data.size(), output.data.begin());
    expect_guard(bytes, "its output");
    expect_guard(workspace.read(), "its workspace");
  }

  void expect_guard(const std::vector<std::byte>& bytes, const char* what) const {
    EXPECT_TRUE(std::all_of(bytes.end() - kGuardBytes, bytes.end(), [](std::byte b) { return b == kGuard; }))
        << kernel_->name() << " wrote past " << what;
  }

  Graph graph_;
  std::vector<Operand> operands_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace ridgepoint::testing
